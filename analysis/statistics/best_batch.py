"""B*(C) where n x B is fixed: n*(C) read the other way round, for B* = (n x B) / n*.

Along n x B = P every n has one B, so that the best B is what the best n leaves: the draws of n*(C)
that the reward surface of these runs gives are draws of P / B*(C) (IsoCompute Playbook, arXiv
2603.12151, figures 8, 18 and 19), and its slope at the largest budgets is that of n* with the other
sign (`growth`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Positive
from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Paired
from isosweep.analysis.statistics.best_n import BestN, Frontier, fit_budgets
from isosweep.analysis.statistics.growth import end_places, end_rates
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import Surface
from isosweep.config.analysis import AnalysisConfig
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS


@dataclass(frozen=True, kw_only=True)
class BestBatch:
    """B*(C) at one budget, for one n x B."""

    budget: Positive
    """In budget_unit."""
    best: AtLeastOne
    """The B of the grid with the highest expected reward."""
    interval: Interval | None
    """B*, planned or not; null without a spread between seeds."""

    @classmethod
    def of(cls, product: int, at: BestN) -> "BestBatch":
        """What n* leaves of n x B = `product`: a large n goes with a small B."""
        n, interval = at.n_star, None
        if n is not None:
            interval = Interval(
                median=product / n.median,
                low=product / n.high,
                high=product / n.low,
                open_below=n.open_above,
                open_above=n.open_below,
            )
        return cls(budget=at.budget, best=product // at.best, interval=interval)

    def __str__(self) -> str:
        """Median and interval; the best of the grid where there is none."""
        return str(self.interval or self.best)


@dataclass(frozen=True, kw_only=True)
class BatchLaw:
    """The best B against compute, for one n x B."""

    completions_per_step: AtLeastOne
    """n x B."""
    optima: tuple[BestBatch, ...]
    """B* at every budget that was read, ascending."""
    slope: Interval | None = None
    """Of log2 B* over log10 C at the largest budgets, in doublings per decade; null where B* may
    lie beyond the grid there."""
    since: Positive | None = None
    """The first of those budgets, in budget_unit."""
    lacks: Literal["no spread", "few budgets", "open"] | None = None
    """Why there is no slope: without a spread between seeds; with too few budgets; open: B* may lie
    beyond the grid at open_at."""
    open_at: Positive | None = None
    """The first of the largest budgets at which it may, in budget_unit."""


def fixed_products(cells: Iterable[Paired]) -> tuple[int, ...]:
    """Every n x B, ascending, where each is run with three n or more; () in other grids."""
    runs: dict[int, set[int]] = {}
    for cell in cells:
        runs.setdefault(_product(cell), set()).add(cell.num_generations)
    if any(len(generations) < MIN_GENERATIONS for generations in runs.values()):
        return ()
    return tuple(sorted(runs))


def batch_laws(
    data: SweepData, config: AnalysisConfig, surface: Surface | None, frontier: Frontier
) -> tuple[BatchLaw, ...]:
    """One for every n x B of a sweep that fixes it; `surface` and `frontier` are of all of it."""
    products = fixed_products(data.plan.cells)
    if len(products) == 1:
        return (_batch_law(products[0], surface, frontier),)
    laws = []
    for product in products:
        along = tuple(r for r in data.readings if _product(r.cell) == product)
        laws.append(_batch_law(product, *fit_budgets(replace(data, readings=along), config)))
    return tuple(laws)


def _product(cell: Paired) -> int:
    return cell.num_generations * cell.problems_per_batch


def _batch_law(product: int, surface: Surface | None, frontier: Frontier) -> BatchLaw:
    """The law of runs that all have n x B = `product`."""
    optima = tuple(BestBatch.of(product, at) for at in frontier.optima)
    law = BatchLaw(completions_per_step=product, optima=optima)
    if surface is None:
        return replace(law, lacks="no spread")
    if len(optima) < MIN_BUDGETS:
        return replace(law, lacks="few budgets")
    end = [optima[k] for k in np.flatnonzero(end_places(surface.budgets))]
    for at in end:
        if at.interval is None or at.interval.open_below or at.interval.open_above:
            return replace(law, lacks="open", open_at=at.budget)
    slopes = -end_rates(surface.best_n, surface.budgets)
    slope = Interval.central(slopes, frontier.confidence)
    return replace(law, slope=slope, since=end[0].budget)
