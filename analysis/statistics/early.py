"""How well an early reading of a sweep predicts its end: order of settings, and the price of trust.

The order is compared by Kendall's tau: of all pairs of settings, the share in the same order less
the share in the opposite one. With few settings it keeps a plain meaning, (1 + tau) / 2 of pairs
keep their order, where Spearman's rho leans on the extremes.

Noise attenuates a correlation of measured means, most where settings are close. So tau has both:
of the measured means, and of the draws of the reward surface, whose means have no noise. Its
interval is what a value without noise is compatible with: a pair whose order at either budget the
records do not tell may be kept or swapped in truth, and all such pairs may be kept, or swapped, at
once. Quantiles of the draws' own tau, in which some of them go each way, would be too narrow.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.bounds import AtLeastOne, Count, NotNegative, Positive, Share
from isosweep.analysis.statistics.courses import Courses
from isosweep.analysis.statistics.intervals import Interval, upper_share

# Two settings have one pair, whose tau is 1 or -1.
_LEAST_SETTINGS = 3


@dataclass(frozen=True, kw_only=True)
class Early:
    """One earlier budget against the last one, over the settings that were read at both."""

    budget: Positive
    """The earlier budget, in budget_unit."""
    share: Share
    """Of the last budget's compute."""
    nearest_to_a_tenth: bool
    """Whether its share is the nearest to a tenth, by factors."""
    last: Positive
    """The last budget, in budget_unit."""
    num_settings: AtLeastOne
    """Settings (n, B) read at both budgets."""
    measured: float
    """Kendall's tau of the measured means. No unit."""
    tau: Interval | None
    """Of rewards without noise: median, and the least and most with the pairs that are sure; null
    without a spread between seeds. No unit."""
    num_same: Count | None
    """Pairs that surely keep their order, by the upper end of an interval; null likewise."""
    num_opposite: Count | None
    """Pairs that surely swap it; null likewise."""
    num_pairs: AtLeastOne
    """All pairs of these settings."""
    num_generations: AtLeastOne
    """The n that is best at the earlier budget."""
    problems_per_batch: AtLeastOne
    """Its B."""
    measured_regret: NotNegative
    """What it loses against the best at the last budget, by measured means. Reward."""
    regret: Interval | None
    """The same of expected rewards; null without a spread between seeds."""


def early_against_final(courses: Courses, confidence: float) -> tuple[Early, ...]:
    """One for each budget before the last that three settings or more have reached, ascending,
    with as many in common."""
    ends = np.flatnonzero(courses.read.sum(axis=0) >= _LEAST_SETTINGS)
    found = []
    for k in range(ends[-1] if ends.size else 0):
        both = np.flatnonzero(courses.read[:, [k, ends[-1]]].all(axis=1))
        if both.size >= _LEAST_SETTINGS:
            found.append(_compare(courses, (k, int(ends[-1])), both, confidence))
    nearest = min(found, key=lambda at: abs(math.log(at.share / 0.1)), default=None)
    return tuple(replace(at, nearest_to_a_tenth=at is nearest) for at in found)


def _compare(
    courses: Courses, budgets: tuple[int, int], both: IntArray, confidence: float
) -> Early:
    """The earlier budget against the last, by their places, over the settings at places `both`."""
    budget, end = (float(courses.budgets[k]) for k in budgets)
    before, after = (courses.measured[both, k] for k in budgets)
    first, last = (courses.reward[:, both, k] for k in budgets)
    agree = _signs(first) * _signs(last)  # (draws, pairs)
    chosen = int(first.mean(axis=0).argmax())
    same = opposite = tau = regret = None
    if courses.drawn:
        upper, pairs = upper_share(confidence), agree.shape[1]
        same, opposite = (int(((s * agree > 0).mean(axis=0) >= upper).sum()) for s in (1, -1))
        tau = Interval(
            median=float(np.median(agree.mean(axis=1))),
            low=2 * same / pairs - 1,
            high=1 - 2 * opposite / pairs,
        )
        regret = Interval.central(last.max(axis=1) - last[:, chosen], confidence)
    return Early(
        budget=budget,
        share=budget / end,
        nearest_to_a_tenth=False,
        last=end,
        num_settings=len(both),
        num_pairs=agree.shape[1],
        measured=float((_signs(before) * _signs(after)).mean()),
        tau=tau,
        num_same=same,
        num_opposite=opposite,
        **courses.pairs[both[chosen]]._asdict(),
        measured_regret=float(after.max() - after[chosen]),
        regret=regret,
    )


def _signs(reward: FloatArray) -> FloatArray:
    """Which of two settings is better, of every pair: (..., pairs) of (..., settings)."""
    one, other = np.triu_indices(reward.shape[-1], 1)
    return np.asarray(np.sign(reward[..., one] - reward[..., other]))
