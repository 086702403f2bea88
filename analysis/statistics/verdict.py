"""Which verdict the draws of n*(C) bear, and what of their numbers is the reason."""

from dataclasses import dataclass
from typing import Any, Literal

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Confidence, Count, Positive
from isosweep.analysis.statistics.frontier import Frontier, measured_loss
from isosweep.analysis.statistics.growth import Growth, num_starts
from isosweep.analysis.statistics.optima import SMALLEST_GENERATIONS, BestGenerations
from isosweep.config.analysis import Quantity

Verdict = Literal[
    "saturated",
    "probably saturated",
    "growing",
    "probably growing",
    "grew",
    "fell",
    "constant",
    "steady",
    "n does not matter",
    "not identified",
]


# Probability of having stopped, or of growing on, from which on that is probable. Chosen in 38
# simulated worlds (docs/error_rates.md), on other seeds than those that its errors are reported of.
PROBABLE = 0.7
# A change on the way that is likelier than this leaves no n constant, though both ends agree. In
# simulation its probability is 0.1 at most where the judged n rests, and above 0.2 where it rises
# and returns.
_LIKELY = 0.2

# Of the margin: what every n may have lost, as measured, where none matters. The surface is smooth,
# and takes what one n loses alone for chance: in simulation, with an edge n that costs 1.5 margins,
# 12% of sweeps of ten runs were falsely said not to depend on n, and none of 150 so.
_AGREES = 2 / 3


@dataclass(frozen=True, kw_only=True)
class OpenEnd:
    """Why n* at the last budget may lie where nothing was measured there."""

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


# Verdicts that leave open where the judged n goes.
_OPEN: tuple[Verdict, ...] = (
    "probably saturated",
    "growing",
    "probably growing",
    "grew",
    "not identified",
)
ReasonKind = Literal[
    "no record",
    "all fell",
    "few n",
    "few budgets",
    "one seed",
    "no spread",
    "harmless",
    "edge",
    "fell",
    "saturated",
    "probably saturated",
    "growing",
    "probably growing",
    "grew",
    "constant",
    "steady",
    "undecided",
]


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


def behind(
    optima: tuple[BestGenerations, ...], frontier: Frontier, quantity: Quantity
) -> tuple[int, ...]:
    """The n of the plan that no record shows at the last budget, though the n that is judged may be
    among them: within its interval, or past an end of it that is open; without an interval all."""
    if not optima:
        return ()
    at, last = frontier.budgets[-1], optima[-1].of(quantity)
    if last is None:
        return at.missing
    return tuple(
        n
        for n in at.missing
        if (last.open_below and n < at.measured[0])
        or (last.open_above and n > at.measured[-1])
        or last.interval.low <= n <= last.interval.high
    )


def open_end(
    verdict: Verdict, optima: tuple[BestGenerations, ...], frontier: Frontier, quantity: Quantity
) -> OpenEnd | None:
    """Where the n that is judged may lie that was not measured, for verdicts that this leaves open;
    else None."""
    if verdict not in _OPEN or not optima:
        return None
    at, last = frontier.budgets[-1], optima[-1].of(quantity)
    first, largest = at.measured[0], at.measured[-1]
    if missing := behind(optima, frontier, quantity):
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


def judge(
    frontier: Frontier,
    optima: tuple[BestGenerations, ...],
    growth: Growth,
    worst: FloatArray,
    margin: float,
    quantity: Quantity,
) -> tuple[Verdict, Reason]:
    """The verdict and why; `worst`: what every n costs at its worst budget, (draws, n)."""
    confidence, grid = frontier.confidence, frontier.measured

    def because(kind: ReasonKind, **more: Any) -> Reason:
        return Reason(
            kind=kind,
            confidence=confidence,
            quantity=quantity,
            margin=margin,
            measured=grid,
            **more,
        )

    lost = max(measured_loss(frontier, n) for n in grid)
    alike = lost <= _AGREES * margin
    if alike and not frontier.unread and (worst.max(axis=1) <= margin).mean() >= confidence:
        return "n does not matter", because("harmless")
    end = open_end("not identified", optima, frontier, quantity)
    if (edge := _always_at_edge(optima, grid, quantity)) is not None:
        return "not identified", because("edge", edge=edge, end=end)
    # A false change from any of the earlier budgets is to be no likelier than one from one.
    sure = 1 - (1 - confidence) / num_starts(tuple(at.budget for at in optima))
    if growth.fell >= sure:
        return "fell", because("fell")
    if growth.grew >= sure:
        beyond = open_end("grew", optima, frontier, quantity)
        verdict = _after_growth(growth, confidence)
        return verdict, because(verdict, end=None if verdict == "saturated" else beyond)
    if growth.unchanged >= confidence and growth.moved <= _LIKELY:
        if growth.steady_from == optima[0].budget:
            return "constant", because("constant")
        # Over fewer decades less than a doubling says less: it has to have stopped, too.
        if growth.stopped >= confidence:
            return "steady", because("steady")
    at = frontier.budgets[-1]
    left = {*grid, *frontier.unread} - {*at.measured, *at.fell}
    if end or lost > margin:
        left = set()
    return "not identified", because("undecided", end=end, lacking=tuple(sorted(left)))


def _after_growth(
    growth: Growth, confidence: float
) -> Literal["saturated", "probably saturated", "growing", "probably growing", "grew"]:
    """What the n that is judged does at the end, once it has grown."""
    probable = min(PROBABLE, confidence)
    if growth.settled >= probable:
        return "saturated" if growth.settled >= confidence else "probably saturated"
    if growth.rising >= probable:
        return "growing" if growth.rising >= confidence else "probably growing"
    return "grew"


def _always_at_edge(
    optima: tuple[BestGenerations, ...], grid: tuple[int, ...], quantity: Quantity
) -> int | None:
    """The edge of the grid at which the n that is judged lies at every budget, or None. That the
    smallest n is good enough is known whatever lies below it."""
    known = [at for each in optima if (at := each.of(quantity)) is not None]
    if all(at.open_above and at.nearest(grid) == grid[-1] for at in known):
        return grid[-1]
    if quantity == "best" and all(at.open_below and at.nearest(grid) == grid[0] for at in known):
        return grid[0]
    return None
