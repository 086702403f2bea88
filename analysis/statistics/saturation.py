"""Where the best n stops growing with compute, or why the data do not show it.

Two claims are kept apart: that n* grew (or fell, or did not change), and that it has stopped. Each
is a share of the draws of the reward surface's n*(C), by `growth`; no law takes part. Laws describe
what is claimed: they say where n* settled, and what curve it followed.
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
from isosweep.analysis.statistics.growth import Growth, describe_growth
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.laws import Laws, weigh_laws
from isosweep.analysis.statistics.optima import BestGenerations, best_generations
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.statistics.verdict import Reason, ReasonKind, Verdict, judge
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The answer: n*(C), and where it stops growing."""

    verdict: Verdict
    """saturated: n* grew and has stopped; growing: it grew and still does; grew: whether it has
    stopped is open; fell: it ends below an earlier one; constant: it does not change; steady: it
    does not from where the n that were run surely hold it, and before that is not known; n does
    not matter: no n costs more than the margin; not identified: the records do not decide."""
    reason: Reason
    """Why, as a kind with its numbers."""
    optima: tuple[BestGenerations, ...]
    """n* at every budget that was read, ascending."""
    growth: Growth | None = None
    """What was claimed with what probability; null where the sweep is too small, and for the
    Playbook's method."""
    plateau: Interval | None = None
    """n at which n* settled: that of the largest budgets; null unless saturated."""
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

    @property
    def end_rate(self) -> Interval | None:
        """Growth of n* at the largest budgets, in doublings per decade."""
        return self.growth.rate if self.growth else None


def find_saturation(
    frontier: Frontier, surface: Surface | None, margin: float, bound: float
) -> Saturation:
    """The verdict, with the reason for it.

    `margin` is the reward difference too small to matter, `bound` the growth, in doublings per
    decade, below which n* has stopped.
    """
    optima = best_generations(frontier, surface)
    lack = _too_little(frontier)
    if lack is not None or surface is None:
        reason = Reason(
            kind=lack or "no spread",
            confidence=frontier.confidence,
            measured=frontier.measured,
            fell=frontier.fell,
            num_budgets=len(_judged(frontier)),
        )
        return Saturation(verdict="not identified", reason=reason, optima=optima)
    grid, draws = np.log2(frontier.measured), surface.log2_best_n
    laws = weigh_laws(draws, surface.budgets, grid, frontier.confidence)
    growth = describe_growth(
        draws,
        surface.budgets,
        grid,
        frontier.confidence,
        bound,
        surface.open_above,
        surface.open_below,
    )
    worst = worst_losses(frontier, surface)
    verdict, because = judge(frontier, optima, growth, worst, margin)
    saturated = verdict == "saturated"
    return Saturation(
        verdict=verdict,
        reason=because,
        optima=optima,
        growth=growth,
        plateau=growth.end if saturated else None,
        settles_at=laws.settles_at if saturated else None,
        compute=laws.compute,
        curve=laws.curve,
        laws=laws,
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
