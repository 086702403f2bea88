"""n*(C) at every budget that was read, with an interval and what may lie beyond the grid."""

import math
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.intervals import Interval, central_quantiles
from isosweep.analysis.statistics.surface import HALF_STEP, Surface
from isosweep.config.analysis import Quantity

# GRPO compares the rollouts of one problem with each other: n = 2 is the method's own bound.
SMALLEST_GENERATIONS = 2


@dataclass(frozen=True, kw_only=True)
class Range:
    """Where an n lies, among those that were run."""

    interval: Interval
    """The n, planned or not, with ends put on the edges of the grid where they come near."""
    open_below: bool
    """Whether it may lie below all n that were run."""
    open_above: bool
    """Whether it may lie above them."""

    @property
    def words(self) -> str:
        """Median and interval, as 23 (8 to 51)."""
        return self.interval.open_words(below=self.open_below, above=self.open_above)

    def __str__(self) -> str:
        return self.words

    def holds(self, n: float) -> bool:
        """Whether n lies in the interval."""
        low = 0.0 if self.open_below else self.interval.low
        return low <= n <= (math.inf if self.open_above else self.interval.high)

    def nearest(self, grid: tuple[int, ...]) -> int:
        """The n of the grid nearest to the median, in doublings."""
        return min(grid, key=lambda n: abs(math.log2(n / self.interval.median)))


@dataclass(frozen=True, kw_only=True)
class BestGenerations:
    """n*(C) and the smallest n that is good enough, at one budget.

    `interval` lies between the smallest and the largest n run at this budget. An end of it that
    comes nearer to such an edge than to the next n is put on the edge and censored: n* may lie
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
    enough: Range | None = None
    """The smallest n whose expected reward is within `analysis.margin` of the best; null without a
    spread between seeds."""

    def of(self, quantity: Quantity) -> Range | None:
        """The n that is judged."""
        if quantity == "enough" or self.interval is None:
            return self.enough
        return Range(
            interval=self.interval, open_below=self.left_censored, open_above=self.right_censored
        )

    @property
    def listed(self) -> str:
        """The candidates as a set in braces."""
        return "{" + ", ".join(str(n) for n in self.candidates) + "}"

    @property
    def words(self) -> str:
        """Median and interval, as 23 (8 to 51); the candidates where there is none."""
        if self.interval is None:
            return self.listed
        return self.interval.open_words(below=self.left_censored, above=self.right_censored)


def best_generations(
    frontier: Frontier, surface: Surface | None, margin: float
) -> tuple[BestGenerations, ...]:
    """n*, and the smallest n that loses at most `margin`, at every budget of the frontier."""
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
    optima = []
    largest = max({*frontier.measured, *frontier.unread} - {*frontier.fell})
    best, enough = surface.best_n.log2_n.T, surface.smallest_n(margin).log2_n.T
    for k, at in enumerate(frontier.budgets):
        grid = surface.log2_n[surface.measured[k]]
        of_best, of_enough = (
            on_grid(interval_of_n(drawn[k], grid, frontier.confidence), 2.0**grid)
            for drawn in (best, enough)
        )
        # Among larger n that were not trained so far the best may be, and what is enough with it.
        behind = of_best.open_above and round(2.0 ** grid[-1]) < largest
        optima.append(
            BestGenerations(
                budget=at.budget,
                best=at.best.num_generations,
                candidates=at.candidates,
                interval=of_best.interval,
                left_censored=of_best.open_below,
                right_censored=of_best.open_above,
                enough=_up_to(grid[-1], of_enough) if behind else of_enough,
            )
        )
    return tuple(optima)


def interval_of_n(log2_n: FloatArray, log2_grid: FloatArray, confidence: float) -> Interval:
    """Interval of n, inside the grid, by draws (draws,) of log2 n.

    Draws lie on the axis of the surface: each stands for half a step of it on both sides.
    """
    median, low, high = central_quantiles(log2_n, confidence)
    ends = np.clip([low - HALF_STEP, high + HALF_STEP], log2_grid[0], log2_grid[-1])
    return Interval.of(2.0 ** np.array([median, *ends]))


def on_grid(found: Interval, grid: FloatArray) -> Range:
    """An n with ends nearer to an edge of `grid`, the n that were run, than to the next of them put
    on it, beyond which it may lie."""
    at_low, at_high = _nearest(grid, found.low) == grid[0], _nearest(grid, found.high) == grid[-1]
    interval = Interval(
        median=found.median,
        low=float(grid[0] if at_low else found.low),
        high=float(grid[-1] if at_high else found.high),
    )
    return Range(
        interval=interval,
        open_below=bool(at_low and grid[0] > SMALLEST_GENERATIONS),
        open_above=bool(at_high),
    )


def _up_to(log2_last: float, found: Range) -> Range:
    """The same n, which may be any up to the last n that was run, and lie above it."""
    interval = replace(found.interval, high=float(2.0**log2_last))
    return replace(found, interval=interval, open_above=True)


def _nearest(grid: FloatArray, n: float) -> float:
    """The n of the grid nearest to `n`, in doublings."""
    return float(grid[np.argmin(np.abs(np.log2(grid) - math.log2(n)))])
