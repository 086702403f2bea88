"""At every budget: the reward of every n, the best n (n*), and the smallest good enough (n_d).

Measured means are given as they are. What is said of the best rests on the draws of the reward
surface, so that neighbours in n, B and compute inform each other and a lucky (n, B) is not taken at
its word.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import MinLen
from threadpoolctl import threadpool_limits

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Confidence, Count, NotNegative, Positive, Share
from isosweep.analysis.curves import CellReading, Curve, SweepData
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.readings import Gap, gaps_of
from isosweep.analysis.statistics.collapses import with_fallen
from isosweep.analysis.statistics.intervals import Interval, central_ends, central_quantiles
from isosweep.analysis.statistics.noise import Means, gather_means
from isosweep.analysis.statistics.surface import HALF_STEP, Surface, fit_surface
from isosweep.config.analysis import AnalysisConfig, Quantity

# GRPO compares the rollouts of one problem with each other: n = 2 is the method's own bound.
SMALLEST_GENERATIONS = 2
# Of the distance between the surface and a measured mean: how far the surface may be wrong. The
# surface is smooth and takes a peak for lower than it is: in simulated default sweeps of five B,
# intervals of the best cell held 82% without this share, 92% with it.
_TOWARDS_MEAN = 1 / 3


@dataclass(frozen=True, kw_only=True)
class CellMean:
    """Mean reward over seeds of one (n, B, T) at one budget."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    num_steps: Count
    """Update steps, T."""
    mean: Share
    """Measured reward, mean over the seeds that keep their gain."""
    standard_error: NotNegative | None
    """Of the mean. Reward; null without a spread between seeds."""
    num_seeds: AtLeastOne
    """Seeds in mean."""
    num_fallen: Count = 0
    """Further seeds, which had collapsed or diverged by then: not in mean, but in what is
    expected."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One n at one budget, at its best B (by expected reward, or by mean without a surface).

    Without a surface what rests on it is None, and every n may be the best.
    """

    cell: CellMean
    """Its cell at the best B."""
    num_batches_tried: AtLeastOne
    """Values of B measured with this n."""
    expected: float | None
    """Reward to expect of a new run, by the surface; runs that fall count in it."""
    interval: tuple[float, float] | None
    """Ends of its interval. Reward."""
    probability_best: Share | None
    """That no other n measured here is better. A share; null where no other was measured."""
    indistinguishable: bool
    """Whether it may be as good as the best."""
    loss: NotNegative
    """Reward lost against the best, on average."""
    loss_upper: NotNegative | None
    """Upper bound of the loss at the confidence. Reward."""

    @property
    def num_generations(self) -> int:
        """Rollouts per problem, n."""
        return self.cell.num_generations


@dataclass(frozen=True, kw_only=True)
class BestN:
    """n*(C) and n_d(C), the smallest n that is good enough, at one budget.

    Both lie between the smallest and the largest n run at this budget. An end of an interval that
    comes nearer to such an edge than to the next n is put on the edge and censored: the n may lie
    beyond. n = 2 is no such edge, for GRPO allows no smaller n.
    """

    budget: Positive
    """In budget_unit."""
    best: AtLeastOne
    """The n of the grid with the highest expected reward."""
    candidates: tuple[AtLeastOne, ...]
    """The n of the grid that cannot be distinguished from it, ascending."""
    n_star: Interval | None
    """n*, planned or not; null without a spread between seeds."""
    n_d: Interval | None
    """The smallest n whose expected reward is within `analysis.margin` of the best; null without a
    spread between seeds."""

    def judged(self, quantity: Quantity) -> Interval | None:
        """The n that the verdict is about."""
        return self.n_d if quantity == "enough" else self.n_star

    def __str__(self) -> str:
        """n* and its interval; the candidates in braces where there is none."""
        return str(self.n_star or "{" + ", ".join(str(n) for n in self.candidates) + "}")


@dataclass(frozen=True, kw_only=True)
class BudgetFrontier:
    """What is known at one budget."""

    budget: Positive
    """In budget_unit."""
    cells: Annotated[tuple[CellMean, ...], MinLen(1)]
    """Every (n, B) that was read."""
    choices: Annotated[tuple[Choice, ...], MinLen(1)]
    """One per n, ascending, at its best B."""
    best: Choice
    """One of the choices: the best."""
    optimum: BestN
    """n* and n_d."""
    seed_sd: NotNegative | None
    """Standard deviation between seeds. Reward; null with one seed."""
    missing: tuple[AtLeastOne, ...] = ()
    """The n of the plan that were not read here, ascending: not begun, not so far, or failed."""
    fell: tuple[AtLeastOne, ...] = ()
    """The n all of whose runs had fallen by here, ascending."""

    @property
    def measured(self) -> tuple[int, ...]:
        """Every n measured at this budget, in the order of `choices`."""
        return tuple(choice.num_generations for choice in self.choices)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The n that cannot be distinguished from the best, ascending."""
        return self.optimum.candidates


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """For each budget the reward of every n, the best n, and what may be as good."""

    budgets: tuple[BudgetFrontier, ...]
    """Budgets at which some cell was read, ascending."""
    degrees_of_freedom: Count
    """Of the spread between seeds; 0 where it is not known."""
    confidence: Confidence
    """Confidence of all intervals. A share."""
    unread: tuple[AtLeastOne, ...] = ()
    """The n of the plan that were measured at no budget, ascending: not begun, or all fell."""
    fell: tuple[AtLeastOne, ...] = ()
    """Those of unread all of whose runs fell."""
    gaps: tuple[Gap, ...] = ()
    """Where no run can be read between those budgets, ascending."""
    lost: tuple[Positive, ...] = ()
    """Budgets past those above at which all runs of every n of the plan had fallen, ascending."""

    @property
    def whole_from(self) -> int:
        """Place of the first budget past all gaps."""
        budgets = [at.budget for at in self.budgets]
        return max((budgets.index(gap.after) for gap in self.gaps), default=0)

    @property
    def measured(self) -> tuple[int, ...]:
        """Every n that was measured at some budget, ascending."""
        return tuple(sorted({n for at in self.budgets for n in at.measured}))

    @property
    def optima(self) -> tuple[BestN, ...]:
        """n* and n_d at every budget."""
        return tuple(at.optimum for at in self.budgets)


def fit_budgets(
    data: SweepData, config: AnalysisConfig, means: Means | None = None
) -> tuple[Surface | None, Frontier]:
    """The reward surface (None without a spread between seeds) and what it says at every budget.

    `means`: those to fit it to, in the place of the sweep's own.
    """
    means = means or gather_means(data.readings)
    # Hundreds of small factorisations: on a busy machine threads cost 50 times what they save.
    with threadpool_limits(limits=1, user_api="blas"):
        surface = None if means is None else with_fallen(fit_surface(means), data.readings)
    return surface, fit_frontier(data.readings, means, surface, config, data.curves)


def fit_frontier(
    readings: Sequence[CellReading],
    means: Means | None,
    surface: Surface | None,
    config: AnalysisConfig,
    curves: Sequence[Curve] = (),
) -> Frontier:
    """The frontier of all readings that are not missing; `curves`: those that were read."""
    by_budget: dict[float, list[CellReading]] = {}
    for reading in sorted(readings, key=lambda reading: reading.cell.budget):
        by_budget.setdefault(reading.cell.budget, []).append(reading)
    read = [b for b, here in by_budget.items() if any(r.reward is not None for r in here)]
    fell = {budget: _all_fell(here) for budget, here in by_budget.items()}
    every = {reading.cell.num_generations for reading in readings}
    unread = every - {r.cell.num_generations for r in readings if r.reward is not None}
    gone = unread & set().union(*fell.values())
    drawn = [] if surface is None else _drawn_optima(surface, max(every - gone), config)
    budgets = []
    for k, budget in enumerate(read):
        here = by_budget[budget]
        cells = _cell_means(here, means, k)
        choices, best = _choose(cells, surface, means, k, config.confidence)
        n_star, n_d = drawn[k] if drawn else (None, None)
        measured = {cell.num_generations for cell in cells}
        planned = {reading.cell.num_generations for reading in here}
        budgets.append(
            BudgetFrontier(
                budget=budget,
                cells=cells,
                choices=choices,
                best=best,
                optimum=BestN(
                    budget=budget,
                    best=best.num_generations,
                    candidates=tuple(c.num_generations for c in choices if c.indistinguishable),
                    n_star=n_star,
                    n_d=n_d,
                ),
                seed_sd=None if means is None else float(means.seed_sd[k]),
                missing=tuple(sorted(planned - measured - fell[budget])),
                fell=tuple(sorted(fell[budget] - measured)),
            )
        )
    last = max(read, default=0.0)
    return Frontier(
        budgets=tuple(budgets),
        unread=tuple(sorted(unread)),
        fell=tuple(sorted(gone)),
        lost=tuple(b for b in fell if b > last and fell[b] == every),
        gaps=gaps_of(curves, read) if curves else (),
        degrees_of_freedom=0 if means is None else means.degrees_of_freedom,
        confidence=config.confidence,
    )


def _all_fell(readings: Sequence[CellReading]) -> set[int]:
    """The n with fallen runs at a budget, but for those with runs that have not come so far: of
    these it is not known that all fall."""
    fell = {r.cell.num_generations for r in readings if r.fallen is not None}
    not_so_far = (r for r in readings if r.fallen is None and r.reward is None)
    return fell - {r.cell.num_generations for r in not_so_far}


def _cell_means(
    readings: Sequence[CellReading], means: Means | None, place: int
) -> tuple[CellMean, ...]:
    """The mean of every (n, B) at the budget at `place` of the means."""
    found = []
    for pair, group in by_pair(readings, lambda reading: reading.cell).items():
        rewards = [reading.reward for reading in group if reading.reward is not None]
        if not rewards:
            continue
        error = None
        if means is not None:
            (spread,) = means.spread[means.places(place, [pair])].tolist()
            error = spread / math.sqrt(len(rewards))
        cell = CellMean(
            **pair._asdict(),
            num_steps=next(r.cell.num_steps for r in group if r.reward is not None),
            mean=math.fsum(rewards) / len(rewards),
            standard_error=error,
            num_seeds=len(rewards),
            num_fallen=sum(reading.fallen is not None for reading in group),
        )
        found.append(cell)
    return tuple(found)


def _choose(
    cells: Sequence[CellMean],
    surface: Surface | None,
    means: Means | None,
    place: int,
    confidence: float,
) -> tuple[tuple[Choice, ...], Choice]:
    """One for every n, and the best, at the budget at `place` of the surface."""
    groups: dict[int, list[int]] = {}
    for i, cell in enumerate(cells):
        groups.setdefault(cell.num_generations, []).append(i)
    if surface is None or means is None:
        top = [max((cells[i] for i in mine), key=lambda c: c.mean) for mine in groups.values()]
        choices = tuple(
            Choice(
                cell=cell,
                num_batches_tried=len(mine),
                expected=None,
                interval=None,
                probability_best=None,
                indistinguishable=True,
                loss=max(c.mean for c in top) - cell.mean,
                loss_upper=None,
            )
            for cell, mine in zip(top, groups.values(), strict=True)
        )
        return choices, max(choices, key=lambda choice: choice.cell.mean)
    rewards = surface.at_cells(surface.draws[:, place], cells)  # (draws, cells)
    measured = means.draws(place, [Pair.of(cell) for cell in cells], len(rewards))
    by_n, alone = (
        np.stack([drawn[:, mine].max(axis=1) for mine in groups.values()], axis=1)
        for drawn in (rewards, measured)
    )  # (draws, n)
    probability = np.bincount(by_n.argmax(axis=1), minlength=len(groups)) / len(by_n)
    best = [by_n.mean(axis=0).argmax()]
    kept = (by_n >= by_n[:, best]).mean(axis=0) >= 1 - confidence
    losses = by_n.max(axis=1, keepdims=True) - by_n
    # The surface is smooth: where reward peaks sharply it takes too little for lost. So a loss is
    # at most what both the surface and the means alone allow.
    bounds = (np.quantile(of, confidence, axis=0) for of in (losses, alone[:, best] - alone))
    upper = np.maximum(*bounds)
    chosen = []
    for k, mine in enumerate(groups.values()):
        i = max(mine, key=lambda i: float(rewards[:, i].mean()))
        choice = Choice(
            cell=cells[i],
            num_batches_tried=len(mine),
            expected=float(rewards[:, i].mean()),
            interval=_reward_interval(rewards[:, i], cells[i], confidence),
            probability_best=float(probability[k]) if len(groups) > 1 else None,
            indistinguishable=bool(kept[k]),
            loss=float(losses[:, k].mean()),
            loss_upper=float(upper[k]),
        )
        chosen.append(choice)
    return tuple(chosen), max(chosen, key=lambda choice: choice.expected or 0.0)


def _reward_interval(rewards: FloatArray, cell: CellMean, confidence: float) -> tuple[float, float]:
    """Ends of the interval of an expected reward, by draws of the surface (draws,), moved on one
    side towards the measured mean (`_TOWARDS_MEAN`)."""
    low, high = central_ends(rewards, confidence)
    if cell.num_fallen:
        return low, high
    away = _TOWARDS_MEAN * (cell.mean - float(rewards.mean()))
    return low + min(away, 0.0), high + max(away, 0.0)


def _drawn_optima(
    surface: Surface, largest: int, config: AnalysisConfig
) -> list[tuple[Interval, Interval]]:
    """n* and n_d at every budget of the surface; `largest`: of the n that may be run."""
    found, both = [], (surface.best_n, surface.smallest_n(config.margin))
    for k, measured in enumerate(surface.measured):
        grid = surface.log2_n[measured]
        n_star, n_d = (
            on_grid(interval_of_n(drawn[:, k], grid, config.confidence), 2.0**grid)
            for drawn in both
        )
        # Among larger n that were not trained so far the best may be, and what is enough with it.
        if n_star.open_above and round(2.0 ** grid[-1]) < largest:
            n_d = replace(n_d, high=float(2.0 ** grid[-1]), open_above=True)
        found.append((n_star, n_d))
    return found


def interval_of_n(log2_n: FloatArray, log2_grid: FloatArray, confidence: float) -> Interval:
    """Interval of n, inside the grid, by draws (draws,) of log2 n.

    Draws lie on the axis of the surface: each stands for half a step of it on both sides.
    """
    median, low, high = central_quantiles(log2_n, confidence)
    ends = np.clip([low - HALF_STEP, high + HALF_STEP], log2_grid[0], log2_grid[-1])
    return Interval.of(2.0 ** np.array([median, *ends]))


def on_grid(found: Interval, grid: FloatArray) -> Interval:
    """The interval of an n with ends nearer to an edge of `grid`, the n that were run, than to the
    next of them put on it, beyond which the n may lie."""

    def is_nearest(n: float, edge: float) -> bool:
        return bool(grid[np.argmin(np.abs(np.log2(grid) - math.log2(n)))] == edge)

    first, last = grid[[0, -1]].tolist()
    at_first, at_last = is_nearest(found.low, first), is_nearest(found.high, last)
    return Interval(
        median=found.median,
        low=first if at_first else found.low,
        high=last if at_last else found.high,
        open_below=at_first and first > SMALLEST_GENERATIONS,
        open_above=at_last,
    )


def worst_losses(frontier: Frontier, surface: Surface) -> FloatArray:
    """What each n of the grid costs at the worst of the budgets from its first one on: (draws, n).

    An n that was run at smaller budgets alone may cost at a larger one what the surface leaves
    open there: that nobody looked does not make it harmless.
    """
    grid = frontier.measured
    columns = [surface.column(n) for n in grid]
    batches = surface.supported[:, columns].any(axis=0)
    unseen = np.where(batches, surface.draws[:, :, columns], -np.inf).max(axis=3)
    seen = surface.by_n[:, :, columns]
    worst, begun = np.zeros((len(surface.draws), len(grid))), np.zeros(len(grid), dtype=bool)
    for k, at in enumerate(frontier.budgets):
        measured = np.isin(grid, at.measured)
        begun |= measured
        rewards = np.where(measured, seen[:, k], unseen[:, k])[:, begun]
        lost = rewards.max(axis=1, keepdims=True) - rewards
        worst[:, begun] = np.maximum(worst[:, begun], lost)
    return worst


def measured_loss(frontier: Frontier, n: int) -> float:
    """What n loses against the best measured mean, on average over the budgets that have it.

    Where noise is large the surface is flat by its prior: what was measured has to agree.
    """
    lost = []
    for at in frontier.budgets:
        mean = {choice.num_generations: choice.cell.mean for choice in at.choices}
        if n in mean:
            lost.append(max(mean.values()) - mean[n])
    return math.fsum(lost) / len(lost)


def harmless(frontier: Frontier, worst: FloatArray, margin: float) -> tuple[int, ...]:
    """The n measured at every budget that are non-inferior at all of them: surely, by `worst` (see
    `worst_losses`), and as measured they cost no more than the margin."""
    everywhere = set.intersection(*(set(at.measured) for at in frontier.budgets))
    sure = (worst <= margin).mean(axis=0) >= frontier.confidence
    return tuple(
        n
        for n, safe in zip(frontier.measured, sure.tolist(), strict=True)
        if safe and n in everywhere and measured_loss(frontier, n) <= margin
    )
