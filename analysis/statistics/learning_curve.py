"""The learning curve of one run as a saturating sigmoid in compute, where the data identify it.

    R(C) = R0 + (A - R0) / (1 + (C_mid / C)^b)

R0 is the reward at step 0; A, C_mid and b are weighted least squares, with A in [0, 1] (ScaleRL,
arXiv 2510.13786, eq. 1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import least_squares

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Count, NotNegative, Sentence, Share
from isosweep.analysis.curves import Curve

# Three free parameters leave two residuals: the least from which a spread can be read.
MIN_RECORDS = 5
# Standard errors that a rise above step 0 must exceed.
_RISE = 2.0
# Drop in chi2 by which the free fit must beat every curve whose C_mid lies past the last record:
# the likelihood-ratio equivalent of three standard errors.
_CHI2_DROP = 9.0
# How far C_mid may lie outside the records (a factor), and the range of exponents.
MIDPOINT_FACTOR = 1e3
EXPONENTS = (0.05, 20.0)
# Points of the grid from whose best one the search starts: midpoints below, among and above the
# records, and exponents. Among the records they lie close: a steep curve can sit between any two.
_MIDPOINTS, _NUM_EXPONENTS = (4, 60, 6), 14
# So near to the end of its range (reward, ln C_mid, ln b) an estimate sits on its bound.
_NEAR = 1e-3
# Condition of J'J above which its inverse says nothing.
_CONDITION = 1e12


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

    @classmethod
    def of_log(cls, logarithm: float, error: float) -> "Estimate":
        """Of the estimate of a logarithm, by the delta method."""
        value = math.exp(logarithm)
        return cls(value=value, standard_error=value * error)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The sigmoid of one run; what is not identified is None."""

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
    """b. No unit."""
    reduced_chi2: NotNegative | None = None
    """Weighted squares of residuals per degree of freedom. No unit."""
    share_risen: Share | None = None
    """Of the way from R0 to A, what is behind the run at its last record. A share."""

    @property
    def parameters(self) -> tuple[Estimate | None, Estimate | None, Estimate | None]:
        """A, C_mid and b."""
        return self.asymptote, self.midpoint, self.exponent


class Sigmoid(NamedTuple):
    """A, ln C_mid, ln b, the weighted sum of squares, whether one of the three lies at the end of
    its range, and their standard errors by the records' own: infinite where they are not told
    apart."""

    asymptote: float
    log_midpoint: float
    log_exponent: float
    objective: float
    on_bound: bool
    errors: FloatArray


def sigmoid(
    compute: FloatArray, base: float, asymptote: float, midpoint: float, exponent: float
) -> FloatArray:
    """Reward at `compute`: (records,)."""
    risen = special.expit(exponent * (np.log(compute) - math.log(midpoint)))
    return np.asarray(base + (asymptote - base) * risen)


def fit_curves(curves: Sequence[Curve]) -> tuple[Fit, ...]:
    """One fit a run, to the records past step 0 and before a collapse."""
    return tuple(_fit(curve.until_collapse()) for curve in curves)


def _fit(curve: Curve) -> Fit:
    past = curve.steps > 0
    fit = Fit(
        run_id=curve.run.run_id,
        status=FitStatus.FITTED,
        num_records=int(past.sum()),
        base_reward=curve.base_reward,
    )
    compute = curve.compute[past]
    if fit.base_reward is None or fit.num_records < MIN_RECORDS or np.any(compute <= 0):
        return replace(fit, status=FitStatus.TOO_FEW)
    if not _rises(curve):
        return replace(fit, status=FitStatus.NO_RISE)
    sample = compute, curve.reward[past], reward_errors(curve)[past], fit.base_reward
    best, last = fit_sigmoid(*sample), math.log(float(compute[-1]))
    chi2 = best.objective / (fit.num_records - 3)
    # Training noise is not in the weights.
    spread = max(1.0, chi2)
    fit = replace(fit, reduced_chi2=chi2)
    unfinished = fit_sigmoid(*sample, least_log_midpoint=last).objective
    if (unfinished - best.objective) / spread < _CHI2_DROP:
        return replace(fit, status=FitStatus.WINDOW_SHORT)
    if best.on_bound or not np.isfinite(best.errors).all():
        return replace(fit, status=FitStatus.ON_BOUND)
    of_asymptote, of_midpoint, of_exponent = (best.errors * math.sqrt(spread)).tolist()
    exponent = Estimate.of_log(best.log_exponent, of_exponent)
    return replace(
        fit,
        asymptote=Estimate(value=best.asymptote, standard_error=of_asymptote),
        midpoint=Estimate.of_log(best.log_midpoint, of_midpoint),
        exponent=exponent,
        share_risen=float(special.expit(exponent.value * (last - best.log_midpoint))),
    )


def fit_sigmoid(
    compute: FloatArray,
    reward: FloatArray,
    error: FloatArray,
    base: float,
    least_log_midpoint: float | None = None,
) -> Sigmoid:
    """The best sigmoid through records past step 0, ascending: all (records,).

    `least_log_midpoint`: smallest ln C_mid allowed; by default a factor of 1,000 below the first
    record.
    """
    x, reach = np.log(compute), math.log(MIDPOINT_FACTOR)
    low = float(x[0]) - reach if least_log_midpoint is None else least_log_midpoint
    lower = np.array([0.0, low, math.log(EXPONENTS[0])])
    upper = np.array([1.0, float(x[-1]) + reach, math.log(EXPONENTS[1])])

    def residuals(theta: FloatArray) -> FloatArray:
        asymptote, midpoint, exponent = theta
        risen = special.expit(np.exp(exponent) * (x - midpoint))
        return np.asarray((base + (asymptote - base) * risen - reward) / error)

    def slopes(theta: FloatArray) -> FloatArray:
        """Derivatives of the residuals: (records, 3)."""
        asymptote, midpoint, exponent = theta
        steepness = np.exp(exponent)
        risen = special.expit(steepness * (x - midpoint))
        slope = (asymptote - base) * steepness * risen * (1 - risen)
        return np.stack([risen, -slope, slope * (x - midpoint)], axis=1) / error[:, None]

    # For given C_mid and b the best A is known: the search starts from the best of a grid of these.
    below, among, above = _MIDPOINTS
    first = max(low, float(x[0]))
    midpoints = np.concatenate(
        [
            np.linspace(low, first, below, endpoint=False),
            np.linspace(first, max(low, float(x[-1])), among),
            np.linspace(max(low, float(x[-1])), upper[1], above + 1)[1:],
        ]
    )
    exponents = np.linspace(lower[2], upper[2], _NUM_EXPONENTS)
    grid = np.stack(np.meshgrid(midpoints, exponents), axis=-1).reshape(-1, 2)
    risen = special.expit(np.exp(grid[:, 1:]) * (x - grid[:, :1]))  # (grid, records)
    weight = error**-2.0
    squares = np.maximum(risen**2 @ weight, np.finfo(float).tiny)
    gain = np.clip((risen * weight) @ (reward - base) / squares, -base, 1 - base)
    objective = (gain[:, None] * risen - (reward - base)) ** 2 @ weight
    start = int(objective.argmin())
    found = least_squares(
        residuals,
        np.clip([base + gain[start], *grid[start]], lower + 1e-9, upper - 1e-9),
        slopes,
        bounds=(lower, upper),
        x_scale=(0.1, 1.0, 1.0),
        xtol=1e-10,
        ftol=1e-12,
        gtol=1e-10,
    )
    curvature = found.jac.T @ found.jac
    errors = np.full(3, np.inf)
    if np.isfinite(curvature).all() and np.linalg.cond(curvature) <= _CONDITION:
        errors = np.sqrt(np.linalg.inv(curvature).diagonal())
    on_bound = np.minimum(found.x - lower, upper - found.x).min() < _NEAR
    asymptote, midpoint, exponent = found.x.tolist()
    objective = 2 * float(found.cost)
    return Sigmoid(asymptote, midpoint, exponent, objective, bool(on_bound), errors)


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
