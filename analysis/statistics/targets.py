"""Which (n, B) reaches a reward first: compute and device-hours to target, with intervals.

Read so by arXiv 2608.29296, beside "which is best at C". A draw of the reward surface has each
setting's mean curve; where it crosses the target is read off the nearest curve that rises and then
may fall, linear in log C between readings. First passage of a noisy curve comes too early, and that
fit averages what noise takes down again: unimodal and not isotonic, as runs that collapse take the
mean curve down for good after it has reached a target.

A crossing outside the readings is censored: after the last one ("not before"), or by the first one.
Censored draws stay in all intervals and shares, as bounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Share
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.pairs import NamedCell, Pair, by_pair
from isosweep.analysis.statistics.courses import Courses
from isosweep.analysis.statistics.intervals import upper_share

# Of the way from the reward before training to the best one at the end: targets by default.
_SHARES = (0.5, 0.75, 0.9)
# Of the draws that reach a target, so that its median lies among the readings.
HALF = 0.5
# Settings that reach a target by default: with one, there is nothing to compare.
_LEAST_SETTINGS = 2


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """When the mean curve of one setting reaches a reward, in one unit of compute."""

    median: Positive | None
    """Median; null where that lies outside the readings."""
    low: Positive | None
    """Lower end of its interval: not before. Null where the first reading may have it already, and
    without a spread between seeds."""
    high: Positive | None
    """Upper end; null where it may lie past the last reading, and without a spread."""
    first_read: Positive
    """First reading of the setting."""
    last_read: Positive
    """Last reading of the setting, at which the crossing is censored."""
    probability_first: Share | None
    """That no other setting reaches it earlier, at least: draws that censoring leaves open count
    for none. Null without a spread between seeds."""
    may_be_first: bool
    """Whether it cannot be distinguished from the first."""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """When one (n, B) reaches one target."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    probability: Share
    """That the mean curve reaches the target by its last reading."""
    compute: Crossing
    """In budget_unit."""
    device_hours: Crossing | None
    """Device-hours of training, at what this setting's runs took on average for that compute; null
    where records do not say."""


@dataclass(frozen=True, kw_only=True)
class First:
    """The setting that most probably reaches a target first."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    probability: Share | None
    """That it is first, at least; null without a spread between seeds."""
    at: Crossing
    """When it reaches the target."""
    as_early: tuple[NamedCell, ...]
    """The other settings that cannot be distinguished from it, ascending."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reward, and when every setting reaches it."""

    reward: float
    """The target."""
    asked: bool
    """Whether analysis.targets has it."""
    first: First | None
    """In compute; null where that is not established: it is less probable than 1 - confidence, or
    that setting does not reach the target in half of the draws."""
    first_in_hours: First | None
    """In device-hours; null likewise, and where records do not say hours."""
    settings: tuple[Reached, ...]
    """One per (n, B), ascending."""


def find_targets(
    data: SweepData, courses: Courses, asked: Sequence[float] | None, confidence: float
) -> tuple[Target, ...]:
    """One for every reward of `asked`, or of `default_targets` where it is None, ascending."""
    if not courses.pairs:
        return ()
    rises = [_Rise.of(courses, place) for place in range(len(courses.pairs))]
    rewards = default_targets(rises, data.base_reward) if asked is None else sorted(set(asked))
    rates = _hour_rates(courses, data.curves)
    return tuple(
        _target(courses, rises, rates, reward, asked is not None, confidence) for reward in rewards
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rise:
    """One setting's curves up to their peaks, and level from there on: `log_compute` (readings,),
    `reward` (draws, readings)."""

    log_compute: FloatArray
    reward: FloatArray

    @classmethod
    def of(cls, courses: Courses, place: int) -> "_Rise":
        read = courses.read[place]
        return cls(
            log_compute=np.log(courses.budgets[read]),
            reward=rises_of(courses.reward[:, place, read]),
        )

    def crossing(self, target: float) -> FloatArray:
        """ln C at which each draw reaches the target: (draws,); -inf by the first reading, inf not
        by the last."""
        above = self.reward >= target
        at = above.argmax(axis=1)
        before, rows = np.maximum(at - 1, 0), np.arange(len(at))
        low, high = self.reward[rows, before], self.reward[rows, at]
        share = (target - low) / np.where(high > low, high - low, 1.0)
        x = self.log_compute
        found = np.where(at == 0, -np.inf, x[before] + share * (x[at] - x[before]))
        return np.asarray(np.where(above.any(axis=1), found, np.inf))


def rises_of(values: FloatArray) -> FloatArray:
    """The nearest curves, by least squares, that rise to a peak and fall from there on, held at the
    peak past it: (draws, readings)."""
    count = values.shape[1]
    found, least = np.empty(values.shape), np.full(len(values), np.inf)
    for peak in range(1, count + 1):
        up = isotonic(values[:, :peak])
        misfit = ((up - values[:, :peak]) ** 2).sum(axis=1)
        top = up[:, -1:]
        if peak < count:
            down = -isotonic(-values[:, peak:])
            misfit += ((down - values[:, peak:]) ** 2).sum(axis=1)
            top = np.maximum(top, down[:, :1])
        nearer = misfit <= least
        least[nearer] = misfit[nearer]
        found[nearer, :peak], found[nearer, peak:] = up[nearer], top[nearer]
    return found


def isotonic(values: FloatArray) -> FloatArray:
    """The nearest ascending curves, by least squares: (draws, readings).

    Each value is the largest, over starts up to it, of the least mean from that start to an end at
    or past it (min-max formula; Robertson, Wright and Dykstra, 1988, theorem 1.4.4).
    """
    count = values.shape[1]
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    found = np.full(values.shape, -np.inf)
    for start in range(count):
        means = (sums[:, start + 1 :] - sums[:, [start]]) / np.arange(1, count - start + 1)
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        found[:, start:] = np.maximum(found[:, start:], least)
    return found


def default_targets(rises: Sequence[_Rise], base: float | None) -> list[float]:
    """Half, three quarters and nine tenths of the way from the reward before training (or the
    lowest first reading) to the best peak, of what two settings or more reach."""
    ends = sorted(float(rise.reward[:, -1].mean()) for rise in rises)
    start = min(float(rise.reward[:, 0].mean()) for rise in rises) if base is None else base
    gain = ends[-1] - start
    if gain <= 0 or len(ends) < _LEAST_SETTINGS:
        return []
    # Two digits of the gain.
    digits = 1 - math.floor(math.log10(gain))
    levels = dict.fromkeys(round(start + share * gain, digits) for share in _SHARES)
    return [level for level in levels if level <= ends[-_LEAST_SETTINGS]]


def _hour_rates(courses: Courses, curves: Sequence[Curve]) -> Mapping[Pair, FloatArray]:
    """ln of device-hours over compute at every budget, mean over the runs of each setting, held
    level outside their records: (budgets,); without the settings whose records do not say."""
    at = np.log(courses.budgets)
    found = {}
    for pair, group in by_pair(curves, lambda curve: curve.run).items():
        rates = []
        for curve in group:
            hours = np.zeros(0) if curve.hours is None else curve.hours
            known = np.flatnonzero(hours > 0)
            if known.size:
                x = np.log(curve.compute[known])
                rates.append(np.interp(at, x, np.log(hours[known]) - x))
        if rates:
            found[pair] = np.mean(rates, axis=0)
    return found


def _target(
    courses: Courses,
    rises: Sequence[_Rise],
    rates: Mapping[Pair, FloatArray],
    reward: float,
    asked: bool,
    confidence: float,
) -> Target:
    at = np.stack([rise.crossing(reward) for rise in rises], axis=1)
    ends = np.array([rise.log_compute[[0, -1]] for rise in rises]).T
    x = np.log(courses.budgets)
    compute = _race(at, ends, confidence)
    hours: Sequence[Crossing | None] = [None] * len(rises)
    if rates.keys() >= set(courses.pairs):
        of = [rates[pair] for pair in courses.pairs]

        def taken(log_compute: FloatArray) -> FloatArray:
            """ln of device-hours: (..., pairs)."""
            added = [np.interp(log_compute[..., i], x, each) for i, each in enumerate(of)]
            return np.asarray(log_compute + np.stack(added, axis=-1))

        hours = _race(taken(at), taken(ends), confidence)
    reached = (at < np.inf).mean(axis=0).tolist()
    return Target(
        reward=reward,
        asked=asked,
        first=_first(courses.pairs, compute, reached, confidence),
        first_in_hours=_first(courses.pairs, hours, reached, confidence),
        settings=tuple(
            Reached(**pair._asdict(), probability=share, compute=in_compute, device_hours=in_hours)
            for pair, share, in_compute, in_hours in zip(
                courses.pairs, reached, compute, hours, strict=True
            )
        ),
    )


def _race(at: FloatArray, ends: FloatArray, confidence: float) -> list[Crossing]:
    """When every setting is there, and how surely before the others, by draws `at`: (draws, pairs)
    of ln compute, -inf by its first reading, inf not by its last; `ends`: (2, pairs), ln of these
    readings."""
    starts, last = ends
    # What a censored draw leaves open.
    earliest, latest = np.where(at == np.inf, last, at), np.where(at == -np.inf, starts, at)
    two = np.sort(np.pad(earliest, [(0, 0), (0, 1)], constant_values=np.inf), axis=1)[:, :2]
    others = np.where(earliest == two[:, :1], two[:, 1:], two[:, :1])
    first = ((latest <= others) & (at < np.inf)).mean(axis=0)
    kept = (earliest <= latest[:, [int(first.argmax())]]).mean(axis=0) >= 1 - confidence
    upper, several = upper_share(confidence), len(at) > 1
    middle, low, high = np.quantile(at, (0.5, 1 - upper, upper), axis=0, method="nearest")
    low = np.minimum(low, last)

    def known(log: float, drawn: bool = True) -> float | None:
        return math.exp(log) if drawn and math.isfinite(log) else None

    return [
        Crossing(
            median=known(middle[i]),
            low=known(low[i], several),
            high=known(high[i], several),
            first_read=math.exp(starts[i]),
            last_read=math.exp(last[i]),
            probability_first=float(first[i]) if several else None,
            may_be_first=bool(kept[i]) or not several,
        )
        for i in range(at.shape[1])
    ]


def _first(
    pairs: Sequence[Pair],
    crossings: Sequence[Crossing | None],
    reached: Sequence[float],
    confidence: float,
) -> First | None:
    """As `Target.first` has it; `reached`: the probability that each setting reaches the target."""

    def order(place: int) -> tuple[float, float]:
        """Without a spread the earliest is first."""
        at = known[place]
        here = at.first_read if at.median is None and reached[place] else at.median
        return at.probability_first or 0.0, -(here or math.inf)

    known = {i: each for i, each in enumerate(crossings) if each is not None}
    place = max(known, key=order, default=None)
    if place is None or reached[place] < HALF:
        return None
    share = known[place].probability_first
    if share is not None and share < 1 - confidence:
        return None
    as_early = (pairs[i] for i, each in known.items() if each.may_be_first and i != place)
    return First(
        **pairs[place]._asdict(),
        probability=share,
        at=known[place],
        as_early=tuple(map(NamedCell.of, as_early)),
    )
