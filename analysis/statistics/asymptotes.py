"""The asymptote A of every (n, B), with an interval that holds what another seed would change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from isosweep.analysis.statistics.fits import Fit
from isosweep.plan.cells import PlannedRun

# Of the way from R0 to A that a run must have behind it: fits of runs that have come less far
# bend early, and their A is too low.
_LEAST_RISEN = 0.8


@dataclass(frozen=True, kw_only=True)
class Asymptote:
    """A of one (n, B): mean over seeds and interval, in reward. None where it is not identified.

    `num_identified` of `num_seeds` runs have a fit and have risen far enough along it. With fewer
    than two, or fewer than all, no mean is given: those that have are not a fair sample.
    """

    num_generations: int
    problems_per_batch: int
    num_seeds: int
    num_identified: int
    value: float | None
    low: float | None
    high: float | None


def asymptotes(
    runs: Sequence[PlannedRun], fits: Sequence[Fit], confidence: float
) -> tuple[Asymptote, ...]:
    """One for each (n, B), ascending.

    Student's t over the seeds' own estimates; R0's evaluation error, which all runs share and
    their spread does not show, is added in quadrature.
    """
    groups: dict[tuple[int, int], list[Fit]] = {}
    for run, fit in zip(runs, fits, strict=True):
        groups.setdefault((run.num_generations, run.problems_per_batch), []).append(fit)
    return tuple(_over_seeds(n, B, group, confidence) for (n, B), group in sorted(groups.items()))


def _over_seeds(n: int, B: int, fits: list[Fit], confidence: float) -> Asymptote:
    values = [
        fit.asymptote.value
        for fit in fits
        if fit.asymptote is not None and (fit.share_risen or 0.0) >= _LEAST_RISEN
    ]
    mean = low = high = None
    if len(values) == len(fits) >= 2:
        mean = math.fsum(values) / len(values)
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        shared = math.fsum(fit.base_effect or 0.0 for fit in fits) / len(fits)
        tail = 0.5 + confidence / 2
        half = math.hypot(
            float(stats.t.ppf(tail, len(values) - 1)) * error, float(stats.norm.ppf(tail)) * shared
        )
        low, high = max(mean - half, 0.0), min(mean + half, 1.0)
    return Asymptote(
        num_generations=n,
        problems_per_batch=B,
        num_seeds=len(fits),
        num_identified=len(values),
        value=mean,
        low=low,
        high=high,
    )
