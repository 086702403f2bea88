"""For each budget: the mean reward of every (n, B), the best, and what cannot be told from it.

Selection is kept honest in two ways. The set of candidate n compares every (n, B) with every
other, so the number of comparisons counts the choices of B too; and one seed variance a budget,
pooled over its cells, stands in for the spread of each, so that a lucky pair of seeds does not
shrink its own error. Budgets differ: runs spread most where they rise fastest.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from isosweep.analysis.load import CellReading, FloatArray

# Below so many degrees of freedom a budget borrows the variance pooled over the sweep.
LEAST_FREEDOM = 4
# Draws of the posterior: a probability is then known to about 0.005.
DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class CellMean:
    """Mean reward over seeds of one (n, B, T) at one budget; the error is None without seeds."""

    num_generations: int
    problems_per_batch: int
    num_steps: int
    mean: float
    standard_error: float | None
    num_seeds: int


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One n at one budget, with its best B.

    `indistinguishable`: n belongs to the set that holds the best n with the sweep's confidence.
    `loss`: reward lost against the best; `loss_upper`: its simultaneous upper confidence bound.
    `probability_best`: posterior probability that some B makes this n the best.
    """

    cell: CellMean
    num_batches_tried: int
    indistinguishable: bool
    loss: float
    loss_upper: float | None
    probability_best: float | None

    @property
    def num_generations(self) -> int:
        return self.cell.num_generations


@dataclass(frozen=True, kw_only=True)
class BudgetFrontier:
    """The frontier at one budget. `choices`: one per measured n, ascending.

    `interval` holds the best cell's mean at the sweep's confidence, without the (upward) bias
    of having been selected; None with one seed. `seed_sd`: spread between seeds, in reward, used
    here, with its degrees of freedom.
    """

    budget: float
    cells: tuple[CellMean, ...]
    choices: tuple[Choice, ...]
    best: CellMean
    interval: tuple[float, float] | None
    seed_sd: float | None
    degrees_of_freedom: int

    @property
    def measured(self) -> tuple[int, ...]:
        return tuple(choice.num_generations for choice in self.choices)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The n that cannot be told apart from the best, ascending."""
        return tuple(c.num_generations for c in self.choices if c.indistinguishable)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Budgets at which some cell was read, ascending; `seed_sd` is a reward, None with one seed.

    `seed_sd` is pooled over the sweep; `degrees_of_freedom` counts each (n, B) once: budgets of
    one run share its luck.
    """

    budgets: tuple[BudgetFrontier, ...]
    seed_sd: float | None
    degrees_of_freedom: int
    confidence: float


def fit_frontier(readings: Iterable[CellReading], confidence: float) -> Frontier:
    """The frontier of all readings that are not missing."""
    groups: dict[float, dict[tuple[int, int], list[CellReading]]] = {}
    for reading in readings:
        if reading.reward is not None:
            cell = reading.cell
            at_budget = groups.setdefault(cell.budget, {})
            key = (cell.num_generations, cell.problems_per_batch)
            at_budget.setdefault(key, []).append(reading)
    seed_sd, freedom = _pooled_spread([g for at in groups.values() for g in at.items()])
    budgets = []
    for budget in sorted(groups):
        own = _pooled_spread(list(groups[budget].items()))
        spread = own if own[1] >= LEAST_FREEDOM else (seed_sd, freedom)
        budgets.append(_at_budget(budget, list(groups[budget].values()), *spread, confidence))
    return Frontier(
        budgets=tuple(budgets),
        seed_sd=seed_sd,
        degrees_of_freedom=freedom,
        confidence=confidence,
    )


def _rewards(group: Iterable[CellReading]) -> list[float]:
    return [reading.reward for reading in group if reading.reward is not None]


def _pooled_spread(
    groups: Sequence[tuple[tuple[int, int], list[CellReading]]],
) -> tuple[float | None, int]:
    """Standard deviation between seeds, in reward, and its degrees of freedom.

    Variances are pooled over all budgets, but the readings of one run are not independent, so
    each (n, B) adds its seeds - 1 only once. None when no cell has two seeds, or all agree to
    the last digit: then there is no spread to judge by.
    """
    squares, weight = 0.0, 0
    freedom: dict[tuple[int, int], int] = {}
    for key, group in groups:
        rewards = np.array(_rewards(group))
        if rewards.size >= 2:
            squares += float(((rewards - rewards.mean()) ** 2).sum())
            weight += rewards.size - 1
            freedom[key] = max(freedom.get(key, 0), int(rewards.size) - 1)
    if weight == 0 or squares / weight < 1e-18:
        return None, 0
    return math.sqrt(squares / weight), sum(freedom.values())


def _at_budget(
    budget: float,
    groups: list[list[CellReading]],
    seed_sd: float | None,
    freedom: int,
    confidence: float,
) -> BudgetFrontier:
    cells = sorted(
        (_cell_mean(group, seed_sd) for group in groups),
        key=lambda cell: (cell.num_generations, cell.problems_per_batch),
    )
    best = max(cells, key=lambda cell: cell.mean)
    upper = _loss_bounds(cells, seed_sd, freedom, confidence)
    probability = _probability_best(cells, seed_sd, freedom)
    choices = []
    for n in sorted({cell.num_generations for cell in cells}):
        mine = [i for i, cell in enumerate(cells) if cell.num_generations == n]
        chosen = max(mine, key=lambda i: cells[i].mean)
        choices.append(
            Choice(
                cell=cells[chosen],
                num_batches_tried=len(mine),
                indistinguishable=upper is None or any(upper[i][0] for i in mine),
                loss=best.mean - cells[chosen].mean,
                loss_upper=None if upper is None else upper[chosen][1],
                probability_best=None if probability is None else probability[n],
            )
        )
    interval = None
    if best.standard_error is not None:
        half = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * best.standard_error
        interval = (best.mean - half, best.mean + half)
    return BudgetFrontier(
        budget=budget,
        cells=tuple(cells),
        choices=tuple(choices),
        best=best,
        interval=interval,
        seed_sd=seed_sd,
        degrees_of_freedom=freedom,
    )


def _cell_mean(group: list[CellReading], seed_sd: float | None) -> CellMean:
    rewards = _rewards(group)
    cell = group[0].cell
    return CellMean(
        num_generations=cell.num_generations,
        problems_per_batch=cell.problems_per_batch,
        num_steps=cell.num_steps,
        mean=math.fsum(rewards) / len(rewards),
        standard_error=None if seed_sd is None else seed_sd / math.sqrt(len(rewards)),
        num_seeds=len(rewards),
    )


def _loss_bounds(
    cells: Sequence[CellMean], seed_sd: float | None, freedom: int, confidence: float
) -> list[tuple[bool, float]] | None:
    """Per cell: whether it may be the best, and the upper bound of its loss against the best.

    Multiple comparisons with the best (Hsu 1981) with Bonferroni's t quantile over the cells it
    is compared with: the truly best cell is kept with at least `confidence`. None without seeds.
    """
    if seed_sd is None:
        return None
    others = max(1, len(cells) - 1)
    quantile = float(stats.t.ppf(1 - (1 - confidence) / others, freedom))
    bounds = []
    for mine in cells:
        kept, worst = True, 0.0
        for other in cells:
            if other is mine:
                continue
            error = seed_sd * math.sqrt(1 / mine.num_seeds + 1 / other.num_seeds)
            lead = other.mean - mine.mean
            kept = kept and lead <= quantile * error
            worst = max(worst, lead + quantile * error)
        bounds.append((kept, worst))
    return bounds


def _probability_best(
    cells: Sequence[CellMean], seed_sd: float | None, freedom: int
) -> dict[int, float] | None:
    """Probability, for each n, that one of its cells is the best; None without seeds.

    Monte Carlo from the posterior under the usual flat prior: one variance for all cells (scaled
    inverse chi-square), normal means given it, so every mean is t distributed. Seeded.
    """
    if seed_sd is None:
        return None
    rng = np.random.default_rng(0)
    scale = np.sqrt(freedom / rng.chisquare(freedom, size=DRAWS))  # (draws,)
    means = np.array([cell.mean for cell in cells])  # (cells,)
    errors = np.array([seed_sd / math.sqrt(cell.num_seeds) for cell in cells])
    noise: FloatArray = rng.standard_normal((DRAWS, len(cells)))
    winners = np.argmax(means + noise * errors * scale[:, None], axis=1)
    won = np.array([cell.num_generations for cell in cells])[winners]
    return {n: float((won == n).mean()) for n in sorted({c.num_generations for c in cells})}
