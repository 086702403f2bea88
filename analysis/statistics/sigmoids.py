"""A saturating sigmoid fitted to one learning curve, by weighted least squares.

    R(C) = R0 + (A - R0) / (1 + (C_mid / C)^b)

R0 is given, and A lies in [0, 1] (ScaleRL, arXiv 2510.13786, eq. 1).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from isosweep.analysis.arrays import FloatArray

# How far C_mid may lie outside the records (a factor), and the range of exponents searched.
MIDPOINT_FACTOR = 1e3
EXPONENTS = (0.05, 20.0)
# Points of the grid that the search starts from: midpoints below, among and above the records, and
# exponents. Among the records they lie close: a steep curve can sit between any two of them.
_MIDPOINTS, _NUM_EXPONENTS = (4, 60, 6), 14
# So near to the end of its range (reward, ln C_mid, ln b) an estimate sits on its bound.
_NEAR = 1e-3
# Condition of J'J above which its inverse says nothing.
_CONDITION = 1e12
_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class Sigmoid:
    """`midpoint`: ln C_mid; `exponent`: ln b; `objective`: the weighted sum of squares; `on_bound`:
    whether A, ln C_mid or ln b lies at the end of its range; `errors`: standard errors of the three
    by what the records are worth, infinite where they do not tell them apart."""

    asymptote: float
    midpoint: float
    exponent: float
    objective: float
    on_bound: bool
    errors: tuple[float, float, float]


def logistic(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)), elementwise."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-u)))


def fit_sigmoid(
    compute: FloatArray,
    reward: FloatArray,
    error: FloatArray,
    base: float,
    least_midpoint: float | None = None,
) -> Sigmoid:
    """The best sigmoid through records past step 0, ascending: all (records,).

    `least_midpoint`: smallest ln C_mid allowed; by default a factor of 1,000 below the first
    record.
    """
    logs, reach = np.log(compute), math.log(MIDPOINT_FACTOR)
    low = float(logs[0]) - reach if least_midpoint is None else least_midpoint
    lower = np.array([0.0, low, math.log(EXPONENTS[0])])
    upper = np.array([1.0, float(logs[-1]) + reach, math.log(EXPONENTS[1])])

    def residuals(theta: FloatArray) -> FloatArray:
        asymptote, midpoint, exponent = theta
        risen = logistic(np.exp(exponent) * (logs - midpoint))
        return np.asarray((base + (asymptote - base) * risen - reward) / error)

    start = np.clip(_start(logs, reward - base, error, base, lower, upper), lower, upper)
    inside = np.clip(start, lower + 1e-9, upper - 1e-9)
    found = least_squares(
        residuals,
        inside,
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
    asymptote, midpoint, exponent = map(float, found.x)
    return Sigmoid(
        asymptote=asymptote,
        midpoint=midpoint,
        exponent=exponent,
        objective=2 * float(found.cost),
        on_bound=bool(np.minimum(found.x - lower, upper - found.x).min() < _NEAR),
        errors=(float(errors[0]), float(errors[1]), float(errors[2])),
    )


def _start(
    logs: FloatArray,
    rise: FloatArray,
    error: FloatArray,
    base: float,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """The best (A, ln C_mid, ln b) of a grid; for given C_mid and b the best A is known."""
    seen = np.maximum(logs, lower[1])
    below, among, above = _MIDPOINTS
    midpoints = np.concatenate(
        [
            np.linspace(lower[1], seen[0], below, endpoint=False),
            np.linspace(seen[0], seen[-1], among),
            np.linspace(seen[-1], upper[1], above + 1)[1:],
        ]
    )
    exponents = np.linspace(lower[2], upper[2], _NUM_EXPONENTS)
    grid = np.stack(np.meshgrid(midpoints, exponents), axis=-1).reshape(-1, 2)
    risen = logistic(np.exp(grid[:, 1:]) * (logs - grid[:, :1]))  # (grid, records)
    weight = error**-2.0
    gain = np.clip((risen * weight) @ rise / np.maximum(risen**2 @ weight, _TINY), -base, 1 - base)
    objective = (gain[:, None] * risen - rise) ** 2 @ weight
    best = int(objective.argmin())
    return np.array([base + gain[best], *grid[best]])
