"""Where the best n stops growing with compute, or why the data do not show it.

Two claims are kept apart: that n* grew (or fell, or did not change), and that it has stopped. Each
is a share of the draws of the reward surface's n*(C), by `growth`.
"""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.bounds import AtLeastOne
from isosweep.analysis.statistics.frontier import (
    BudgetFrontier,
    Frontier,
    harmless,
    worst_losses,
)
from isosweep.analysis.statistics.growth import Growth, describe_growth, settled_from
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import BestGenerations, best_generations
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.statistics.verdict import Reason, ReasonKind, Verdict, judge
from isosweep.config.analysis import AnalysisConfig, Quantity
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The answer: how the n that is judged goes with compute, and where it stops growing."""

    verdict: Verdict
    """Of the n that is judged (`reason.quantity`), as `Answer.verdict` has them."""
    reason: Reason
    """Why, as a kind with its numbers."""
    optima: tuple[BestGenerations, ...]
    """n* and the smallest n that is good enough, at every budget that was read, ascending."""
    growth: Growth | None = None
    """What was claimed with what probability; null where the sweep is too small."""
    plateau: Interval | None = None
    """n at which it settled: that of the largest budgets; null unless (probably) saturated."""
    settles_at: Interval | None = None
    """Compute from which on it has, in budget_unit; null unless (probably) saturated."""
    harmless: tuple[AtLeastOne, ...] = ()
    """The n that cost no more than the margin at any budget."""

    @property
    def quantity(self) -> Quantity:
        """The n that is judged."""
        return self.reason.quantity

    @property
    def end_rate(self) -> Interval | None:
        """Its growth at the largest budgets, in doublings per decade."""
        return self.growth.rate if self.growth else None


def find_saturation(
    frontier: Frontier, surface: Surface | None, config: AnalysisConfig
) -> Saturation:
    """The verdict on the n that `config.quantity` names, with the reason for it."""
    margin = config.margin
    optima = best_generations(frontier, surface, margin)
    lack = _too_little(frontier)
    if lack is not None or surface is None:
        reason = Reason(
            kind=lack or "no spread",
            confidence=frontier.confidence,
            quantity=config.quantity,
            margin=margin,
            measured=frontier.measured,
            fell=frontier.fell,
            num_budgets=len(_judged(frontier)),
        )
        return Saturation(verdict="not identified", reason=reason, optima=optima)
    unread = [n for n in frontier.unread if n not in frontier.fell]
    grid, drawn = np.log2(frontier.measured), surface.smallest_n(config.tolerance, unread)
    growth = describe_growth(
        drawn,
        surface.budgets,
        grid,
        frontier.confidence,
        config.growth_bound,
        frontier.whole_from,
    )
    worst = worst_losses(frontier, surface)
    verdict, because = judge(frontier, optima, growth, worst, margin, config.quantity)
    saturated = verdict in ("saturated", "probably saturated")
    return Saturation(
        verdict=verdict,
        reason=because,
        optima=optima,
        growth=growth,
        plateau=growth.end if saturated else None,
        settles_at=settled_from(drawn.log2_n, surface.budgets, frontier.confidence)
        if saturated
        else None,
        harmless=harmless(frontier, worst, margin),
    )


def _judged(frontier: Frontier) -> list[BudgetFrontier]:
    """The budgets at which enough n were measured to tell a best n from an edge."""
    return [at for at in frontier.budgets if len(at.measured) >= MIN_GENERATIONS]


def _too_little(frontier: Frontier) -> ReasonKind | None:
    """What a sweep that is too small to be judged lacks, or None."""
    if not frontier.budgets:
        return "all fell" if frontier.fell else "no record"
    if len(frontier.measured) < MIN_GENERATIONS:
        return "few n"
    if len(_judged(frontier)) < MIN_BUDGETS:
        return "few budgets"
    if all(at.seed_sd is None for at in frontier.budgets):
        seeds = max(cell.num_seeds for at in frontier.budgets for cell in at.cells)
        return "no spread" if seeds >= MIN_SEEDS else "one seed"
    return None
