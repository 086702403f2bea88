"""The learning curve of one run as a saturating sigmoid in compute, where the data identify it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.bounds import Count, NotNegative, Sentence, Share
from isosweep.analysis.curves import Curve
from isosweep.analysis.pairs import by_pair
from isosweep.analysis.statistics.alternatives import Alternatives, compare_laws
from isosweep.analysis.statistics.limits import Limit, find_limits
from isosweep.analysis.statistics.sigmoids import fit_sigmoids, logistic

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
    FALLS = "the reward rises and falls again, so A is not its limit"
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
    base_effect: float | None = None
    """Change of A if R0 were one evaluation error higher. Reward."""
    share_risen: Share | None = None
    """Of the way from R0 to A, what is behind the run at its last record. A share."""
    limits: tuple[Limit, ...] = ()
    """A by several forms, which the end of the curve weighs; none where the reward does not rise,
    or falls again."""
    alternatives: Alternatives | None = None
    """Other laws against the sigmoid; null with too few records."""


def sigmoid(
    compute: FloatArray, base: float, asymptote: float, midpoint: float, exponent: float
) -> FloatArray:
    """Reward at `compute`: (records,). The form of ScaleRL (arXiv 2510.13786, eq. 1)."""
    risen = logistic(exponent * (np.log(compute) - math.log(midpoint)))
    return base + (asymptote - base) * risen


def curve_errors(curve: Curve, chosen: BoolArray) -> FloatArray:
    """Standard errors of the `chosen` records' rewards: of (records,)."""
    if curve.errors is not None:
        return np.asarray(curve.errors[chosen])
    return reward_error(curve.successes[chosen], curve.samples_per_problem)


def sampled_error(curve: Curve, record: int) -> float:
    """Standard error of one record's reward that other samples of the same problems would bring."""
    if curve.errors is not None:
        return float(curve.errors[record])
    return sampling_error(curve.successes[record], curve.samples_per_problem)


def reward_error(successes: IntArray, samples_per_problem: int) -> FloatArray:
    """Standard error of avg@k, in reward: (records,), from `successes`: (records, problems).

    The spread between problems of their success rates, which includes the binomial spread of k
    samples, over the number of problems. Floor: the binomial error with one success and one
    failure added, so that an all-wrong record does not claim to be exact. Not counted: what
    another training seed would change.
    """
    num_problems = successes.shape[1]
    total = num_problems * samples_per_problem
    rate = (successes.sum(axis=1) + 1) / (total + 2)
    floor = rate * (1 - rate) / total
    if num_problems < 2:
        return np.asarray(np.sqrt(floor))
    between = (successes / samples_per_problem).var(axis=1, ddof=1) / num_problems
    return np.asarray(np.sqrt(np.maximum(between, floor)))


def sampling_error(successes: IntArray, samples_per_problem: int) -> float:
    """Standard error of one record's avg@k on these very problems: (problems,) successes.

    What other samples of the same problems would change; 0 with one sample a problem.
    """
    if samples_per_problem < 2:
        return 0.0
    rate = successes / samples_per_problem
    variance = rate * (1 - rate) / (samples_per_problem - 1)
    return float(np.sqrt(variance.sum())) / len(rate)


def fit_curves(curves: Sequence[Curve]) -> tuple[Fit, ...]:
    """Weighted least squares of the sigmoid to the records past step 0, R0 held at step 0's."""
    refused = {curve.run.run_id: _refused(curve) for curve in curves}
    fitted = [curve for curve in curves if refused[curve.run.run_id] is None]
    fits = {fit.run_id: fit for fit in _fit_together(fitted)}
    return tuple(refused[curve.run.run_id] or fits[curve.run.run_id] for curve in curves)


def _refused(curve: Curve) -> Fit | None:
    """Why a curve is not fitted at all."""
    past = curve.steps > 0
    base, count = curve.base_reward, int(past.sum())
    if base is None or count < MIN_RECORDS or np.any(curve.compute[past] <= 0):
        status = FitStatus.TOO_FEW
    elif not _rises(curve):
        status = FitStatus.NO_RISE
    else:
        return None
    return Fit(run_id=curve.run.run_id, status=status, num_records=count, base_reward=base)


def stack_records(curves: Sequence[Curve]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute, reward and its error past step 0: each (curves, records), NaN past a curve's end."""
    width = max(int((curve.steps > 0).sum()) for curve in curves)
    compute, reward, error = (np.full((len(curves), width), np.nan) for _ in range(3))
    for i, curve in enumerate(curves):
        past = curve.steps > 0
        count = int(past.sum())
        compute[i, :count], reward[i, :count] = curve.compute[past], curve.reward[past]
        error[i, :count] = curve_errors(curve, past)
    return compute, reward, error


def _fit_together(curves: Sequence[Curve]) -> list[Fit]:
    """Fits of curves that have enough records."""
    if not curves:
        return []
    compute, reward, error = stack_records(curves)
    base = np.array([[curve.base_reward] for curve in curves], dtype=np.float64)
    higher = base + [[sampled_error(curve, 0)] for curve in curves]
    sample = reward[:, None, :], 1 / error[:, None, :] ** 2, base
    moved = fit_sigmoids(compute, *sample[:2], np.minimum(higher, 1.0))
    best = fit_sigmoids(compute, *sample)
    last = np.log(np.nanmax(compute, axis=1))
    unfinished = fit_sigmoids(compute, *sample, least_midpoint=last)
    fits = [
        _described(
            curve,
            (float(best.asymptote[i, 0]), float(best.midpoint[i, 0]), float(best.exponent[i, 0])),
            float(best.objective[i, 0]),
            float(unfinished.objective[i, 0]),
            float(moved.asymptote[i, 0] - best.asymptote[i, 0]),
            bool(best.on_bound[i, 0]),
        )
        for i, curve in enumerate(curves)
    ]
    for i, limits in _limits(curves, fits, compute, reward, error).items():
        fits[i] = replace(fits[i], limits=limits)
    return fits


def _limits(
    curves: Sequence[Curve],
    fits: Sequence[Fit],
    compute: FloatArray,
    reward: FloatArray,
    error: FloatArray,
) -> dict[int, tuple[Limit, ...]]:
    """By several forms, for each curve that does not fall again; arrays: (curves, records)."""
    kept = [i for i, fit in enumerate(fits) if fit.status is not FitStatus.FALLS]
    if not kept:
        return {}
    base = np.array([curves[i].base_reward for i in kept], dtype=np.float64)
    groups = by_pair(enumerate(kept), lambda place: curves[place[1]].run).values()
    seeds = [[place for place, _ in group] for group in groups]
    found = find_limits(compute[kept], reward[kept], error[kept], base, seeds)
    return dict(zip(kept, found, strict=True))


def _described(
    curve: Curve,
    parameters: tuple[float, float, float],
    objective: float,
    unfinished: float,
    base_effect: float,
    on_bound: bool,
) -> Fit:
    """The fit of one curve with standard errors, or why its parameters are not identified.

    `parameters`: A, ln C_mid, ln B; `unfinished`: the least objective with C_mid past the records.
    """
    count = int((curve.steps > 0).sum())
    chi2 = objective / (count - 3)
    drop = (unfinished - objective) / max(1.0, chi2)
    covariance = _covariance(curve, parameters) * max(1.0, chi2)
    past = curve.steps > 0
    weight = 1 / curve_errors(curve, past) ** 2
    alternatives = compare_laws(curve, weight, objective)
    fit = Fit(
        run_id=curve.run.run_id,
        status=FitStatus.FITTED,
        num_records=count,
        base_reward=curve.base_reward,
        reduced_chi2=chi2,
        alternatives=alternatives,
    )
    if alternatives is not None and alternatives.falls:
        return replace(fit, status=FitStatus.FALLS)
    if drop < _CHI2_DROP:
        return replace(fit, status=FitStatus.WINDOW_SHORT)
    if on_bound or not np.all(np.isfinite(covariance)):
        return replace(fit, status=FitStatus.ON_BOUND)
    # C_mid and B were fitted as logarithms; their errors follow by the delta method.
    errors = np.sqrt(np.diag(covariance))
    return replace(
        fit,
        asymptote=Estimate(value=parameters[0], standard_error=float(errors[0])),
        midpoint=_from_log(parameters[1], float(errors[1])),
        exponent=_from_log(parameters[2], float(errors[2])),
        base_effect=base_effect,
        share_risen=float(
            sigmoid(curve.compute[-1:], 0.0, 1.0, math.exp(parameters[1]), math.exp(parameters[2]))[
                0
            ]
        ),
    )


def _covariance(curve: Curve, parameters: tuple[float, float, float]) -> FloatArray:
    """(J'J)^-1 of the weighted residuals by (A, ln C_mid, ln B): (3, 3), infinite if singular.

    The caller widens it by the reduced chi2 where that exceeds 1: training noise is not in the
    weights.
    """
    asymptote, midpoint, exponent = parameters
    past = curve.steps > 0
    error = curve_errors(curve, past)
    assert curve.base_reward is not None
    u = math.exp(exponent) * (np.log(curve.compute[past]) - midpoint)
    s = logistic(u)
    slope = (asymptote - curve.base_reward) * s * (1 - s)
    jacobian = np.stack([s, -math.exp(exponent) * slope, u * slope]) / error
    curvature = jacobian @ jacobian.T
    if np.linalg.cond(curvature) > 1e12:
        return np.full((3, 3), np.inf)
    return np.asarray(np.linalg.inv(curvature))


def _from_log(logarithm: float, error: float) -> Estimate:
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
