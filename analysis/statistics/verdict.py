"""Which verdict the draws of n*(C) bear, in words and numbers, and what would decide more."""

from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.growth import Growth, num_starts
from isosweep.analysis.statistics.intervals import short
from isosweep.analysis.statistics.laws import Laws
from isosweep.analysis.statistics.losses import measured_loss
from isosweep.analysis.statistics.optima import SMALLEST_GENERATIONS, BestGenerations

Verdict = Literal[
    "saturated",
    "growing",
    "grew",
    "fell",
    "constant",
    "steady",
    "n does not matter",
    "not identified",
]


# A change on the way that is likelier than this leaves no n* constant, though both ends agree. In
# simulation its probability is below 0.1 where n* rests, and above 0.4 where it rises and returns.
_LIKELY = 1 / 3


@dataclass(frozen=True, kw_only=True)
class OpenEnd:
    """Why n* at the last budget may lie where nothing was measured there.

    `missing`: at `n` of the plan that have not come that far; `above` and `below`: beyond all that
    were run, the last of which is `edge`, or where all runs of `n` fell.
    """

    kind: Literal["missing", "above", "below"]
    edge: int
    n: tuple[int, ...] = ()

    @property
    def further(self) -> int | None:
        """The n to run before all else: a doubling past the edge. None where runs of the plan come
        first, where all runs past the edge fell, and where no n is that small."""
        if self.kind == "missing" or self.n:
            return None
        n = 2 * self.edge if self.kind == "above" else self.edge // 2
        return n if n >= SMALLEST_GENERATIONS else None

    @property
    def words(self) -> str:
        """A sentence: what is open, and what would close it."""
        listed = ", ".join(map(str, self.n))
        if self.kind == "missing":
            return f"Runs of n = {listed} have not come that far: they would tell first."
        beyond, most = ("beyond", "largest") if self.kind == "above" else ("below", "smallest")
        if self.n:
            return (
                f"It may lie {beyond} n = {self.edge}, the {most} whose runs last: all of "
                f"n = {listed} fell."
            )
        more = "larger" if self.kind == "above" else "smaller"
        return f"It may lie {beyond} n = {self.edge}, the {most} that was run there: add {more} n."


def behind(optima: tuple[BestGenerations, ...], frontier: Frontier) -> tuple[int, ...]:
    """The n of the plan that no record shows at the last budget, though n* may be among them:
    within its interval, or past an end of it that is open; without an interval all of them."""
    if not optima:
        return ()
    at, last = frontier.budgets[-1], optima[-1]
    if last.interval is None:
        return at.missing
    return tuple(
        n
        for n in at.missing
        if (last.left_censored and n < at.measured[0])
        or (last.right_censored and n > at.measured[-1])
        or last.interval.low <= n <= last.interval.high
    )


def open_end(
    verdict: Verdict, optima: tuple[BestGenerations, ...], frontier: Frontier
) -> OpenEnd | None:
    """Where n* may lie that was not measured, for verdicts that this leaves open; else None."""
    if verdict not in ("growing", "grew", "not identified") or not optima:
        return None
    at, last = frontier.budgets[-1], optima[-1]
    first, largest = at.measured[0], at.measured[-1]
    if missing := behind(optima, frontier):
        return OpenEnd(kind="missing", edge=largest, n=missing)
    if last.interval is None:
        return None
    # An interval over the whole grid says of neither end that n* lies there.
    sure = verdict != "not identified"
    if last.right_censored and (sure or last.best == largest):
        return OpenEnd(kind="above", edge=largest, n=tuple(n for n in at.fell if n > largest))
    if last.left_censored and not sure and last.best == first:
        return OpenEnd(kind="below", edge=first, n=tuple(n for n in at.fell if n < first))
    return None


def judge(
    frontier: Frontier,
    optima: tuple[BestGenerations, ...],
    growth: Growth,
    laws: Laws,
    worst: FloatArray,
    margin: float,
) -> tuple[Verdict, str]:
    """The verdict and why; `worst`: what every n costs at its worst budget, (draws, n)."""
    confidence, grid, last = frontier.confidence, frontier.measured, optima[-1]
    alike = all(measured_loss(frontier, n) <= margin for n in grid)
    if alike and not frontier.unread and (worst.max(axis=1) <= margin).mean() >= confidence:
        return "n does not matter", (
            f"At every budget, each n measured there or at a smaller one ({grid[0]} to {grid[-1]}) "
            f"costs at most {margin:g} of reward against the best, with {confidence:.0%} "
            "confidence. Nothing is said about n outside this grid."
        )
    edge = _always_at_edge(optima, grid)
    if edge is not None:
        end = open_end("not identified", optima, frontier)
        return "not identified", (
            f"At every budget the best n may be n = {edge}, an edge of those that were run: it is "
            f"{optima[0].words} at {short(optima[0].budget)} and {last.words} at "
            f"{short(last.budget)}. {end.words if end else ''}".rstrip()
        )
    # A false change from any of the earlier budgets is to be no likelier than one from one.
    sure = 1 - (1 - confidence) / num_starts(tuple(at.budget for at in optima))
    if growth.fell >= sure:
        high = next(at for at in optima if at.budget == growth.peak)
        return "fell", (
            f"The best n fell from {high.words} at {short(high.budget)} to {last.words} at "
            f"{short(last.budget)} (probability {growth.fell:.0%})."
        )
    if growth.grew >= sure:
        return _of_growth(optima, growth, laws, frontier)
    if growth.unchanged >= confidence and growth.moved <= _LIKELY:
        first = next(at for at in optima if at.budget == growth.steady_from)
        unchanged = (
            f"it is {first.words} at {short(first.budget)} and {last.words} at "
            f"{short(last.budget)}; that these differ by less than a doubling has probability "
            f"{growth.unchanged:.0%}. {_rate(growth)}"
        )
        if first == optima[0]:
            return "constant", f"The best n does not change with compute: {unchanged}"
        # Over fewer decades less than a doubling says less: it has to have stopped, too.
        if growth.stopped >= confidence:
            return "steady", (
                f"The best n does not change from {short(first.budget)} on: {unchanged} Less than "
                f"{growth.bound:g} counts as stopped (probability {growth.stopped:.0%}). Whether "
                "it grew before is open: there it may lie beyond the n that had records."
            )
    end = open_end("not identified", optima, frontier)
    at = frontier.budgets[-1]
    left = sorted({*grid, *frontier.unread} - {*at.measured, *at.fell}) if alike else []
    return "not identified", _undecided(last, growth, left, end)


def _of_growth(
    optima: tuple[BestGenerations, ...],
    growth: Growth,
    laws: Laws,
    frontier: Frontier,
) -> tuple[Verdict, str]:
    """What is to be said of an n* that grew."""
    confidence, end = frontier.confidence, open_end("grew", optima, frontier)
    beyond = f" {end.words}" if end else ""
    first, last = next(at for at in optima if at.budget == growth.since), optima[-1]
    grew = (
        f"The best n grew from {first.words} at {short(first.budget)} to {last.words} at "
        f"{short(last.budget)} (probability {growth.grew:.1%})"
    )
    if growth.settled >= confidence:
        return "saturated", (
            f"{grew} and has stopped: it stays near n = {growth.end.words} from "
            f"{laws.settles_at.words} on. {_rate(growth)} "
            f"Less than {growth.bound:g}, up or down, inside the grid counts as stopped "
            f"(probability {growth.stopped:.0%})."
        )
    if growth.rising >= confidence:
        return "growing", (
            f"{grew} and still grows. {_rate(growth)} At {growth.bound:g} or more it has not "
            f"stopped (probability {growth.rising:.0%}).{beyond}"
        )
    would = "Larger budgets, more held-out problems or more seeds would decide."
    return "grew", (
        f"{grew}. Whether it has stopped is open: that it has, changing by less than "
        f"{growth.bound:g} doublings per decade inside the grid, has probability "
        f"{growth.stopped:.0%}." + (beyond or f" {_rate(growth)} {would}")
    )


def _rate(growth: Growth) -> str:
    return (
        f"At the largest budgets it grows by {growth.rate.words} doublings per decade of compute."
    )


def _always_at_edge(optima: tuple[BestGenerations, ...], grid: tuple[int, ...]) -> int | None:
    """The edge of the grid at which the best n lies at every budget, or None."""
    if all(at.right_censored and at.best == grid[-1] for at in optima):
        return grid[-1]
    if all(at.left_censored and at.best == grid[0] for at in optima):
        return grid[0]
    return None


def _undecided(last: BestGenerations, growth: Growth, left: list[int], end: OpenEnd | None) -> str:
    """Why nothing is claimed, and what would decide it; `left`: n that the last budget lacks."""
    did, since, chance = "grew", growth.since, growth.grew
    if growth.fell > growth.grew:
        did, since, chance = "fell", growth.peak, growth.fell
    text = (
        f"The records do not show how the best n changes with compute: that it {did} by a doubling "
        f"or more since {short(since)}, where that is likeliest, has probability "
        f"{chance:.0%}; that it differs by less than a doubling from that at "
        f"{short(growth.steady_from)} {growth.unchanged:.0%}. "
        f"At {short(last.budget)} it is {last.words}."
    )
    if end:
        return f"{text} {end.words}"
    lacking = f"Runs of n = {', '.join(map(str, left))} up to there, m" if left else "M"
    return text + f" {lacking}ore held-out problems, more budgets or more seeds would decide."
