"""Formulas of worlds, with x = log2 n, y = log2 B and d the distance in widths w of n or v of B.

`DelayedWorld`: every (n, B) follows a sigmoid in compute (ScaleRL, arXiv 2510.13786, eq. 1),

    R(C; n, B) = R0 + G h(x - x_sat) h(y - y_best) / (1 + (C_mid(n) / C)^b),   h = 1 / (1 + d^2),
    ln C_mid(n) = ln C_mid + c (x - x_sat).

Larger n gains more in the end and starts later, so the best n rises with compute and settles at
n_sat: where C is far past C_mid only G counts. Between the two, log2 n* follows the logistic
1 - 1 / (1 + (C_mid / C)^b), the form that the IsoCompute Playbook (arXiv 2603.12151) fits.

`PlantedWorld`: any course of the best n, any rise of the reward. The target x*(C) is a smooth
monotone-between-knots curve over log10 C, and

    R(C; n, B) = R0 + G r(C) max(h(x - x*(C)), s h(x - x_2)) h(y - y*(x)),
    y*(x) = y_0 - t (x - x_0).

s < 1 adds a second hump at x_2; with `peak="tent"`, h = max(0, 1 - |d|) in n. A dent takes a share
from the n at x_q, and less from those within a doubling. With one B at every n, or with t = 0,
n*(C) is 2^x*(C). r rises from 0 to 1 by one of the forms of RISES, so R0 + G h h is the asymptote
where x* comes to rest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special
from scipy.interpolate import PchipInterpolator

from isosweep.analysis.simulation.worlds import Floats, Numbers, World

# Share of the gain reached at u = C / C_mid, from 0 to 1: how curves of rewards may rise.
RISES: dict[str, Callable[[Floats], Floats]] = {
    "sigmoid": lambda u: np.asarray(special.expit(0.8 * np.log(u))),
    "steep": lambda u: np.asarray(special.expit(2 * np.log(u))),
    # A power law of what is left to gain.
    "power": lambda u: np.asarray(1 - (1 + u) ** -0.7),
    # Gompertz in log C.
    "gompertz": lambda u: np.asarray(np.exp(-(u**-0.9))),
    # Two thirds by a sigmoid, and a third that takes decades more.
    "slow": lambda u: np.asarray(
        2 / 3 * special.expit(2 * np.log(u)) + (1 - (1 + u / 10) ** -0.4) / 3
    ),
}


@dataclass(frozen=True, kw_only=True)
class DelayedWorld(World):
    """Worlds where larger n starts later; symbols as above.

    `saturation_n` n_sat; `delay` c per doubling of n, `exponent` b. Past `overfit_from` the reward
    falls by `overfit_slope` per factor e of compute.
    """

    saturation_n: float
    delay: float
    exponent: float
    best_batch: float = 128.0
    overfit_from: float = math.inf
    overfit_slope: float = 0.0

    def curve(
        self, compute: Floats, n: Numbers, B: Numbers, luck: float = 1.0, later: float = 0.0
    ) -> Floats:
        """Between 0 and 1, and lower by what overfitting takes."""
        late = later + self.delay * np.log2(n / self.saturation_n)
        reward = self.base_reward + luck * self._gain(n, B) * self._risen(compute, late)
        return np.asarray(np.clip(reward - self._overfitted(compute), 0.0, 1.0))

    def grown(self, compute: Floats, n: float, B: float) -> Floats:
        """As of n_sat at gain 1, whatever the n."""
        risen = self._risen(compute) - self._overfitted(compute)
        return np.clip(risen, 0.0, 1 - self.base_reward)

    def _gain(self, n: Numbers, B: Numbers) -> Floats:
        """G(n, B)."""
        x = np.log2(n / self.saturation_n) / self.width_n
        y = np.log2(B / self.best_batch) / self.width_batch
        return np.asarray(self.gain / (1 + x**2) / (1 + y**2))

    def _risen(self, compute: Floats, late: Numbers = 0.0) -> Floats:
        midpoint = math.log(self.midpoint) + late
        return np.asarray(special.expit(self.exponent * (np.log(compute) - midpoint)))

    def _overfitted(self, compute: Floats) -> Floats:
        past = np.maximum(np.log(compute) - math.log(self.overfit_from), 0.0)
        return np.asarray(self.overfit_slope * past)


@dataclass(frozen=True, kw_only=True)
class PlantedWorld(World):
    """Worlds planted by their n*(C); symbols as above.

    `knots`: (log10 C, x*), ascending in C; outside them x* stays where it is. `rise`: of RISES;
    `second_hump` s at `second_log2_n` x_2; `dent` at `dent_log2_n` x_q; `best_log2_batch` y_0,
    which falls by `batch_tilt` t per doubling of n from `tilt_log2_n` x_0 on.
    """

    base_reward: float = 0.40
    knots: tuple[tuple[float, float], ...]
    rise: str = "sigmoid"
    peak: Literal["hump", "tent"] = "hump"
    second_hump: float = 0.0
    second_log2_n: float = 0.0
    dent: float = 0.0
    dent_log2_n: float = 0.0
    best_log2_batch: float = 7.0
    batch_tilt: float = 0.0
    tilt_log2_n: float = 0.0

    def target(self, compute: Floats) -> Floats:
        """x*(C): log2 of the best n."""
        at, x = np.array(self.knots).T
        decades = np.clip(np.log10(compute), at[0], at[-1])
        return np.asarray(PchipInterpolator(at, x)(decades))

    def curve(
        self, compute: Floats, n: Numbers, B: Numbers, luck: float = 1.0, later: float = 0.0
    ) -> Floats:
        """R0 and what is gained."""
        return np.asarray(self.base_reward + luck * self._gained(compute, n, B, later))

    def grown(self, compute: Floats, n: float, B: float) -> Floats:
        """Of the best's gain."""
        return self._gained(compute, n, B) / self.gain

    def log2_best_batch(self, n: Numbers) -> Floats:
        """y*(x): log2 of the best B at n."""
        return np.asarray(self.best_log2_batch - self.batch_tilt * (np.log2(n) - self.tilt_log2_n))

    def _gained(self, compute: Floats, n: Numbers, B: Numbers, later: float = 0.0) -> Floats:
        risen = RISES[self.rise](compute / (self.midpoint * math.exp(later)))
        return np.asarray(self.gain * risen * self._share(self.target(compute), n, B))

    def _share(self, target: Floats, n: Numbers, B: Numbers) -> Floats:
        """Of the gain, at (n, B)."""
        x = np.log2(n)
        away = np.abs(x - target) / self.width_n
        hump = 1 / (1 + away**2) if self.peak == "hump" else np.maximum(1 - away, 0.0)
        second = self.second_hump / (1 + ((x - self.second_log2_n) / self.width_n) ** 2)
        kept = 1 - self.dent * np.clip(1 - np.abs(x - self.dent_log2_n), 0.0, 1.0)
        batch = (np.log2(B) - self.log2_best_batch(n)) / self.width_batch
        return np.asarray(np.maximum(hump, second) * kept / (1 + batch**2))
