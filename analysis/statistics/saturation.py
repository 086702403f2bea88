"""Where the best n stops growing with compute, or why the data do not show it."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Sentence
from isosweep.analysis.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.intervals import Interval, central_quantiles
from isosweep.analysis.statistics.laws import Laws, weigh_laws
from isosweep.analysis.statistics.surface import Surface

Verdict = Literal["saturated", "growing", "flat", "not identified"]

# GRPO compares the rollouts of one problem with each other: n = 2 is the method's own bound.
SMALLEST_GENERATIONS = 2
# A fall of n* by this much, in doublings, is a fall.
_FALL = 1.0


@dataclass(frozen=True, kw_only=True)
class BestGenerations:
    """n*(C) at one budget.

    `interval` lies between the smallest and the largest n of the sweep. An end of it that comes
    nearer to an edge of the grid than to the next n is put on the edge and censored: n* may lie
    beyond. n = 2 is no such edge, for GRPO allows no smaller n.
    """

    budget: Positive
    """In budget_unit."""
    best: AtLeastOne
    """The n of the grid with the highest expected reward."""
    candidates: tuple[AtLeastOne, ...]
    """The n of the grid that cannot be distinguished from it, ascending."""
    interval: Interval | None
    """n*, planned or not; null without a spread between seeds."""
    left_censored: bool
    """Whether n* may lie below the grid."""
    right_censored: bool
    """Whether n* may lie beyond the grid."""

    @property
    def listed(self) -> str:
        """The candidates as a set in braces."""
        return "{" + ", ".join(str(n) for n in self.candidates) + "}"

    @property
    def words(self) -> str:
        """The interval in words; the candidates where there is none."""
        if self.interval is None:
            return self.listed
        low, high = f"{self.interval.low:.3g}", f"{self.interval.high:.3g}"
        low = f"{low} or less" if self.left_censored else low
        high = f"{high} or more" if self.right_censored else high
        return f"{low} to {high}"


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The answer: n*(C), and where it stops growing."""

    verdict: Verdict
    """saturated: n* grew and settled; growing: it grows and no end is shown; flat: it does not
    change as far as matters; not identified: the records do not decide."""
    reason: Sentence
    """In sentences."""
    optima: tuple[BestGenerations, ...]
    """n* at every budget that was read, ascending."""
    plateau: Interval | None = None
    """n at which n* settled; null unless saturated."""
    settles_at: Interval | None = None
    """Compute from which on it has, in budget_unit; null unless saturated."""
    compute: tuple[float, ...] = ()
    """Compute of the points of curve, in budget_unit."""
    curve: tuple[Interval, ...] = ()
    """n*(C) by the laws."""
    laws: Laws | None = None
    """Null where the sweep is too small to weigh laws, and for the Playbook's method."""
    harmless: tuple[AtLeastOne, ...] = ()
    """The n that cost no more than the margin at any budget."""


def find_saturation(frontier: Frontier, surface: Surface | None, margin: float) -> Saturation:
    """The verdict, with its reason in words and numbers.

    `margin` is the reward difference too small to matter.
    """
    optima = _optima(frontier, surface)
    refusal = _too_little(frontier)
    if refusal is not None or surface is None:
        reason = refusal or "No spread between seeds is known."
        return Saturation(verdict="not identified", reason=reason, optima=optima)
    grid = np.log2(frontier.measured)
    laws = weigh_laws(surface.log2_best_n, surface.budgets, grid, frontier.confidence)
    worst = _losses(frontier, surface)
    harmless = _harmless(frontier, worst, margin)
    verdict, reason = _judge(frontier, surface, optima, laws, (worst, harmless), margin)
    return Saturation(
        verdict=verdict,
        reason=reason,
        optima=optima,
        plateau=laws.plateau if verdict == "saturated" else None,
        settles_at=laws.settles_at if verdict == "saturated" else None,
        compute=laws.compute,
        curve=laws.curve,
        laws=laws,
        harmless=harmless,
    )


def _optima(frontier: Frontier, surface: Surface | None) -> tuple[BestGenerations, ...]:
    if surface is None:
        return tuple(
            BestGenerations(
                budget=at.budget,
                best=at.best.num_generations,
                candidates=at.candidates,
                interval=None,
                left_censored=at.measured[0] > SMALLEST_GENERATIONS,
                right_censored=True,
            )
            for at in frontier.budgets
        )
    grid = np.array(frontier.measured)
    optima = []
    for at, draws in zip(frontier.budgets, surface.log2_best_n.T, strict=True):
        median, low, high = (2.0 ** central_quantiles(draws, frontier.confidence)).tolist()
        at_low, at_high = _nearest(grid, low) == grid[0], _nearest(grid, high) == grid[-1]
        interval = Interval(
            median=median,
            low=float(grid[0] if at_low else low),
            high=float(grid[-1] if at_high else high),
        )
        optima.append(
            BestGenerations(
                budget=at.budget,
                best=at.best.num_generations,
                candidates=at.candidates,
                interval=interval,
                left_censored=bool(at_low and grid[0] > SMALLEST_GENERATIONS),
                right_censored=bool(at_high),
            )
        )
    return tuple(optima)


def _nearest(grid: FloatArray, n: float) -> int:
    """The n of the grid nearest to `n`, in doublings."""
    return int(grid[np.argmin(np.abs(np.log2(grid) - math.log2(n)))])


def _too_little(frontier: Frontier) -> str | None:
    """Why the sweep is too small to be judged, or None."""
    if not frontier.budgets:
        return "No cell has been read: no run has reached a budget yet."
    judged = [at for at in frontier.budgets if len(at.measured) >= MIN_GENERATIONS]
    measured = frontier.measured
    if len(measured) < MIN_GENERATIONS:
        listed = ", ".join(map(str, measured))
        return (
            f"Only {len(measured)} n measured (n = {listed}); "
            f"at least {MIN_GENERATIONS} are needed to distinguish an interior best n from an edge."
        )
    if len(judged) < MIN_BUDGETS:
        return (
            f"Too few budgets with {MIN_GENERATIONS} or more n measured: {len(judged)}; "
            f"at least {MIN_BUDGETS} are needed to show growth and its end."
        )
    if all(at.seed_sd is None for at in frontier.budgets):
        seeds = max(cell.num_seeds for at in frontier.budgets for cell in at.cells)
        if seeds >= MIN_SEEDS:
            return (
                "Every cell's seeds agree to the last digit: there is no spread between seeds "
                "to judge a difference by."
            )
        return (
            "Every cell was measured with one seed: without a spread between seeds, no n can "
            f"be distinguished from the best. At least {MIN_SEEDS} seeds are needed."
        )
    return None


def _losses(frontier: Frontier, surface: Surface) -> FloatArray:
    """What each n of the grid costs at the worst of the budgets it was measured at: (draws, n)."""
    grid = frontier.measured
    worst = np.zeros((len(surface.draws), len(grid)))
    for k, at in enumerate(frontier.budgets):
        rewards = surface.by_n[:, k][:, [surface.column(n) for n in at.measured]]
        places = [grid.index(n) for n in at.measured]
        lost = rewards.max(axis=1, keepdims=True) - rewards
        worst[:, places] = np.maximum(worst[:, places], lost)
    return worst


def _harmless(frontier: Frontier, worst: FloatArray, margin: float) -> tuple[int, ...]:
    """The n measured at every budget that surely cost no more than the margin at any."""
    everywhere = set.intersection(*(set(at.measured) for at in frontier.budgets))
    sure = (worst <= margin).mean(axis=0) >= frontier.confidence
    grid = frontier.measured
    return tuple(n for n, safe in zip(grid, sure, strict=True) if safe and n in everywhere)


def _judge(
    frontier: Frontier,
    surface: Surface,
    optima: tuple[BestGenerations, ...],
    laws: Laws,
    costs: tuple[FloatArray, tuple[int, ...]],
    margin: float,
) -> tuple[Verdict, str]:
    """`costs`: of every n at its worst budget (draws, n), and the n that are harmless."""
    confidence = frontier.confidence
    grid = frontier.measured
    worst, harmless = costs
    if (worst.max(axis=1) <= margin).mean() >= confidence:
        return "flat", (
            f"No effect of n detected: at every budget, each n measured there ({grid[0]} to "
            f"{grid[-1]}) costs at most {margin:g} of reward against the best, with "
            f"{confidence:.0%} confidence. Nothing is said about n outside this grid."
        )
    refusal = _beyond_laws(frontier, surface, optima, laws)
    if refusal is not None:
        return "not identified", refusal
    first, last = optima[0], optima[-1]
    ends = _from_first_to_last(optima)
    if laws.settled >= confidence and laws.plateau and laws.settles_at:
        return "saturated", (
            f"The best n grew {ends}, and settled at n = {_in_words(laws.plateau)} from "
            f"{_in_words(laws.settles_at)} on (medians and {confidence:.0%} intervals; probability "
            f"that it settled inside the grid: {laws.settled:.1%})."
        )
    beyond = f" It may lie beyond n = {grid[-1]}, the largest of the grid: add larger n."
    if laws.growing >= confidence:
        return "growing", (
            f"The best n grew {ends}, and no end of its growth is shown: probability that it had "
            f"not settled inside the grid by the last budget {laws.growing:.1%}."
            + (beyond if last.right_censored else "")
        )
    interior = [n for n in harmless if n != grid[-1]]
    # An n that is good enough everywhere is no news where growth is about as likely as none.
    likely = laws.constant > 0.5
    if interior and likely and not _at_smallest(interior, grid, optima):
        n = min(interior, key=lambda n: worst[:, grid.index(n)].mean())
        cost = float(np.quantile(worst[:, grid.index(n)], confidence))
        return "flat", (
            f"The best n is constant for all that matters: n = {n} costs at most {cost:.3f} of "
            f"reward against any n of the grid at any budget, within the margin of {margin:g}, "
            f"with {confidence:.0%} confidence."
        )
    if laws.constant >= confidence:
        return "flat", (
            f"The best n does not change with compute: {first.words} at {first.budget:.3g}, "
            f"{last.words} at {last.budget:.3g}; probability that it grew by a doubling or more "
            f"{1 - laws.constant:.1%}."
        )
    return "not identified", _undecided(optima, laws, harmless, grid)


def _beyond_laws(
    frontier: Frontier, surface: Surface, optima: tuple[BestGenerations, ...], laws: Laws
) -> str | None:
    """Why no law of n*(C) can be weighed: n* falls, or lies at an edge, or no law fits it."""
    grid = frontier.measured
    first, last = optima[0], optima[-1]
    fall = _falls(frontier, surface)
    if fall is not None:
        high, low = optima[fall[0]], optima[fall[1]]
        return (
            f"The best n falls from {high.words} at {high.budget:.3g} to {low.words} at "
            f"{low.budget:.3g}: n*(C) is not monotone, so no saturation is defined."
        )
    edge = _always_at_edge(optima, grid)
    if edge is not None:
        return (
            f"At every budget the best n may be n = {edge}, an edge of the grid, or lie beyond it: "
            f"it is {first.words} at {first.budget:.3g} and {last.words} at {last.budget:.3g}. Add "
            f"{'larger' if edge == grid[-1] else 'smaller'} n."
        )
    if not laws.explain:
        return (
            f"The best n changes {_from_first_to_last(optima)}, and neither a constant, nor a "
            f"power law, nor a sigmoid explains how (chance of a misfit as large: {laws.fit:.1g})."
        )
    return None


def _from_first_to_last(optima: tuple[BestGenerations, ...]) -> str:
    first, last = optima[0], optima[-1]
    return f"from {first.words} at {first.budget:.3g} to {last.words} at {last.budget:.3g}"


def _always_at_edge(optima: tuple[BestGenerations, ...], grid: tuple[int, ...]) -> int | None:
    """The edge of the grid at which the best n lies at every budget, or None."""
    if all(at.right_censored and at.best == grid[-1] for at in optima):
        return grid[-1]
    if all(at.left_censored and at.best == grid[0] for at in optima):
        return grid[0]
    return None


def _at_smallest(
    interior: list[int], grid: tuple[int, ...], optima: tuple[BestGenerations, ...]
) -> bool:
    """Whether the only harmless n is the grid's smallest and the best may lie below it."""
    return interior == [grid[0]] and all(at.left_censored for at in optima)


def _falls(frontier: Frontier, surface: Surface) -> tuple[int, int] | None:
    """Two budgets between which n* falls, if any does with the sweep's confidence."""
    best = surface.log2_best_n
    count = best.shape[1]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    # One false fall among all pairs is to be no more likely than one among one.
    sure = 1 - (1 - frontier.confidence) / max(1, len(pairs))
    falling = {pair: float((best[:, pair[1]] <= best[:, pair[0]] - _FALL).mean()) for pair in pairs}
    pair = max(falling, key=lambda pair: falling[pair])
    return pair if falling[pair] >= sure else None


def _in_words(interval: Interval) -> str:
    return f"{interval.median:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def _undecided(
    optima: tuple[BestGenerations, ...],
    laws: Laws,
    harmless: tuple[int, ...],
    grid: tuple[int, ...],
) -> str:
    """Why nothing is claimed, and what would decide it."""
    last = optima[-1]
    chances = (
        f"settled inside the grid {laws.settled:.0%}, still growing {laws.growing:.0%}, "
        f"constant {laws.constant:.0%}"
    )
    text = f"The records do not show how the best n changes with compute: {chances}. "
    text += f"At {last.budget:.3g} it is {last.words}."
    if last.right_censored and last.best == grid[-1]:
        return text + f" It may lie beyond n = {grid[-1]}, the largest of the grid: add larger n."
    if laws.settled > laws.constant and laws.settled + laws.growing > 0.8:
        return text + " Larger budgets would distinguish an end of the growth from a pause."
    if harmless:
        listed = ", ".join(map(str, harmless))
        text += f" At no budget does n = {listed} cost more than the margin."
    return text + " More seeds, or more held-out problems, would decide."
