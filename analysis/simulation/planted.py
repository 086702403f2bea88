"""Worlds planted by their n*(C): any course of the best n, any rise of the reward, exactly known.

The target x*(C), log2 of the best n, is a smooth monotone-between-knots curve over log10 C, and

    R(C; n, B) = R0 + G r(C) max(f(x - x*(C)), s f(x - x_2)) g(y - y*(x)),   x = log2 n, y = log2 B
    f(d) = 1 / (1 + d^2 / w^2),     g(d) = 1 / (1 + d^2 / v^2),     y*(x) = y_0 - t (x - x_0).

f is a parabola near its top and flattens; s < 1 adds a second hump at x_2. With one B at every n,
or with t = 0, n*(C) is 2^x*(C). r rises from 0 to 1 by one of the forms of RISES, so R0 + G f g is
the asymptote where x* comes to rest.

A run is R(C; n, B) with a gain of its own, slow wandering and perhaps a collapse. The means of all
of these are exact, so that `reward` is an expectation and not the reward of a typical run.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.interpolate import PchipInterpolator

from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.known import Batches, Floats, searched_best_n
from isosweep.analysis.simulation.records import wandering
from isosweep.plan.cells import PlannedRun

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
class Collapse:
    """Runs that fall to half of R0: a `share` of those with n of 2^`log2_n` and more.

    Between half that n and it the share rises from nothing, linear in log2 n. They fall at some
    log10 C between `start` and `end`.
    """

    share: float
    log2_n: float
    start: float
    end: float

    def gone(self, log10_compute: Floats, log2_n: Floats) -> Floats:
        """Share of runs that have collapsed."""
        doomed = self.share * np.clip(log2_n - self.log2_n + 1, 0, 1)
        by_now = np.clip((log10_compute - self.start) / (self.end - self.start), 0, 1)
        return np.asarray(doomed * by_now)


@dataclass(frozen=True, kw_only=True)
class PlantedWorld:
    """How runs would come out; symbols as above. Compute is in the plan's budget unit.

    `knots`: (log10 C, x*), ascending in C; outside them x* stays where it is. `rise`: of RISES;
    `midpoint`: C_mid. `width_n` w and `width_batch` v in doublings; `second_hump` s at
    `second_log2_n` x_2; `best_log2_batch` y_0, which falls by `batch_tilt` t per doubling of n from
    `tilt_log2_n` x_0 on. `seed_sd`: spread of the gain between seeds, relative to it, with
    `seed_freedom` degrees of freedom (inf: normal, else Student's t of the same spread);
    `wander_sd`: of the reward around its run's curve, at full gain, over `wander_decades`.
    `missing`: share of runs that left no records; of every (n, B) at least two are left.
    """

    name: str
    knots: tuple[tuple[float, float], ...]
    midpoint: float
    rise: str = "sigmoid"
    base_reward: float = 0.40
    gain: float = 0.25
    width_n: float = 7.0
    second_hump: float = 0.0
    second_log2_n: float = 0.0
    best_log2_batch: float = 7.0
    width_batch: float = 12.0
    batch_tilt: float = 0.0
    tilt_log2_n: float = 0.0
    seed_sd: float = 0.04
    seed_freedom: float = math.inf
    wander_sd: float = 0.005
    wander_decades: float = 0.4
    difficulty_sd: float = 2.0
    collapse: Collapse | None = None
    missing: float = 0.0

    def target(self, compute: Floats) -> Floats:
        """x*(C): log2 of the best n."""
        at, x = np.array(self.knots).T
        decades = np.clip(np.log10(compute), at[0], at[-1])
        return np.asarray(PchipInterpolator(at, x)(decades))

    def reward(self, compute: Floats, n: Floats | float, B: Floats | float) -> Floats:
        """Mean over seeds, with those that collapse; arrays broadcast."""
        return self._with_collapse(self.base_reward + self._gained(compute, n, B), compute, n)

    def best_n(
        self, compute: float, least: float, most: float, batches: Batches | None = None
    ) -> float:
        """n*(C) over real n in [least, most], to 1e-4 doublings."""

        def best(n: Floats) -> Floats:
            return np.asarray(2.0 ** self._best_log2_batch(np.log2(n)))[None]

        return searched_best_n(self, compute, least, most, batches or best)

    def asymptote(self, n: float, B: float) -> float | None:
        """A: the reward of (n, B) with unlimited compute; None unless x* comes to rest."""
        (_, before), (_, last) = self.knots[-2:]
        if before != last:
            return None
        x, y = np.log2(np.array(n)), np.log2(np.array(B))
        return self.base_reward + self.gain * float(self._share(np.array(last), x, y))

    def curves(
        self, runs: Sequence[PlannedRun], compute: Sequence[Floats], rng: np.random.Generator
    ) -> Iterator[Floats | None]:
        """Every run with its own luck and wandering, but those whose records are missing."""
        gone = self._missing(runs, rng)
        for run, at in zip(runs, compute, strict=True):
            yield None if run.run_id in gone else self._run(run, at, rng)

    def _missing(self, runs: Sequence[PlannedRun], rng: np.random.Generator) -> set[str]:
        """Names of the runs that left no records."""
        count = round(self.missing * len(runs))
        left: dict[Pair, int] = {}
        for run in runs:
            left[Pair.of(run)] = left.get(Pair.of(run), 0) + 1
        gone: set[str] = set()
        for place in rng.permutation(len(runs)) if count else ():
            run = runs[int(place)]
            if len(gone) < count and left[Pair.of(run)] > 2:
                left[Pair.of(run)] -= 1
                gone.add(run.run_id)
        return gone

    def _run(self, run: PlannedRun, compute: Floats, rng: np.random.Generator) -> Floats:
        """One run's reward at each record: (records,)."""
        n, B = float(run.num_generations), float(run.problems_per_batch)
        gained = self._gained(compute, n, B)
        luck = 1 + self.seed_sd * self._luck(rng)
        wander = wandering(compute, self.wander_decades, rng)
        # In proportion to what has been gained: before it there is nothing to wander from.
        wander *= self.wander_sd * np.sqrt(gained / self.gain)
        rewards = self.base_reward + luck * gained + wander
        if self.collapse is not None:
            last = self.collapse.gone(np.array(self.collapse.end), np.log2(np.array(n)))
            span = self.collapse.end - self.collapse.start
            if rng.random() < last:
                end = self.collapse.start + span * rng.random()
                rewards[np.log10(compute) >= end] = self.base_reward / 2
        return np.asarray(np.clip(rewards, 0.0, 1.0))

    def _luck(self, rng: np.random.Generator) -> float:
        """Mean 0, spread 1."""
        if math.isinf(self.seed_freedom):
            return rng.normal()
        spread = math.sqrt(self.seed_freedom / (self.seed_freedom - 2))
        return rng.standard_t(self.seed_freedom) / spread

    def _gained(self, compute: Floats, n: Floats | float, B: Floats | float) -> Floats:
        """Reward above R0 of a run that does not collapse, mean over seeds."""
        share = self._share(self.target(compute), np.log2(n), np.log2(B))
        return np.asarray(self.gain * RISES[self.rise](compute / self.midpoint) * share)

    def _share(self, target: Floats, x: Floats, y: Floats) -> Floats:
        """max(f, s f) g: of the gain, by log2 n and log2 B."""
        hump = 1 / (1 + ((x - target) / self.width_n) ** 2)
        second = self.second_hump / (1 + ((x - self.second_log2_n) / self.width_n) ** 2)
        away = (y - self._best_log2_batch(x)) / self.width_batch
        return np.asarray(np.maximum(hump, second) / (1 + away**2))

    def _best_log2_batch(self, x: Floats) -> Floats:
        """y*(x): log2 of the best B at log2 n."""
        return np.asarray(self.best_log2_batch - self.batch_tilt * (x - self.tilt_log2_n))

    def _with_collapse(self, kept: Floats, compute: Floats, n: Floats | float) -> Floats:
        if self.collapse is None:
            return kept
        gone = self.collapse.gone(np.log10(compute), np.log2(np.asarray(n)))
        return np.asarray((1 - gone) * kept + gone * self.base_reward / 2)
