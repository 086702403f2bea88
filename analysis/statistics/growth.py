"""How an n(C) changes over the budgets, and how fast it still grows at the largest, without a law.

n is the one that is judged: n_d, the smallest that is good enough, or n*. The rate at the end is
the slope of the least-squares line of log2 n over log10 C at the largest budgets (`end_places`), in
doublings per decade. It is worked out alike for draws of what records show and for the true n(C) of
a simulated world: a world is `saturated` by the rule that a sweep is.
"""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.bounds import Positive, Share
from isosweep.analysis.statistics.best_n import interval_of_n
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import DrawnN

# The end of a sweep: this share of its decades of compute, but no more decades than so many, and
# three budgets where they lie as close. Over a longer end, growth that has just stopped would still
# count; over a shorter one, few sweeps know the rate well enough.
_END_SHARE, END_DECADES, _END_BUDGETS = 1 / 3, 1.0, 3
# Doublings of n that count as a change.
LEAST_CHANGE = 1.0
# n has settled from where on it stays so near to where it ends, in doublings.
SETTLED_WITHIN = 0.5
# What a known n(C) may do, as a verdict words it.
COURSES = ("fell", "constant", "growing", "saturated")
# Budgets in a factor of ten that show n apart from each other: what nearer ones show is the same.
_INDEPENDENT = 3


def end_places(budgets: tuple[float, ...], whole_from: int = 0) -> BoolArray:
    """Which of the budgets, ascending, are the largest ones, that are the end: (budgets,).

    `whole_from`: place of the first past all gaps; none before it, unless it is the last but one.
    """
    decades = np.log10(np.array(budgets))
    length = min(END_DECADES, _END_SHARE * (decades[-1] - decades[0]))
    places = np.arange(len(decades))
    inside = places >= np.argmin(np.abs(decades - (decades[-1] - length)))
    close = decades >= decades[-1] - END_DECADES - 1e-6
    inside |= close & (places >= len(decades) - _END_BUDGETS)
    inside &= places >= whole_from
    inside[-2:] = True
    return np.asarray(inside)


def end_level(log2_n: FloatArray, budgets: tuple[float, ...], whole_from: int = 0) -> FloatArray:
    """Mean of log2 n at the largest budgets: (...,) of (..., budgets)."""
    return np.asarray(log2_n[..., end_places(budgets, whole_from)].mean(axis=-1))


def end_rates(log2_n: FloatArray, budgets: tuple[float, ...], whole_from: int = 0) -> FloatArray:
    """Doublings of n per decade of compute at the largest budgets: (...,) of (..., budgets).

    At least two budgets, ascending.
    """
    decades, inside = np.log10(np.array(budgets)), end_places(budgets, whole_from)
    away = decades[inside] - decades[inside].mean()
    # Rounded, or an n that stays would change by what floating point leaves over.
    return np.asarray(np.round(log2_n[..., inside] @ away / (away @ away), 9) + 0.0)


def settled_from(log2_n: FloatArray, budgets: tuple[float, ...], confidence: float) -> Interval:
    """Budget from which on n stays within half a doubling of that at the last one.

    `log2_n`: (draws, budgets). What lies between two budgets is not known: the low end is the
    budget before the first that may be it.
    """
    far = np.abs(log2_n - log2_n[:, -1:]) > SETTLED_WITHIN
    first = np.where(far.any(axis=1), len(budgets) - np.argmax(far[:, ::-1], axis=1), 0)
    shares = (0.5, 0.5 - confidence / 2, 0.5 + confidence / 2)
    median, low, high = np.quantile(first, shares, method="higher").astype(int).tolist()
    return Interval(median=budgets[median], low=budgets[max(low - 1, 0)], high=budgets[high])


def num_starts(budgets: tuple[float, ...]) -> int:
    """Comparisons with the last budget that are independent of each other, for Bonferroni's
    correction: from how many earlier budgets a change may seem to begin."""
    decades = float(np.log10(budgets[-1] / budgets[0]))
    return max(1, min(len(budgets) - 1, round(_INDEPENDENT * decades)))


def rises(log2_n: FloatArray) -> FloatArray:
    """Doublings by which n is larger at the last budget than at its smallest: (...,)."""
    return np.asarray(log2_n[..., -1] - log2_n.min(axis=-1))


def falls(log2_n: FloatArray) -> FloatArray:
    """Doublings by which n is smaller at the last budget than at its peak: (...,)."""
    return np.asarray(log2_n.max(axis=-1) - log2_n[..., -1])


def courses(log2_n: FloatArray, budgets: tuple[float, ...], edge: float, bound: float) -> IntArray:
    """What n(C) does, as places in `COURSES`: (...,) of (..., budgets).

    `edge`: log2 of the n from which on an n at the last budget has not stopped; `bound`: the rate
    below which it has. One budget shows no change.
    """
    if len(budgets) == 1:
        return np.full(log2_n.shape[:-1], COURSES.index("constant"))
    rate = end_rates(log2_n, budgets)
    goes_on = (log2_n[..., -1] >= edge) | (rate >= bound)
    fell = falls(log2_n) >= LEAST_CHANGE
    still = rises(log2_n) < LEAST_CHANGE
    # In the order of COURSES; what still falls at the end fell.
    return np.asarray(np.select([fell, still, goes_on, rate > -bound], range(len(COURSES)), 0))


@dataclass(frozen=True, kw_only=True)
class RateAt:
    """How fast n grew up to one budget."""

    budget: Positive
    """In budget_unit."""
    rate: Interval
    """Over that budget and those before it, as at the end. Doublings per decade."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How the judged n changes, by draws of n(C), and by no law.

    Growth counts from whichever earlier budget shows it best, and so does a fall: at small budgets
    all n are often alike, and the judged one is not known. Draws that are censored at a budget (see
    `DrawnN`) show no growth from it. A draw that ends nearer to the largest n of the grid than to
    the next one has not stopped: what lies beyond is not known.
    """

    since: Positive
    """The earlier budget from which growth is likeliest, in budget_unit."""
    rise: Interval
    """Doublings of n from there to the last budget."""
    rate: Interval
    """Growth of n at the largest budgets, in doublings per decade of compute."""
    end: Interval
    """n at the largest budgets, on geometric average over them."""
    history: tuple[RateAt, ...]
    """The rate up to every budget but the first, ascending; the last one is that of the end."""
    bound: Positive
    """Rate below which growth has stopped, in doublings per decade."""
    grew: Share
    """Probability that n grew by a doubling or more from there to the last budget."""
    fell: Share
    """Probability that it ends a doubling or more below an earlier budget's, that named by peak."""
    peak: Positive
    """The earlier budget at which that is likeliest, in budget_unit."""
    unchanged: Share
    """Probability that n at the last budget and at that of steady_from differ by less than a
    doubling, inside the grid."""
    moved: Share
    """Probability that n at the last budget is a doubling or more from that at an earlier one, of
    those from steady_from on the one at which that is likeliest."""
    steady_from: Positive
    """The first budget past all gaps between records at which n surely lies among the n that were
    run; in budget_unit."""
    closed: Share
    """Probability that at the largest budgets n lies among the n that were run there: else rate is
    not that of n. Absent in answers of earlier versions."""
    stopped: Share
    """Probability that its rate lies within the bound, up or down, inside the grid."""
    settled: Share
    """Probability that it grew and has stopped."""
    rising: Share
    """Probability that it grew and its rate lies at the bound or above."""


def describe_growth(
    drawn: DrawnN,
    budgets: tuple[float, ...],
    log2_grid: FloatArray,
    confidence: float,
    bound: float,
    whole_from: int = 0,
) -> Growth:
    """What draws of an n at two budgets at least say of its growth.

    `log2_grid`: log2 of every n measured, two at least, ascending. `whole_from`: place of the first
    budget past all gaps between records.
    """
    log2_n, above, below = drawn.log2_n, drawn.above, drawn.below
    censored, end = above | below, end_places(budgets, whole_from)
    rate, rise = end_rates(log2_n, budgets, whole_from), log2_n[:, -1:] - log2_n[:, :-1]
    # At the last budget n may be larger than it seems, and then has grown by more.
    risen = (rise >= LEAST_CHANGE) & ~above[:, :-1] & ~below[:, -1:]
    sunk = (rise <= -LEAST_CHANGE) & ~below[:, :-1] & ~above[:, -1:]
    grew_from, fell_from = risen.mean(axis=0), sunk.mean(axis=0)
    start, peak = int(grew_from.argmax()), int(fell_from.argmax())
    grew = risen[:, start]
    # When n moved within a gap is not known, and so no rate across it.
    known = ~censored[:, :-1][:, end[:-1]].any(axis=1) & (whole_from < len(budgets) - 1)
    within = log2_n[:, -1] < (log2_grid[-2] + log2_grid[-1]) / 2
    inside = within & ~censored[:, -1]
    stopped = (np.abs(rate) < bound) & known & inside
    surely_inside = censored[:, :-1].mean(axis=0) <= 1 - confidence
    surely_inside[:whole_from] = False
    first = int(surely_inside.argmax())
    alike = (np.abs(rise[:, first]) < LEAST_CHANGE) & ~censored[:, first] & inside
    alike &= first >= whole_from

    def central(draws: FloatArray) -> Interval:
        return Interval.central(draws, confidence)

    return Growth(
        since=budgets[start],
        rise=central(rise[:, start]),
        rate=central(rate),
        history=tuple(
            RateAt(budget=budgets[k - 1], rate=central(end_rates(log2_n[:, :k], budgets[:k])))
            for k in range(2, len(budgets) + 1)
        ),
        end=interval_of_n(end_level(log2_n, budgets, whole_from), log2_grid, confidence),
        bound=bound,
        grew=float(grew.mean()),
        fell=float(fell_from[peak]),
        peak=budgets[peak],
        unchanged=float(alike.mean()),
        moved=float(np.maximum(grew_from, fell_from)[first:].max()),
        steady_from=budgets[first],
        closed=float((~censored[:, end].any(axis=1)).mean()),
        stopped=float(stopped.mean()),
        settled=float((grew & stopped).mean()),
        rising=float((grew & (rate >= bound) & known).mean()),
    )
