"""The asymptote A of every (n, B), with an interval that covers what another seed would change.

A is the limit of a form, the sigmoid. It is given where the end of the curves alone, by a power law
that any curve with a limit comes to resemble, has its limit in that interval, and nowhere else:
curves with a slow tail go on rising where a sigmoid has ended.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Count
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.fits import Fit
from isosweep.analysis.statistics.intervals import student_half_width, upper_share
from isosweep.plan.cells import PlannedRun

# Of the way from R0 to A that a run must have behind it: fits of runs that have come less far
# bend early, and their A is too low.
_LEAST_RISEN = 0.8


@dataclass(frozen=True, kw_only=True)
class Asymptote:
    """A of one (n, B). None where it is not identified, or where the curves' ends deny it.

    With fewer than two runs that have a fit and have risen far enough along it, or fewer than all,
    no mean is given: those that have are not a fair sample.
    """

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    num_seeds: AtLeastOne
    """Runs planned."""
    num_identified: Count
    """Runs whose A is identified."""
    value: float | None
    """Mean over seeds. Reward."""
    low: float | None
    """Lower end. Reward."""
    high: float | None
    """Upper end. Reward."""


def asymptotes(
    runs: Sequence[PlannedRun], fits: Sequence[Fit], confidence: float
) -> tuple[Asymptote, ...]:
    """One for each (n, B), ascending.

    Student's t over the seeds' own estimates; R0's evaluation error, which all runs share and
    their spread does not show, is added in quadrature.
    """
    groups = by_pair(zip(runs, fits, strict=True), lambda fitted: fitted[0])
    return tuple(
        _over_seeds(pair, [fit for _, fit in group], confidence) for pair, group in groups.items()
    )


def _over_seeds(pair: Pair, fits: list[Fit], confidence: float) -> Asymptote:
    from scipy import stats

    values = [
        fit.asymptote.value
        for fit in fits
        if fit.asymptote is not None and (fit.share_risen or 0.0) >= _LEAST_RISEN
    ]
    mean = low = high = None
    if len(values) == len(fits) >= 2:
        mean = math.fsum(values) / len(values)
        shared = math.fsum(fit.base_effect or 0.0 for fit in fits) / len(fits)
        half = math.hypot(
            student_half_width(np.array(values), confidence),
            float(stats.norm.ppf(upper_share(confidence))) * shared,
        )
        low, high = max(mean - half, 0.0), min(mean + half, 1.0)
        tails = [fit.tail_limit for fit in fits if fit.tail_limit is not None]
        if not tails or not low <= float(np.median(tails)) <= high:
            mean = low = high = None
    return Asymptote(
        **pair._asdict(),
        num_seeds=len(fits),
        num_identified=len(values),
        value=mean,
        low=low,
        high=high,
    )
