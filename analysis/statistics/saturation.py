"""Where the best n stops growing with compute, or why the data do not show it.

Two claims are kept apart: that n* grew (or fell, or did not change), and that it has stopped. Each
is a share of the draws of the reward surface's n*(C), by `growth`; no law takes part. Laws describe
what is claimed: they say where n* settled, and what curve it followed.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Sentence
from isosweep.analysis.evidence import MIN_BUDGETS, MIN_GENERATIONS, MIN_SEEDS
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.growth import Growth, describe_growth, num_starts
from isosweep.analysis.statistics.intervals import Interval, central_quantiles, short
from isosweep.analysis.statistics.laws import Laws, weigh_laws
from isosweep.analysis.statistics.surface import Surface

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

# GRPO compares the rollouts of one problem with each other: n = 2 is the method's own bound.
SMALLEST_GENERATIONS = 2


@dataclass(frozen=True, kw_only=True)
class BestGenerations:
    """n*(C) at one budget.

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

    @property
    def listed(self) -> str:
        """The candidates as a set in braces."""
        return "{" + ", ".join(str(n) for n in self.candidates) + "}"

    @property
    def words(self) -> str:
        """Median and interval, as 23 [8, 51]; the candidates where there is none."""
        if self.interval is None:
            return self.listed
        return self.interval.open_words(below=self.left_censored, above=self.right_censored)


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
    worst = _losses(frontier, surface)
    harmless = _harmless(frontier, worst, margin)
    verdict, reason = _judge(frontier, optima, growth, laws, worst, margin)
    saturated = verdict == "saturated"
    return Saturation(
        verdict=verdict,
        reason=reason + _good_enough(harmless, verdict, margin),
        optima=optima,
        growth=growth,
        plateau=growth.end if saturated else None,
        settles_at=laws.settles_at if saturated else None,
        compute=laws.compute,
        curve=laws.curve,
        laws=laws,
        harmless=harmless,
    )


def best_generations(frontier: Frontier, surface: Surface | None) -> tuple[BestGenerations, ...]:
    """n* at every budget of the frontier."""
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
    columns = zip(surface.log2_best_n.T, surface.measured, strict=True)
    for at, (draws, ran) in zip(frontier.budgets, columns, strict=True):
        grid = 2.0 ** surface.log2_n[ran]
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


def _nearest(grid: FloatArray, n: float) -> float:
    """The n of the grid nearest to `n`, in doublings."""
    return float(grid[np.argmin(np.abs(np.log2(grid) - math.log2(n)))])


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
    """What each n of the grid costs at the worst of the budgets from its first one on: (draws, n).

    An n that was run at smaller budgets alone may cost at a larger one what the surface leaves
    open there: that nobody looked does not make it harmless.
    """
    grid = frontier.measured
    columns = [surface.column(n) for n in grid]
    batches = surface.supported[:, columns].any(axis=0)
    unseen = np.where(batches, surface.draws[:, :, columns], -np.inf).max(axis=3)
    seen = surface.by_n[:, :, columns]
    worst, begun = np.zeros((len(surface.draws), len(grid))), np.zeros(len(grid), dtype=bool)
    for k, at in enumerate(frontier.budgets):
        measured = np.isin(grid, at.measured)
        begun |= measured
        rewards = np.where(measured, seen[:, k], unseen[:, k])[:, begun]
        lost = rewards.max(axis=1, keepdims=True) - rewards
        worst[:, begun] = np.maximum(worst[:, begun], lost)
    return worst


def _harmless(frontier: Frontier, worst: FloatArray, margin: float) -> tuple[int, ...]:
    """The n measured at every budget that surely cost no more than the margin at any."""
    everywhere = set.intersection(*(set(at.measured) for at in frontier.budgets))
    sure = (worst <= margin).mean(axis=0) >= frontier.confidence
    sure &= np.array([_measured_loss(frontier, n) <= margin for n in frontier.measured])
    grid = frontier.measured
    return tuple(n for n, safe in zip(grid, sure, strict=True) if safe and n in everywhere)


def _measured_loss(frontier: Frontier, n: int) -> float:
    """What n loses against the best measured mean, on average over the budgets that have it.

    Where noise is large the surface is flat by its prior: what was measured has to agree.
    """
    lost = []
    for at in frontier.budgets:
        mean = {choice.num_generations: choice.cell.mean for choice in at.choices}
        if n in mean:
            lost.append(max(mean.values()) - mean[n])
    return math.fsum(lost) / len(lost)


def _judge(
    frontier: Frontier,
    optima: tuple[BestGenerations, ...],
    growth: Growth,
    laws: Laws,
    worst: FloatArray,
    margin: float,
) -> tuple[Verdict, str]:
    """`worst`: what every n costs at its worst budget, (draws, n)."""
    confidence, grid, last = frontier.confidence, frontier.measured, optima[-1]
    alike = all(_measured_loss(frontier, n) <= margin for n in grid)
    if alike and not frontier.unread and (worst.max(axis=1) <= margin).mean() >= confidence:
        return "n does not matter", (
            f"At every budget, each n measured there or at a smaller one ({grid[0]} to {grid[-1]}) "
            f"costs at most {margin:g} of reward against the best, with {confidence:.0%} "
            "confidence. Nothing is said about n outside this grid."
        )
    edge = _always_at_edge(optima, grid)
    if edge is not None:
        return "not identified", (
            f"At every budget the best n may be n = {edge}, an edge of the grid, or lie beyond it: "
            f"it is {optima[0].words} at {short(optima[0].budget)} and {last.words} at "
            f"{short(last.budget)}. Add "
            f"{'larger' if edge == grid[-1] else 'smaller'} n."
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
        return _of_growth(optima, growth, laws, confidence, grid)
    if growth.unchanged >= confidence:
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
    left = sorted({*grid, *frontier.unread} - {*frontier.budgets[-1].measured}) if alike else []
    return "not identified", _undecided(optima, growth, grid, left)


def _of_growth(
    optima: tuple[BestGenerations, ...],
    growth: Growth,
    laws: Laws,
    confidence: float,
    grid: tuple[int, ...],
) -> tuple[Verdict, str]:
    """What is to be said of an n* that grew."""
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
    beyond = (
        f" It may lie beyond n = {grid[-1]}, the largest of the grid: add larger n."
        if optima[-1].right_censored
        else ""
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


def _good_enough(harmless: tuple[int, ...], verdict: Verdict, margin: float) -> str:
    """What one n for all budgets would do, where that is news."""
    if not harmless or verdict == "n does not matter":
        return ""
    listed = ", ".join(map(str, harmless))
    return f" At no budget does n = {listed} cost more than {margin:g} of reward."


def _always_at_edge(optima: tuple[BestGenerations, ...], grid: tuple[int, ...]) -> int | None:
    """The edge of the grid at which the best n lies at every budget, or None."""
    if all(at.right_censored and at.best == grid[-1] for at in optima):
        return grid[-1]
    if all(at.left_censored and at.best == grid[0] for at in optima):
        return grid[0]
    return None


def _undecided(
    optima: tuple[BestGenerations, ...], growth: Growth, grid: tuple[int, ...], left: list[int]
) -> str:
    """Why nothing is claimed, and what would decide it; `left`: n that the last budget lacks."""
    last = optima[-1]
    text = (
        "The records do not show how the best n changes with compute: that it grew by a doubling "
        f"or more since {short(growth.since)}, where that is likeliest, has probability "
        f"{growth.grew:.0%}; that it differs by less than a doubling from that at "
        f"{short(growth.steady_from)} {growth.unchanged:.0%}. "
        f"At {short(last.budget)} it is {last.words}."
    )
    if last.right_censored and last.best == grid[-1]:
        return text + f" It may lie beyond n = {grid[-1]}, the largest of the grid: add larger n."
    lacking = f"Runs of n = {', '.join(map(str, left))} up to there, m" if left else "M"
    return text + f" {lacking}ore held-out problems, more budgets or more seeds would decide."
