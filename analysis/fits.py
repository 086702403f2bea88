"""The learning curve of one run as a saturating sigmoid in compute, where the data identify it."""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import least_squares

from isosweep.analysis.load import Curve, FloatArray, IntArray

# Three free parameters leave two residuals: the least from which a spread can be read.
MIN_RECORDS = 5
# How far C_mid may lie outside the records (a factor), and the range of exponents searched.
_MIDPOINT_FACTOR = 1e3
_EXPONENTS = (0.05, 20.0)
# Steps of one search; fits that the data identify take about ten.
_MAX_STEPS = 60
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
    standard_error: float


@dataclass(frozen=True, kw_only=True)
class Fit:
    """R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B) of one run; None where not identified.

    `asymptote` is A (reward), `midpoint` C_mid (budget unit), `exponent` B, `base_reward` R0.
    `reduced_chi2` is the weighted residual sum of squares per degree of freedom.
    """

    run_id: str
    status: FitStatus
    num_records: int
    base_reward: float | None
    asymptote: Estimate | None = None
    midpoint: Estimate | None = None
    exponent: Estimate | None = None
    reduced_chi2: float | None = None


def sigmoid(
    compute: FloatArray, base: float, asymptote: float, midpoint: float, exponent: float
) -> FloatArray:
    """Reward at `compute`: (records,). The form of ScaleRL (arXiv 2510.13786, eq. 1)."""
    # (C_mid / C)^B through logarithms, clipped where float64 would overflow.
    power = np.clip(exponent * (math.log(midpoint) - np.log(compute)), -700, 700)
    return base + (asymptote - base) / (1 + np.exp(power))


def reward_error(successes: IntArray, samples_per_problem: int) -> FloatArray:
    """Standard error of avg@k, in reward: (records,), from `successes`: (records, problems).

    The spread between problems of their success rates, which holds the binomial spread of k
    samples too, over the number of problems. Floor: the binomial error with one success and one
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


def fit_curve(curve: Curve) -> Fit:
    """Weighted least squares of the sigmoid to the records past step 0, R0 held at step 0's."""
    past = curve.steps > 0
    compute, reward = curve.compute[past], curve.reward[past]
    base, run_id = curve.base_reward, curve.run.run_id
    count = int(past.sum())
    if base is None or count < MIN_RECORDS or np.any(compute <= 0):
        return Fit(run_id=run_id, status=FitStatus.TOO_FEW, num_records=count, base_reward=base)
    if not _rises(curve):
        return Fit(run_id=run_id, status=FitStatus.NO_RISE, num_records=count, base_reward=base)
    error = reward_error(curve.successes[past], curve.samples_per_problem)
    parameters, covariance, chi2, on_bound = _solve(compute, reward, error, base)
    unfinished = _solve(compute, reward, error, base, past_window=True)[2]
    drop = (unfinished - chi2) * (count - 3) / max(1.0, chi2)
    if drop < _CHI2_DROP:
        status = FitStatus.WINDOW_SHORT
    elif on_bound or not np.all(np.isfinite(covariance)):
        status = FitStatus.ON_BOUND
    else:
        status = FitStatus.FITTED
    if status is not FitStatus.FITTED:
        return Fit(
            run_id=run_id, status=status, num_records=count, base_reward=base, reduced_chi2=chi2
        )
    # C_mid and B were fitted as logarithms; their errors follow by the delta method.
    return Fit(
        run_id=run_id,
        status=status,
        num_records=count,
        base_reward=base,
        asymptote=Estimate(value=parameters[0], standard_error=math.sqrt(covariance[0][0])),
        midpoint=_from_log(parameters[1], math.sqrt(covariance[1][1])),
        exponent=_from_log(parameters[2], math.sqrt(covariance[2][2])),
        reduced_chi2=chi2,
    )


def _from_log(logarithm: float, error: float) -> Estimate:
    value = math.exp(logarithm)
    return Estimate(value=value, standard_error=value * error)


def _rises(curve: Curve) -> bool:
    """Whether the last half of the records lies above step 0, problem by problem."""
    rates = curve.successes / curve.samples_per_problem
    gain = rates[1 + (len(rates) - 1) // 2 :].mean(axis=0) - rates[0]
    floor = 1 / (gain.size * curve.samples_per_problem)
    spread = float(gain.std(ddof=1)) / math.sqrt(gain.size) if gain.size > 1 else 0.0
    return bool(gain.mean() > _RISE * max(spread, floor))


def _solve(
    compute: FloatArray,
    reward: FloatArray,
    error: FloatArray,
    base: float,
    *,
    past_window: bool = False,
) -> tuple[list[float], list[list[float]], float, bool]:
    """Best (A, log C_mid, log B), covariance (3, 3), reduced chi2, whether any sits on a bound.

    The covariance is (J'J)^-1 of the weighted residuals, widened by the reduced chi2 where that
    exceeds 1: training noise is not in the weights. `past_window` searches only C_mid at or past
    the last record.
    """
    logs = np.log(compute)
    reach = math.log(_MIDPOINT_FACTOR)
    least = logs[-1] if past_window else logs[0] - reach
    lower = np.array([0.0, least, math.log(_EXPONENTS[0])])
    upper = np.array([1.0, logs[-1] + reach, math.log(_EXPONENTS[1])])

    def residuals(theta: FloatArray) -> FloatArray:
        fitted = sigmoid(compute, base, theta[0], math.exp(theta[1]), math.exp(theta[2]))
        return (fitted - reward) / error

    top = float(reward.max())
    midpoints = logs[-1] + [0.5, 2.0] if past_window else np.quantile(logs, (0.2, 0.5, 0.9))
    starts = [
        (asymptote, midpoint, math.log(exponent))
        for asymptote in (min(0.99, top + 0.02), 0.5 * (1 + top))
        for midpoint in midpoints
        for exponent in (0.7, 2.0)
    ]
    scale = np.array([0.1, 1.0, 0.5])
    results = [
        least_squares(
            residuals, np.array(start), bounds=(lower, upper), x_scale=scale, max_nfev=_MAX_STEPS
        )
        for start in starts
    ]
    best = min(results, key=lambda result: float(result.cost))
    theta = np.asarray(best.x, dtype=np.float64)
    on_bound = bool(np.any((theta - lower < 1e-3) | (upper - theta < 1e-3)))
    chi2 = 2 * float(best.cost) / (compute.size - 3)
    curvature = np.asarray(best.jac).T @ np.asarray(best.jac)
    if np.linalg.cond(curvature) > 1e12:
        covariance = np.full((3, 3), np.inf)
    else:
        covariance = np.linalg.inv(curvature) * max(1.0, chi2)
    return theta.tolist(), covariance.tolist(), chi2, on_bound
