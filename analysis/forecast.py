"""Where a learning curve goes next, with an interval, from what has been recorded of it.

A mixture of saturating sigmoids: ln C_mid, exponent, noise, the size of gains, and how far the
run wanders from its curve lie on a grid; R0 and the gain are normal given those, so that every
point of the grid has a closed form, and its weight is how well it explains the records. What the
records cannot tell stays in the mixture, and widens the interval. Priors are wide, in rewards of
0 to 1; nothing is fitted to a particular set of runs. Records far from their neighbours (a broken
evaluation, a dip) count less.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from isosweep.analysis.load import FloatArray

# Fewer records than this say too little of noise and direction.
MIN_RECORDS = 5
# Standard deviations of the gain's prior, equally likely, and of R0's around the first record.
_GAINS, _START = (0.03, 0.1, 0.3), 0.5
# ln C_mid from e times before the first record to e^3 times past the last; ln exponents.
_MIDPOINTS, _EXPONENTS = 20, (-1.0, -0.67, -0.33, 0.0, 0.33, 0.67, 1.0)
_EXPONENT_SD = 0.5
# Variance of the wandering over that of the noise, and its correlation length in ln C.
_WANDERING, _LENGTH = (0.0, 0.3, 1.0, 3.0, 10.0), 0.5
# Noise over the spread around the neighbours, whose own noise adds to it.
_NOISES = (0.7, 1.0, 1.4)
_WINDOW = 3
# Records this many spreads from their neighbours count less, by the square of the excess.
_OUTLIER = 3.0
# Degrees of freedom of the predictive distribution: runs surprise more often than a normal does.
_FREEDOM = 3.0
_DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Median and interval of the records to come: (points,), in reward."""

    median: FloatArray
    low: FloatArray
    high: FloatArray


def forecast(
    compute: FloatArray, reward: FloatArray, at: FloatArray, confidence: float
) -> Forecast | None:
    """Records at compute `at`: (points,), past the last; None with fewer than MIN_RECORDS.

    `compute`, `reward`: (records,), ascending, compute above 0. The interval is for a record,
    its noise included.
    """
    if len(compute) < MIN_RECORDS:
        return None
    x, ahead = np.log(compute), np.log(at)
    spread, inflation = _noise(reward)
    mid = np.linspace(x[0] - 1, x[-1] + 3, _MIDPOINTS)
    grid = np.array(list(itertools.product(mid, _EXPONENTS)))  # (grid, 2)
    past, future = _basis(x, grid), _basis(ahead, grid)  # (grid, records), (grid, points)
    weights, means, errors = [], [], []
    for wandering in _WANDERING:
        kernel = wandering * np.exp(-np.abs(x[:, None] - x) / _LENGTH)
        reach = wandering * np.exp(-np.abs(ahead[:, None] - x) / _LENGTH)
        root = np.linalg.cholesky(kernel + np.diag(inflation))
        columns = np.vstack([np.ones_like(x), reward, past, reach])
        white = linalg.solve_triangular(root, columns.T, lower=True).T
        ones, target, curves, carried = (
            white[0],
            white[1],
            white[2 : 2 + len(grid)],
            white[-len(at) :],
        )
        volume = 2 * float(np.log(np.diag(root)).sum())
        left = 1 + wandering - (carried**2).sum(axis=1)  # (points,)
        for noise, gain in itertools.product(_NOISES, _GAINS):
            variance = (spread * noise) ** 2
            found = _solve(ones, target, curves, (float(reward[0]), gain), variance, volume)
            log_weight, coefficients, covariance = found
            # What is ahead: the curve there, and what is left of the wandering.
            slope = np.stack(
                [1 - carried @ ones + 0 * future, future - curves @ carried.T], axis=-1
            )
            means.append(carried @ target + np.einsum("gpk,gk->gp", slope, coefficients))
            own = np.einsum("gpj,gjk,gpk->gp", slope, covariance, slope)
            errors.append(np.sqrt(own + variance * left))
            weights.append(log_weight - grid[:, 1] ** 2 / (2 * _EXPONENT_SD**2))
    return _quantiles(np.concatenate(weights), np.vstack(means), np.vstack(errors), confidence)


def _basis(logs: FloatArray, grid: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.exp(grid[:, 1:]) * (logs - grid[:, :1]))))


def _noise(reward: FloatArray) -> tuple[float, FloatArray]:
    """Spread of the records, robustly, and each record's variance in units of its square.

    A record is compared with the median of as many neighbours before as after it, which follows a
    rise where a running median would follow the record. The first and last have no such
    neighbours, and count in full.
    """
    count = len(reward)
    distance = np.zeros(count)
    for i in range(1, count - 1):
        reach = min(i, count - 1 - i, _WINDOW)
        around = np.concatenate([reward[i - reach : i], reward[i + 1 : i + reach + 1]])
        distance[i] = abs(reward[i] - np.median(around))
    # A normal's median distance is 0.6745 standard deviations.
    spread = float(np.median(distance[1:-1])) / 0.6745 + 1e-4
    return spread, np.maximum(1.0, distance / (_OUTLIER * spread)) ** 2


def _solve(
    ones: FloatArray,
    target: FloatArray,
    curves: FloatArray,
    prior: tuple[float, float],
    variance: float,
    volume: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log weight (grid,), mean (grid, 2) and covariance (grid, 2, 2) of (R0, gain).

    `prior`: centre of R0's prior and standard deviation of the gain's.
    The gain is positive: a point of the grid weighs as much of its posterior as is.
    """
    first, gain = prior
    trust = np.diag([1 / _START**2, 1 / gain**2])
    centre = np.array([first, 0.0])
    design = np.stack([np.broadcast_to(ones, curves.shape), curves], axis=-1)
    precision = np.einsum("grj,grk->gjk", design, design) / variance + trust
    linear = np.einsum("grj,r->gj", design, target) / variance + trust @ centre
    covariance = np.linalg.inv(precision)
    mean = np.einsum("gjk,gk->gj", covariance, linear)
    misfit = target @ target / variance + centre @ trust @ centre - (linear * mean).sum(axis=1)
    log_weight = -0.5 * (misfit + volume + len(target) * math.log(variance))
    log_weight -= 0.5 * np.linalg.slogdet(precision)[1] + math.log(gain)
    rising = special.log_ndtr(mean[:, 1] / np.sqrt(covariance[:, 1, 1]))
    return log_weight + rising, mean, covariance


def _quantiles(
    log_weight: FloatArray, means: FloatArray, errors: FloatArray, confidence: float
) -> Forecast:
    """Quantiles of the mixture by seeded draws; a reward lies between 0 and 1."""
    rng = np.random.default_rng(0)
    weight = np.exp(log_weight - log_weight.max())
    chosen = rng.choice(len(weight), size=_DRAWS, p=weight / weight.sum())
    noise = rng.standard_t(_FREEDOM, size=(_DRAWS, 1))
    draws = np.clip(means[chosen] + errors[chosen] * noise, 0.0, 1.0)
    ends = (0.5, 0.5 - confidence / 2, 0.5 + confidence / 2)
    median, low, high = np.quantile(draws, ends, axis=0)
    return Forecast(median=median, low=low, high=high)
