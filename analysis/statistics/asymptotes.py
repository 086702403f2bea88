"""The asymptote A of every (n, B), with an interval for what another seed or form would change.

A is what curves approach that no record shows: it rests on the form that they are taken to have.
So several forms say theirs (`limits`), weighed by the end of the curves. Given a form, A is the
mean over seeds, by Student's t, with what its exponents and R0's evaluation leave open, which all
seeds share, in quadrature; the interval is of the mixture of forms. A is given where the forms
that count have theirs in that interval, and where all runs are near enough to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import special

from isosweep.analysis.bounds import AtLeastOne, Count
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.fits import Fit
from isosweep.analysis.statistics.intervals import Interval, upper_share
from isosweep.plan.cells import PlannedRun

# Of the way from R0 to A that a run must have behind it: what is further off rests on the form
# alone.
_LEAST_RISEN = 0.8
# Forms of less weight need not agree.
_LEAST_WEIGHT = 0.05
# Of a mean over seeds, in reward, so that seeds that agree to the last digit have a spread.
_LEAST_ERROR, _ROUNDING = 1e-6, 1e-9


class AsymptoteStatus(Enum):
    """What came of A; the value is the sentence that the report shows."""

    GIVEN = "given"
    ONE_SEED = "one seed shows no spread"
    TOO_EARLY = "a run does not rise, falls again, or has less than 80% of the way to A behind it"
    DISAGREE = "forms that the records do not tell apart have limits too far from each other"


@dataclass(frozen=True, kw_only=True)
class Asymptote:
    """A of one (n, B). None where the status says why.

    With fewer runs than all that have come far enough no mean is given: those that have are not a
    fair sample.
    """

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    num_seeds: AtLeastOne
    """Runs planned."""
    num_identified: Count
    """Runs that have come far enough to tell A."""
    status: AsymptoteStatus
    """Whether A is given, or why not, as a sentence."""
    value: float | None = None
    """Median over forms of the mean over seeds. Reward."""
    low: float | None = None
    """Lower end. Reward."""
    high: float | None = None
    """Upper end. Reward."""


def asymptotes(
    runs: Sequence[PlannedRun], fits: Sequence[Fit], confidence: float
) -> tuple[Asymptote, ...]:
    """One for each (n, B), ascending."""
    groups = by_pair(zip(runs, fits, strict=True), lambda fitted: fitted[0])
    return tuple(
        _over_seeds(pair, [fit for _, fit in group], confidence) for pair, group in groups.items()
    )


def _over_seeds(pair: Pair, fits: list[Fit], confidence: float) -> Asymptote:
    identified = [fit for fit in fits if _risen(fit) >= _LEAST_RISEN]
    found = Asymptote(
        **pair._asdict(),
        num_seeds=len(fits),
        num_identified=len(identified),
        status=AsymptoteStatus.ONE_SEED,
    )
    if len(fits) < 2:
        return found
    if len(identified) < len(fits):
        return replace(found, status=AsymptoteStatus.TOO_EARLY)
    at = _interval(fits, confidence)
    if at is None:
        return replace(found, status=AsymptoteStatus.DISAGREE)
    given = AsymptoteStatus.GIVEN
    return replace(found, status=given, value=at.median, low=at.low, high=at.high)


def _risen(fit: Fit) -> float:
    """Share of the way to A behind the run, by the weights of the forms; 0 without any."""
    return sum(limit.weight * limit.risen for limit in fit.limits)


def _interval(fits: Sequence[Fit], confidence: float) -> Interval | None:
    """Of A by the mixture of forms; None where a form that counts has its A outside."""
    from scipy import optimize, stats

    of_form = list(zip(*(fit.limits for fit in fits), strict=True))
    weight = np.array([seeds[0].weight for seeds in of_form])
    values = np.array([[limit.asymptote for limit in seeds] for seeds in of_form])
    centre, freedom = values.mean(axis=1), len(fits) - 1
    base = sum(fit.base_effect or 0.0 for fit in fits) / len(fits)
    # Normal, put so that the Student's interval of both has its normal width in quadrature.
    upper = upper_share(confidence)
    ratio = float(stats.norm.ppf(upper) / stats.t.ppf(upper, freedom))
    shared = ratio * np.hypot([seeds[0].spread for seeds in of_form], base)
    error = np.hypot(values.std(axis=1, ddof=1) / np.sqrt(len(fits)), shared)
    error = np.maximum(error, _LEAST_ERROR)

    def quantile(share: float) -> float:
        def excess(at: float) -> float:
            return float(weight @ special.stdtr(freedom, (at - centre) / error)) - share

        # Between the least and the largest of the forms', and a little more for rounding.
        of_forms = centre + error * stats.t.ppf(share, freedom)
        ends = of_forms.min() - _ROUNDING, of_forms.max() + _ROUNDING
        return float(np.clip(optimize.brentq(excess, *ends), 0.0, 1.0))

    found = Interval(median=quantile(0.5), low=quantile(1 - upper), high=quantile(upper))
    counts = np.clip(centre[weight >= _LEAST_WEIGHT], 0.0, 1.0)
    agree = found.low <= counts.min() and counts.max() <= found.high
    return found if agree else None
