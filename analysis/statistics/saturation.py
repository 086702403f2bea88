"""Where the best n stops growing with compute, or why the data do not show it.

Two claims are kept apart: that n* grew (or fell, or did not change), and that it has stopped. Each
is a share of the draws of the reward surface's n*(C), by `growth`; no law takes part. Laws describe
what is claimed: they say where n* settled, and what curve it followed.
"""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Sentence
from isosweep.analysis.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.growth import Growth, describe_growth
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.laws import Laws, weigh_laws
from isosweep.analysis.statistics.losses import harmless, worst_losses
from isosweep.analysis.statistics.optima import BestGenerations, best_generations
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.statistics.verdict import Verdict, judge


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The answer: n*(C), and where it stops growing."""

    verdict: Verdict
    """saturated: n* grew and has stopped; growing: it grew and still does; grew: whether it has
    stopped is open; fell: it ends below an earlier one; constant: it does not change; steady: it
    does not from where the n that were run surely hold it, and before that is not known; n does
    not matter: no n costs more than the margin; not identified: the records do not decide."""
    reason: Sentence
    """In sentences."""
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
    """The verdict, with its reason in words and numbers.

    `margin` is the reward difference too small to matter, `bound` the growth, in doublings per
    decade, below which n* has stopped.
    """
    optima = best_generations(frontier, surface)
    refusal = _too_little(frontier)
    if refusal is not None or surface is None:
        reason = refusal or "No spread between seeds is known."
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
    safe = harmless(frontier, worst, margin)
    verdict, reason = judge(frontier, optima, growth, laws, worst, margin)
    saturated = verdict == "saturated"
    return Saturation(
        verdict=verdict,
        reason=reason + _good_enough(safe, verdict, margin),
        optima=optima,
        growth=growth,
        plateau=growth.end if saturated else None,
        settles_at=laws.settles_at if saturated else None,
        compute=laws.compute,
        curve=laws.curve,
        laws=laws,
        harmless=safe,
    )


def _too_little(frontier: Frontier) -> str | None:
    """Why the sweep is too small to be judged, or None."""
    if not frontier.budgets:
        if frontier.fell:
            return "Every run that was read has lost what it had gained: no n can be compared."
        return "No cell has been read: no run has reached a budget yet."
    judged = [at for at in frontier.budgets if len(at.measured) >= MIN_GENERATIONS]
    measured = frontier.measured
    if len(measured) < MIN_GENERATIONS:
        listed = ", ".join(map(str, measured))
        fell = (
            f"; all runs of n = {', '.join(map(str, frontier.fell))} fell" if frontier.fell else ""
        )
        return (
            f"Only {len(measured)} n measured (n = {listed}{fell}); "
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


def _good_enough(harmless: tuple[int, ...], verdict: Verdict, margin: float) -> str:
    """What one n for all budgets would do, where that is news."""
    if not harmless or verdict == "n does not matter":
        return ""
    listed = ", ".join(map(str, harmless))
    return f" At no budget does n = {listed} cost more than {margin:g} of reward."
