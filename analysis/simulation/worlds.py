"""Simulated sweeps: worlds whose best n(C) is known exactly, and records as real runs write them.

In a world every (n, B) follows a saturating sigmoid in compute (ScaleRL, arXiv 2510.13786, eq. 1),

    R(C; n, B) = R0 + G(n, B) / (1 + (C_mid(n) / C)^b),
    G(n, B) = G / (1 + (x - x_sat)^2 / w^2) / (1 + (y - y_best)^2 / v^2),
    ln C_mid(n) = ln C_mid + c (x - x_sat),          x = log2 n, y = log2 B.

Larger n gains more in the end and starts later, so the best n rises with compute and settles at
n_sat: where C is far past C_mid only G counts. Between the two, log2 n* follows the logistic
1 - 1 / (1 + (C_mid / C)^b), the form that the IsoCompute Playbook (arXiv 2603.12151) fits.
Around the mean lie differences between seeds and slow wandering within a run. Other worlds, whose
n* moves in other ways: `planted` and `policy_worlds`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from isosweep.analysis.simulation.known import Batches, Floats, searched_best_n
from isosweep.analysis.simulation.records import simulate_records, wandering
from isosweep.plan.cells import PlannedRun

__all__ = ["World", "simulate_records", "worlds"]

# Decades of compute within which the runs that collapse do so.
_COLLAPSING_DECADES = 1.0


@dataclass(frozen=True, kw_only=True)
class World:
    """How runs would come out. Compute is in the plan's budget unit, rewards are avg@k.

    `gain` G and `base_reward` R0; `saturation_n` n_sat; `width_n` w and `width_batch` v in
    doublings (inf: no effect); `midpoint` C_mid at n_sat, `delay` c per doubling of n, `exponent`
    b. `seed_gain_sd` and `seed_midpoint_sd`: spread between seeds of ln G and ln C_mid;
    `wander_sd`: of the reward around its run's curve, correlated over `wander_decades`;
    `difficulty_sd`: of problems, in logits. Past `overfit_from` the reward falls by
    `overfit_slope` per factor e of compute. With `collapse_probability` a run falls to half
    of R0 within the decade past `collapse_from`.
    """

    name: str
    base_reward: float
    gain: float
    saturation_n: float
    width_n: float
    midpoint: float
    delay: float
    exponent: float
    best_batch: float = 128.0
    width_batch: float = 12.0
    seed_gain_sd: float = 0.03
    seed_midpoint_sd: float = 0.10
    wander_sd: float = 0.004
    wander_decades: float = 0.3
    difficulty_sd: float = 2.0
    overfit_from: float = math.inf
    overfit_slope: float = 0.0
    collapse_probability: float = 0.0
    collapse_from: float = math.inf

    def reward(self, compute: Floats, n: Floats | float, B: Floats | float) -> Floats:
        """Mean over seeds, with those that collapse; arrays broadcast.

        To first order in the spread of ln C_mid.
        """
        kept = self._curve(compute, self._gain(n, B), self._log_midpoint(n))
        with np.errstate(divide="ignore"):
            decades = np.log10(compute / self.collapse_from)
        gone = self.collapse_probability * np.clip(decades / _COLLAPSING_DECADES, 0, 1)
        return np.asarray((1 - gone) * kept + gone * self.base_reward / 2)

    def asymptote(self, n: float, B: float) -> float:
        """A: the reward of (n, B) with unlimited compute, overfitting left aside."""
        return self.base_reward + float(self._gain(n, B))

    def _gain(self, n: Floats | float, B: Floats | float) -> Floats:
        """G(n, B)."""
        x = np.log2(n / self.saturation_n) / self.width_n
        y = np.log2(B / self.best_batch) / self.width_batch
        return np.asarray(self.gain / (1 + x**2) / (1 + y**2))

    def _log_midpoint(self, n: Floats | float) -> Floats:
        """ln C_mid(n)."""
        doublings = np.log2(n / self.saturation_n)
        return np.asarray(math.log(self.midpoint) + self.delay * doublings)

    def _curve(self, compute: Floats, gain: Floats | float, midpoint: Floats | float) -> Floats:
        """Reward of a run with this gain and ln C_mid, overfitting included."""
        with np.errstate(divide="ignore"):
            logs = np.log(compute)
        risen = special.expit(self.exponent * (logs - midpoint))
        late = np.maximum(logs - math.log(self.overfit_from), 0.0)
        reward = self.base_reward + gain * risen - self.overfit_slope * late
        return np.asarray(np.clip(reward, 0.0, 1.0))

    def best_n(
        self,
        compute: float,
        least: float = 2.0,
        most: float = 65536.0,
        batches: Batches | None = None,
    ) -> float:
        """n*(C) over real n in [least, most], to 1e-4 doublings."""

        def best(n: Floats) -> Floats:
            return np.full((1, len(n)), self.best_batch)

        return searched_best_n(self, compute, least, most, batches or best)

    def curves(
        self, runs: Sequence[PlannedRun], compute: Sequence[Floats], rng: np.random.Generator
    ) -> Iterator[Floats | None]:
        """Every run with its own luck and wandering."""
        for run, at in zip(runs, compute, strict=True):
            yield self._run(float(run.num_generations), float(run.problems_per_batch), at, rng)

    def _run(self, n: float, B: float, compute: Floats, rng: np.random.Generator) -> Floats:
        """One run's reward at each record: (records,)."""
        luck = math.exp(rng.normal(-(self.seed_gain_sd**2) / 2, self.seed_gain_sd))
        gain = luck * self._gain(n, B)
        midpoint = self._log_midpoint(n) + rng.normal(0, self.seed_midpoint_sd)
        # It grows with training: before it there is nothing to wander from.
        grown = np.clip(self._curve(compute, 1.0, math.log(self.midpoint)) - self.base_reward, 0, 1)
        wander = wandering(compute, self.wander_decades, rng) * self.wander_sd * np.sqrt(grown)
        rewards = self._curve(compute, gain, midpoint) + wander
        if rng.random() < self.collapse_probability:
            end = self.collapse_from * 10 ** (_COLLAPSING_DECADES * rng.random())
            rewards[compute >= end] = self.base_reward / 2
        return np.asarray(np.clip(rewards, 0.0, 1.0))


def _playbook(
    name: str,
    *,
    base: float,
    gain: float,
    rise: float,
    rate: float,
    smallest: float,
    midpoint: float,
) -> World:
    """A world whose log2 n*(C) rises as the Playbook's figures show.

    `rise` L, `rate` k per decade, `smallest` b of log2 n* = L / (1 + exp(-k (log10 C - log10
    C0))) + b; n_sat = 2^(L + b). At n = 2^b a third of the gain is lost in the end, as between
    the asymptotes of n = 8 and n = 512 on the easy set.
    """
    lost, exponent = 1 / 3, rate / math.log(10)
    width = rise * math.sqrt((1 - lost) / lost)
    # At small C the best x is where gain and delay balance: 2 x / (w^2 + x^2) = b c, x = L.
    delay = 2 * rise / (width**2 + rise**2) / exponent
    return World(
        name=name,
        base_reward=base,
        gain=gain,
        saturation_n=2.0 ** (rise + smallest),
        width_n=width,
        midpoint=midpoint,
        delay=delay,
        exponent=exponent,
    )


def worlds(midpoint: float, *, smallest_n: float, largest_n: float) -> dict[str, World]:
    """The presets, with C_mid at `midpoint`, for a grid of n from `smallest_n` to `largest_n`.

    `easy` and `hard` have the published laws (Playbook, B = 32; rewards and plateaus read off its
    figures), moved along n so that the plateau lies two doublings below the grid's largest n:
    no analysis could find a plateau outside the grid.
    """
    reach = math.log2(largest_n / smallest_n)
    plateau = largest_n / 4
    # The published rise where the grid has room for it, else from its smallest n to the plateau.
    easy_rise, hard_rise = (min(rise, max(reach - 2, 1.0)) for rise in (6.09, 4.47))
    easy = _playbook(
        "easy",
        base=0.45,
        gain=0.25,
        rise=easy_rise,
        rate=4.75,
        smallest=math.log2(plateau) - easy_rise,
        midpoint=midpoint,
    )
    hard = _playbook(
        "hard",
        base=0.04,
        gain=0.10,
        rise=hard_rise,
        rate=7.23,
        smallest=math.log2(plateau) - hard_rise,
        midpoint=midpoint,
    )
    flat = replace(easy, name="flat", width_n=math.inf, delay=0.0)
    # The optimum runs off the grid: n_sat far above its largest n, and far from reached.
    growing = replace(
        easy,
        name="growing",
        saturation_n=largest_n * 64,
        width_n=easy.width_n * 2,
        exponent=easy.exponent / 2,
    )
    overfitting = replace(easy, name="overfitting", overfit_from=midpoint * 2, overfit_slope=0.02)
    unstable = replace(
        easy,
        name="unstable",
        collapse_probability=0.1,
        collapse_from=midpoint,
        seed_gain_sd=0.1,
    )
    noiseless = replace(
        easy, name="quiet", seed_gain_sd=0.005, seed_midpoint_sd=0.02, wander_sd=0.001
    )
    presets = (easy, hard, flat, growing, overfitting, unstable, noiseless)
    return {world.name: world for world in presets}
