"""Where the judged n stops growing with compute, or why the data do not show it.

Two claims are kept apart: that n grew (or fell, or did not change), and that it has stopped. Each
is a share of the draws of the reward surface's n(C), by `growth`; a verdict is a rule on them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Confidence, Count, Positive
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.best_n import (
    SMALLEST_GENERATIONS,
    Frontier,
    fit_budgets,
    harmless,
    measured_loss,
    worst_losses,
)
from isosweep.analysis.statistics.growth import Growth, describe_growth, num_starts, settled_from
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.noise import Means
from isosweep.analysis.statistics.surface import Surface
from isosweep.config.analysis import AnalysisConfig, Quantity
from isosweep.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS

_Grown = Literal["saturated", "probably saturated", "growing", "probably growing", "grew"]
Verdict = Literal[_Grown, "fell", "constant", "steady", "n does not matter", "not identified"]
_Lack = Literal["no record", "all fell", "few n", "few budgets", "one seed", "no spread"]
ReasonKind = Literal[_Lack, "harmless", "edge", "fell", _Grown, "constant", "steady", "undecided"]
# Verdicts that leave open where the judged n goes.
_OPEN: tuple[Verdict, ...] = (
    *("probably saturated", "growing", "probably growing", "grew"),
    "not identified",
)
# Probability of having stopped, or of growing on, from which on that is probable. Chosen in the 28
# worlds of docs/error_rates.md and the ten by another hand, on other seeds than its errors are of.
PROBABLE = 0.7
# A change on the way that is likelier than this leaves no n constant, though both ends agree. In
# the simulated worlds of docs/error_rates.md its probability is 0.1 at most where the judged n
# rests, and above 0.2 where it rises and returns (`return`, `bump`).
_LIKELY_CHANGE = 0.2
# Of the margin: what every n may have lost, as measured, where none matters. The surface is smooth,
# and takes what one n loses alone for chance: in simulation, with an edge n that costs 1.5 margins
# (`hair` of benchmarks/kinds.py), 12% of sweeps of ten runs were falsely said not to depend on n,
# and none of 150 so.
_AGREES = 2 / 3


@dataclass(frozen=True, kw_only=True)
class OpenEnd:
    """Why the judged n at the last budget may lie where nothing was measured there."""

    kind: Literal["missing", "above", "below"]
    """missing: at n of the plan whose runs have not come that far; above, below: beyond all n that
    were run."""
    edge: AtLeastOne
    """The last n of those that were run."""
    n: tuple[AtLeastOne, ...] = ()
    """The n whose runs are missing, or all fell, ascending."""

    @property
    def further(self) -> int | None:
        """The n to run before all else: a doubling past the edge. None where runs of the plan come
        first, where all runs past the edge fell, and where no n is that small."""
        if self.kind == "missing" or self.n:
            return None
        n = 2 * self.edge if self.kind == "above" else self.edge // 2
        return n if n >= SMALLEST_GENERATIONS else None


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a verdict is what it is: what its sentences state, beside the numbers of growth, optima,
    plateau and settles_at."""

    kind: ReasonKind
    """no record to few n, few budgets, one seed, no spread: what the sweep lacks for any verdict;
    harmless: no n costs more than the margin; edge: the best n may be an edge of the grid at every
    budget; undecided: the probabilities decide nothing; the others as the verdict."""
    confidence: Confidence
    """Confidence that the verdict was held to. A share."""
    quantity: Quantity
    """The n that is judged: enough, the smallest that loses at most the margin; best, n*."""
    margin: Positive
    """Reward difference too small to matter."""
    measured: tuple[AtLeastOne, ...] = ()
    """Every n that was measured at some budget, ascending."""
    fell: tuple[AtLeastOne, ...] = ()
    """The n of which all runs fell, ascending."""
    edge: AtLeastOne | None = None
    """The edge of the grid that may be the best n at every budget."""
    end: OpenEnd | None = None
    """Where n* at the last budget may lie that was not measured."""
    lacking: tuple[AtLeastOne, ...] = ()
    """The n whose runs up to the last budget would decide, ascending."""
    num_budgets: Count = 0
    """Budgets at which enough n were measured."""


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The answer: how the n that is judged goes with compute, and where it stops growing."""

    verdict: Verdict
    """Of the n that is judged (`reason.quantity`). saturated: it grew and has stopped; growing: it
    grew and still does; probably saturated, probably growing: with a probability of 0.7 or more,
    and less than the confidence; grew: whether it has stopped is open; fell: it ends below an
    earlier one; constant: it does not change; steady: it does not from some budget on, and before
    that is not known; n does not matter: no n costs more than the margin; not identified: the
    records do not decide."""
    reason: Reason
    """Why, as a kind with its numbers."""
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


def judge(
    data: SweepData, config: AnalysisConfig, means: Means | None = None
) -> tuple[Surface | None, Frontier, Saturation]:
    """The reward surface (None without a spread between seeds), the frontier, and the verdict.

    `means`: those that it rests on, in the place of the sweep's own.
    """
    surface, frontier = fit_budgets(data, config, means)
    return surface, frontier, find_saturation(frontier, surface, config)


def find_saturation(
    frontier: Frontier, surface: Surface | None, config: AnalysisConfig
) -> Saturation:
    """The verdict on the n that `config.quantity` names, with the reason for it."""
    # Budgets at which enough n were measured to tell a best n from an edge.
    num_budgets = sum(len(at.measured) >= MIN_GENERATIONS for at in frontier.budgets)
    because = partial(
        Reason,
        confidence=frontier.confidence,
        quantity=config.quantity,
        margin=config.margin,
        measured=frontier.measured,
    )
    lack = _too_little(frontier, num_budgets)
    if lack is not None or surface is None:
        reason = because(kind=lack or "no spread", fell=frontier.fell, num_budgets=num_budgets)
        return Saturation(verdict="not identified", reason=reason)
    unread = [n for n in frontier.unread if n not in frontier.fell]
    drawn = surface.drawn_n(config.tolerance, unread)
    growth = describe_growth(
        drawn,
        surface.budgets,
        np.log2(frontier.measured),
        frontier.confidence,
        config.growth_bound,
        frontier.whole_from,
    )
    worst = worst_losses(frontier, surface)
    verdict, kind = _verdict(frontier, growth, worst, config)
    end = open_end(verdict, frontier, config.quantity)
    lacking: set[int] = set()
    if kind == "undecided" and not end and _most_lost(frontier) <= config.margin:
        at = frontier.budgets[-1]
        lacking = {*frontier.measured, *frontier.unread} - {*at.measured, *at.fell}
    saturated = verdict in ("saturated", "probably saturated")
    return Saturation(
        verdict=verdict,
        reason=because(
            kind=kind,
            edge=_always_at_edge(frontier, config.quantity) if kind == "edge" else None,
            end=end,
            lacking=tuple(sorted(lacking)),
        ),
        growth=growth,
        plateau=growth.end if saturated else None,
        settles_at=settled_from(drawn.log2_n, surface.budgets, frontier.confidence)
        if saturated
        else None,
        harmless=harmless(frontier, worst, config.margin),
    )


def _too_little(frontier: Frontier, num_budgets: int) -> _Lack | None:
    """What a sweep that is too small to be judged lacks, or None."""
    if not frontier.budgets:
        return "all fell" if frontier.fell else "no record"
    if len(frontier.measured) < MIN_GENERATIONS:
        return "few n"
    if num_budgets < MIN_BUDGETS:
        return "few budgets"
    if all(at.seed_sd is None for at in frontier.budgets):
        seeds = max(cell.num_seeds for at in frontier.budgets for cell in at.cells)
        return "no spread" if seeds >= MIN_SEEDS else "one seed"
    return None


def _verdict(
    frontier: Frontier, growth: Growth, worst: FloatArray, config: AnalysisConfig
) -> tuple[Verdict, ReasonKind]:
    """The verdict and its reason; `worst`: what every n costs at its worst budget, (draws, n)."""
    confidence, margin = frontier.confidence, config.margin
    alike = _most_lost(frontier) <= _AGREES * margin and not frontier.unread
    if alike and (worst.max(axis=1) <= margin).mean() >= confidence:
        return "n does not matter", "harmless"
    if _always_at_edge(frontier, config.quantity) is not None:
        return "not identified", "edge"
    # Bonferroni: a false change from any of the earlier budgets is no likelier than one from one.
    starts = num_starts(tuple(at.budget for at in frontier.budgets))
    sure = 1 - (1 - confidence) / starts
    if growth.fell >= sure:
        return "fell", "fell"
    if growth.grew >= sure:
        grown = _after_growth(growth, confidence)
        return grown, grown
    if growth.unchanged >= confidence and growth.moved <= _LIKELY_CHANGE:
        if growth.steady_from == frontier.budgets[0].budget:
            return "constant", "constant"
        # Over fewer decades less than a doubling says less: it has to have stopped, too.
        if growth.stopped >= confidence:
            return "steady", "steady"
    return "not identified", "undecided"


def _after_growth(growth: Growth, confidence: float) -> _Grown:
    """What the n that is judged does at the end, once it has grown."""
    probable = min(PROBABLE, confidence)
    if growth.settled >= probable:
        return "saturated" if growth.settled >= confidence else "probably saturated"
    if growth.rising >= probable:
        return "growing" if growth.rising >= confidence else "probably growing"
    return "grew"


def _most_lost(frontier: Frontier) -> float:
    """What the worst n loses as measured."""
    return max(measured_loss(frontier, n) for n in frontier.measured)


def _always_at_edge(frontier: Frontier, quantity: Quantity) -> int | None:
    """The edge of the grid at which the n that is judged lies at every budget, or None. That the
    smallest n is good enough is known whatever lies below it."""
    grid = frontier.measured
    known = [n for at in frontier.optima if (n := at.judged(quantity)) is not None]
    if all(n.open_above and n.nearest(grid) == grid[-1] for n in known):
        return grid[-1]
    if quantity == "best" and all(n.open_below and n.nearest(grid) == grid[0] for n in known):
        return grid[0]
    return None


def behind(frontier: Frontier, quantity: Quantity) -> tuple[int, ...]:
    """The n of the plan that no record shows at the last budget, though the n that is judged may be
    among them: within its interval, or past an end of it that is open; without an interval all."""
    if not frontier.budgets:
        return ()
    at = frontier.budgets[-1]
    last = at.optimum.judged(quantity)
    if last is None:
        return at.missing
    return tuple(
        n
        for n in at.missing
        if (last.open_below and n < at.measured[0])
        or (last.open_above and n > at.measured[-1])
        or last.low <= n <= last.high
    )


def open_end(verdict: Verdict, frontier: Frontier, quantity: Quantity) -> OpenEnd | None:
    """Where the n that is judged may lie that was not measured, for verdicts that this leaves open;
    else None."""
    if verdict not in _OPEN or not frontier.budgets:
        return None
    at = frontier.budgets[-1]
    first, largest, last = at.measured[0], at.measured[-1], at.optimum.judged(quantity)
    if missing := behind(frontier, quantity):
        return OpenEnd(kind="missing", edge=largest, n=missing)
    if last is None:
        return None
    # An interval over the whole grid says of neither end that n* lies there.
    sure = verdict != "not identified"
    if last.open_above and (sure or last.nearest(at.measured) == largest):
        return OpenEnd(kind="above", edge=largest, n=tuple(n for n in at.fell if n > largest))
    if last.open_below and not sure and last.nearest(at.measured) == first:
        return OpenEnd(kind="below", edge=first, n=tuple(n for n in at.fell if n < first))
    return None
