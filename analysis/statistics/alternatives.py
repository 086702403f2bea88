"""Is a sigmoid the right law for a run's curve? Others are fitted beside it.

    sigmoid         R = R0 + (A - R0) / (1 + (C_mid / C)^B)         ScaleRL, arXiv 2510.13786
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
from isosweep.analysis.statistics.forms import FORMS, regress, solve_pair

Law = Literal["sigmoid", "power law", "log-linear", "rise then fall"]
SIGMOID: Final = "sigmoid"
FALL: Final = "rise then fall"
_PARAMETERS: dict[Law, int] = {SIGMOID: 3, "power law": 2, "log-linear": 2, FALL: 5}
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

    def power(exponents: FloatArray, target: FloatArray) -> float:
        """Least weighted sum of squares of a C^b over these b, a above 0."""
        columns = FORMS["power"].curve(logs - logs.mean(), exponents[:, None])
        found = regress(columns, target[None], weight[None])
        return float(found.misfit(found.gain(least=0.0)).min())

    objectives: dict[Law, float] = {
        SIGMOID: sigmoid_objective,
        "power law": power(_EXPONENTS, reward - base),
        "log-linear": power(-_SLOPES, 1 - reward),
        # A fall of no size is the sigmoid.
        FALL: min(sigmoid_objective, _rise_then_fall(logs, reward - base, weight)),
    }
    variance = max(objectives[FALL] / (count - _PARAMETERS[FALL]), _LEAST_VARIANCE)
    criteria = {
        law: objectives[law] / variance + 2 * k + 2 * k * (k + 1) / (count - k - 1)
        for law, k in _PARAMETERS.items()
    }
    least = min(criteria, key=lambda law: criteria[law])
    return Alternatives(
        best=least, differences={law: value - criteria[least] for law, value in criteria.items()}
    )


def _rise_then_fall(logs: FloatArray, rise: FloatArray, weight: FloatArray) -> float:
    """Least weighted sum of squares of a s - d h, with a and d above 0."""
    midpoints = np.linspace(logs[0] - 1, logs[-1], _MIDPOINTS)[:, None]
    rising = FORMS["sigmoid"].curve(logs - midpoints, _STEEPNESS[:, None, None])
    rising = rising.reshape(-1, len(logs))  # (sigmoids, records)
    # Two records past the peak at least: one alone may be a bad evaluation.
    falling = np.minimum(0.0, logs[1:-2, None] - logs)  # (peaks, records)
    of_rise, of_fall = (regress(each, rise[None], weight[None]) for each in (rising, falling))
    ss, sy = of_rise.square.T, of_rise.cross.T  # (sigmoids, 1)
    mixed = (rising * weight) @ falling.T  # (sigmoids, peaks)
    a, d = solve_pair(ss, mixed, of_fall.square, sy, of_fall.cross)
    objective = of_rise.total - a * sy - d * of_fall.cross
    allowed = (a > 0) & (d > 0) & (ss * of_fall.square * (1 - 1e-9) > mixed**2)
    return float(np.where(allowed, objective, np.inf).min())
