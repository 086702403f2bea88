"""The learning curve of one run as a saturating sigmoid in compute, where the data identify it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Count, NotNegative, Sentence, Share
from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.sigmoids import fit_sigmoid, logistic

# Three free parameters leave two residuals: the least from which a spread can be read.
MIN_RECORDS = 5
# Standard errors that a rise above step 0 must exceed.
_RISE = 2.0
# Drop in chi2 by which the free fit must beat every curve whose C_mid lies past the last record:
# the likelihood-ratio equivalent of three standard errors.
_CHI2_DROP = 9.0


class FitStatus(Enum):
    """What came of a fit; the value is the sentence that the report shows."""

    FITTED = "fitted"
    TOO_FEW = f"too few records: a fit needs step 0 and at least {MIN_RECORDS} records past it"
    NO_RISE = "no rise above noise: the reward never clearly leaves its value at step 0"
    WINDOW_SHORT = "the window may end below C_mid, so A is not identified"
    ON_BOUND = "an estimate sits on its bound, so the parameters are not identified"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A parameter and its standard error, in the parameter's unit."""

    value: float
    """Estimate."""
    standard_error: NotNegative
    """Standard error."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B) of one run; None where not identified."""

    run_id: Sentence
    """The run."""
    status: FitStatus
    """What came of the fit, as a sentence."""
    num_records: Count
    """Records past step 0."""
    base_reward: Share | None
    """R0, reward at step 0."""
    asymptote: Estimate | None = None
    """A. Reward."""
    midpoint: Estimate | None = None
    """C_mid, in budget_unit."""
    exponent: Estimate | None = None
    """B of the sigmoid. No unit."""
    reduced_chi2: NotNegative | None = None
    """Weighted squares of residuals per degree of freedom. No unit."""
    share_risen: Share | None = None
    """Of the way from R0 to A, what is behind the run at its last record. A share."""


def sigmoid(
    compute: FloatArray, base: float, asymptote: float, midpoint: float, exponent: float
) -> FloatArray:
    """Reward at `compute`: (records,). The form of ScaleRL (arXiv 2510.13786, eq. 1)."""
    risen = logistic(exponent * (np.log(compute) - math.log(midpoint)))
    return base + (asymptote - base) * risen


def reward_errors(curve: Curve) -> FloatArray:
    """Standard errors of the metric, in reward: (records,).

    The spread between problems of their values, which includes the spread of k samples, over the
    number of problems. Floor: the binomial error with one success and one failure added, so that
    an all-wrong record does not claim to be exact. Not counted: what another training seed would
    change.
    """
    if curve.errors is not None:
        return np.asarray(curve.errors)
    num_problems, samples = curve.successes.shape[1], curve.samples_per_problem
    total = num_problems * samples
    rate = (curve.successes.sum(axis=1) + 1) / (total + 2)
    floor = rate * (1 - rate) / total
    if num_problems < 2:
        return np.asarray(np.sqrt(floor))
    between = (curve.successes / samples).var(axis=1, ddof=1) / num_problems
    return np.asarray(np.sqrt(np.maximum(between, floor)))


def fit_curves(curves: Sequence[Curve]) -> tuple[Fit, ...]:
    """Weighted least squares of the sigmoid to the records past step 0, R0 held at step 0's."""
    fits = (
        Fit(
            run_id=curve.run.run_id,
            status=_before(curve),
            num_records=int((curve.steps > 0).sum()),
            base_reward=curve.base_reward,
        )
        for curve in curves
    )
    return tuple(
        _fitted(curve, fit) if fit.status is FitStatus.FITTED else fit
        for curve, fit in zip(curves, fits, strict=True)
    )


def _before(curve: Curve) -> FitStatus:
    """Why a curve is not fitted at all, or that it is."""
    past = curve.steps > 0
    if curve.base_reward is None or past.sum() < MIN_RECORDS or np.any(curve.compute[past] <= 0):
        return FitStatus.TOO_FEW
    return FitStatus.FITTED if _rises(curve) else FitStatus.NO_RISE


def _fitted(curve: Curve, fit: Fit) -> Fit:
    """The fit of a curve that has enough records, by what is known of it before."""
    past = curve.steps > 0
    sample = curve.compute[past], curve.reward[past], reward_errors(curve)[past]
    base = float(curve.reward[0])
    last = math.log(float(curve.compute[past][-1]))
    best = fit_sigmoid(*sample, base)
    chi2 = best.objective / (fit.num_records - 3)
    # Training noise is not in the weights.
    spread = max(1.0, chi2)
    fit = replace(fit, reduced_chi2=chi2)
    unfinished = fit_sigmoid(*sample, base, least_midpoint=last).objective
    if (unfinished - best.objective) / spread < _CHI2_DROP:
        return replace(fit, status=FitStatus.WINDOW_SHORT)
    if best.on_bound or not np.isfinite(best.errors).all():
        return replace(fit, status=FitStatus.ON_BOUND)
    of_asymptote, of_midpoint, of_exponent = (each * math.sqrt(spread) for each in best.errors)
    risen = logistic(np.array(math.exp(best.exponent) * (last - best.midpoint)))
    return replace(
        fit,
        asymptote=Estimate(value=best.asymptote, standard_error=of_asymptote),
        midpoint=_from_log(best.midpoint, of_midpoint),
        exponent=_from_log(best.exponent, of_exponent),
        share_risen=float(risen),
    )


def _from_log(logarithm: float, error: float) -> Estimate:
    """By the delta method."""
    value = math.exp(logarithm)
    return Estimate(value=value, standard_error=value * error)


def _rises(curve: Curve) -> bool:
    """Whether the last half of the records lies above step 0, problem by problem."""
    half = 1 + (len(curve.reward) - 1) // 2
    if curve.errors is not None:
        error = math.hypot(curve.errors[0], float(np.mean(curve.errors[half:])))
        return float(curve.reward[half:].mean() - curve.reward[0]) > _RISE * error
    rates = curve.successes / curve.samples_per_problem
    gain = rates[half:].mean(axis=0) - rates[0]
    floor = 1 / (gain.size * curve.samples_per_problem)
    spread = float(gain.std(ddof=1)) / math.sqrt(gain.size) if gain.size > 1 else 0.0
    return bool(gain.mean() > _RISE * max(spread, floor))
