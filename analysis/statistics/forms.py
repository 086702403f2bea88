"""The forms that learning curves are taken to have, and the regression of rewards on them.

    R(C) = R0 + a f(u, b),      u = ln C - m

Midpoint m and exponent b are tried on grids; given those, the best gain a has a closed form. A form
is a row of FORMS; what is fitted (`sigmoids`), set beside it (`alternatives`), weighed for the
limit A (`limits`) and for what comes next (`forecast`) are rows of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray

# Below it Gompertz's curve is 0 to the last digit, and its inner exponential would overflow.
_LOWEST = -10.0
# The exponent of a sigmoid that ends late.
_SLOW = 0.3
_TINY = 1e-300


def logistic(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)), elementwise; `scipy.special.expit` takes twice as long."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-u)))


@dataclass(frozen=True, kw_only=True)
class CurveForm:
    """One form. `curve`: f of u and b, which broadcast; `shapes`: how many of m and b it has, 1 for
    b alone; `chance`: in a forecast, before any record is seen."""

    curve: Callable[[FloatArray, FloatArray], FloatArray]
    shapes: int = 2
    chance: float = 0.0


# Chances: sigmoids are what others have found most (ScaleRL, arXiv 2510.13786); the others are
# alike.
FORMS = {
    # 1 / (1 + (C_mid / C)^b), ScaleRL.
    "sigmoid": CurveForm(curve=lambda u, b: logistic(b * u), chance=0.4),
    # exp(-(C_mid / C)^b), which starts faster than it ends.
    "Gompertz": CurveForm(
        curve=lambda u, b: np.exp(-np.exp(-np.maximum(b * u, _LOWEST))), chance=0.15
    ),
    # 1 - (1 + C / C_mid)^-b
    "power law": CurveForm(curve=lambda u, b: -np.expm1(-b * np.logaddexp(0, u))),
    # 1 - (1 + (C / C_mid)^b)^-0.3, a sigmoid that ends late.
    "slow tail": CurveForm(curve=lambda u, b: -np.expm1(-_SLOW * np.logaddexp(0, b * u))),
    # 1 - (C_1 / C)^b, a power law from the first record on.
    "decay": CurveForm(curve=lambda u, b: -np.expm1(-b * u), shapes=1, chance=0.15),
    "line": CurveForm(curve=lambda u, b: b * u, shapes=0, chance=0.15),
    "stays": CurveForm(curve=lambda u, b: 0 * b * u, shapes=0, chance=0.15),
    # C^b, without a limit.
    "power": CurveForm(curve=lambda u, b: np.exp(b * u), shapes=1),
}


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Of targets y on columns x through the origin, by weighted sums over records.

    `square` of x x and `cross` of x y: (..., targets, columns); `total` of y y: (..., targets, 1).
    """

    square: FloatArray
    cross: FloatArray
    total: FloatArray

    def gain(
        self, least: float | FloatArray = -np.inf, most: float | FloatArray = np.inf
    ) -> FloatArray:
        """The best multiple of each column between `least` and `most`."""
        return np.asarray(np.clip(self.cross / np.maximum(self.square, _TINY), least, most))

    def misfit(self, gain: FloatArray) -> FloatArray:
        """The sum of squares that this multiple leaves."""
        return np.asarray(self.total - gain * (2 * self.cross - gain * self.square))


def regress(columns: FloatArray, targets: FloatArray, weight: FloatArray) -> Regression:
    """Of `targets`, (..., targets, records), on each of `columns`, (..., columns, records).

    `weight`: 1 / variance of each target, of its shape, 0 where there is no record.
    """
    turned = columns.swapaxes(-1, -2)
    return Regression(
        square=weight @ turned**2,
        cross=(weight * targets) @ turned,
        total=(weight * targets**2).sum(axis=-1, keepdims=True),
    )


def solve_pair(
    first: FloatArray, mixed: FloatArray, second: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """x and y, elementwise. Given: first x + mixed y = left, mixed x + second y = right."""
    determinant = np.maximum(first * second - mixed**2, _TINY)
    x, y = second * left - mixed * right, first * right - mixed * left
    return x / determinant, y / determinant
