"""Is a sigmoid the right law for a run's curve? Others are fitted beside it.

    sigmoid         R = R0 + (A - R0) / (1 + (C_mid / C)^b)         ScaleRL, arXiv 2510.13786
    power law       R = R0 + a C^p
    log-linear      ln(1 - R) = E - k ln C                          arXiv 2509.25300
    rise then fall  the sigmoid less d max(0, ln C - ln C_peak)     overfitting

compared by the information criterion QAICc (Burnham and Anderson 2002): weighted sum of squares
over the variance that the richest law leaves, and a charge for every parameter.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import NotNegative
from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.sigmoids import logistic

Law = Literal["sigmoid", "power law", "log-linear", "rise then fall"]
SIGMOID: Final = "sigmoid"
POWER: Final = "power law"
LOG_LINEAR: Final = "log-linear"
FALL: Final = "rise then fall"
_PARAMETERS: dict[Law, int] = {SIGMOID: 3, POWER: 2, LOG_LINEAR: 2, FALL: 5}
# The criterion of a law that is worse by this much has next to no support (ibid., p. 70).
DECISIVE = 6.0
# Past step 0, so that the richest law leaves residuals.
_LEAST_RECORDS = 8
# Grids: exponents p, slopes k; midpoints and exponents of the sigmoid under a fall.
_EXPONENTS = np.geomspace(0.01, 2.0, 60)
_SLOPES = np.geomspace(1e-4, 1.0, 60)
_MIDPOINTS, _STEEPNESS = 24, np.geomspace(0.3, 6.0, 9)
# Residual variance per weight below which rounding, not noise, would speak.
_LEAST_VARIANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """How much worse than the best law each one is, by QAICc; `best` has 0."""

    best: Law
    """Law with the least QAICc."""
    differences: dict[Law, NotNegative]
    """How much worse each law is, by QAICc."""

    @property
    def falls(self) -> bool:
        """Whether the curve surely rises and falls again, so that A is not its limit."""
        sigmoid, fall = self.differences[SIGMOID], self.differences[FALL]
        return self.best == FALL and sigmoid - fall >= DECISIVE


def compare_laws(curve: Curve, weight: FloatArray, sigmoid_objective: float) -> Alternatives | None:
    """The laws for one run; None with too few records.

    `weight` (records past step 0,): 1 / variance; `sigmoid_objective`: the least weighted sum of
    squares of the sigmoid.
    """
    past = curve.steps > 0
    count = int(past.sum())
    if count < _LEAST_RECORDS:
        return None
    logs, reward, base = np.log(curve.compute[past]), curve.reward[past], float(curve.reward[0])
    centred = logs - logs.mean()
    objectives: dict[Law, float] = {
        SIGMOID: sigmoid_objective,
        POWER: _scaled(np.exp(_EXPONENTS[:, None] * centred), reward - base, weight),
        LOG_LINEAR: _scaled(np.exp(-_SLOPES[:, None] * centred), 1 - reward, weight),
    }
    # A fall of no size is the sigmoid.
    objectives[FALL] = min(sigmoid_objective, _rise_then_fall(logs, reward - base, weight))
    freedom = count - _PARAMETERS[FALL]
    variance = max(objectives[FALL] / freedom, _LEAST_VARIANCE)
    criteria: dict[Law, float] = {}
    for name, objective in objectives.items():
        k = _PARAMETERS[name]
        criteria[name] = objective / variance + 2 * k + 2 * k * (k + 1) / (count - k - 1)
    least = min(criteria, key=lambda name: criteria[name])
    return Alternatives(
        best=least,
        differences={name: value - criteria[least] for name, value in criteria.items()},
    )


def _scaled(basis: FloatArray, target: FloatArray, weight: FloatArray) -> float:
    """Least weighted sum of squares of a x basis over the rows of `basis`, a above 0."""
    square = (basis**2) @ weight
    scale = np.maximum(basis @ (weight * target) / square, 0.0)
    residual = scale[:, None] * basis - target
    return float(((residual**2) @ weight).min())


def _rise_then_fall(logs: FloatArray, rise: FloatArray, weight: FloatArray) -> float:
    """Least weighted sum of squares of a s - d h, with a and d above 0."""
    midpoints = np.linspace(logs[0] - 1, logs[-1], _MIDPOINTS)
    u = _STEEPNESS[:, None, None] * (logs - midpoints[:, None])
    rising = logistic(u).reshape(-1, len(logs))  # (sigmoids, r)
    # Two records past the peak at least: one alone may be a bad evaluation.
    falling = np.maximum(0.0, logs - logs[1:-2, None])  # (peaks, r)
    ss, hh = (rising**2) @ weight, (falling**2) @ weight
    sh = (rising * weight) @ falling.T  # (sigmoids, peaks)
    sy, hy = rising @ (weight * rise), falling @ (weight * rise)
    determinant = ss[:, None] * hh - sh**2
    a = (sy[:, None] * hh - sh * hy) / np.maximum(determinant, 1e-300)
    d = (sh * sy[:, None] - ss[:, None] * hy) / np.maximum(determinant, 1e-300)
    total = float((weight * rise**2).sum())
    objective = total - a * sy[:, None] + d * hy
    allowed = (a > 0) & (d > 0) & (determinant > 1e-9 * ss[:, None] * hh)
    return float(np.where(allowed, objective, np.inf).min())
