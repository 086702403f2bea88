"""What a simulated world is: rewards, and so the best n, that are known, and runs with luck.

Around the mean lie differences between seeds, slow wandering within a run and collapses. `reward`
is the mean over all of these, not the reward of a typical run: exact, and to first order in the
spread of ln C_mid. Formulas: `planted`.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isosweep.analysis.pairs import Pair
from isosweep.plan.cells import PlannedRun

Floats = NDArray[np.float64]
Numbers = Floats | float
# The B that a design offers at every n: (B, n) of (n,).
Batches = Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """Runs that fall to half of R0: a `share` of those with n of 2^`log2_n` and more.

    Between half that n and it the share rises from nothing, linear in log2 n. They fall at some
    log10 C between `start` and `end`.
    """

    share: float
    log2_n: float = -math.inf
    start: float
    end: float

    def gone(self, log10_compute: Numbers, log2_n: Numbers) -> Floats:
        """Share of runs that have collapsed."""
        doomed = self.share * np.clip(log2_n - self.log2_n + 1, 0, 1)
        by_now = np.clip((log10_compute - self.start) / (self.end - self.start), 0, 1)
        return np.asarray(doomed * by_now)


# The factor of a run's gain, of mean 1 and the spread given.
LUCKS: Mapping[str, Callable[[np.random.Generator, float], float]] = {
    "normal": lambda rng, sd: 1 + sd * rng.normal(),
    "lognormal": lambda rng, sd: math.exp(rng.normal(-(sd**2) / 2, sd)),
    # Student's t with 3 degrees of freedom, whose own spread is the root of 3.
    "heavy": lambda rng, sd: 1 + sd * (rng.standard_t(3) / math.sqrt(3)),
}


@dataclass(frozen=True, kw_only=True)
class World(ABC):
    """A world whose runs follow a formula. Compute is in the plan's budget unit, rewards are avg@k.

    `base_reward` R0: before training; `difficulty_sd`: spread of held-out problems, in logits;
    `gain` G: what the best can gain above R0; `midpoint` C_mid; `width_n` w and `width_batch` v in
    doublings (inf: no effect). `seed_luck`: of LUCKS; `seed_sd` and `seed_midpoint_sd`: spread
    between seeds of the gain, relative to it, and of ln C_mid. `wander_sd`: of the reward around
    its run's curve, at full gain, correlated over `wander_decades`. `missing`: share of runs that
    left no records; of every (n, B) at least two are left. `shared_sd`: spread of the gain that all
    runs of a seed have in common, relative to it. `records_per_decade`: evaluations; with five,
    readings of one budget lie on records.
    """

    name: str
    base_reward: float
    difficulty_sd: float = 2.0
    gain: float = 0.25
    midpoint: float
    width_n: float = 7.0
    width_batch: float = 12.0
    seed_luck: str = "normal"
    seed_sd: float = 0.04
    seed_midpoint_sd: float = 0.0
    wander_sd: float = 0.005
    wander_decades: float = 0.4
    collapse: Collapse | None = None
    missing: float = 0.0
    shared_sd: float = 0.0
    records_per_decade: float = 5

    @abstractmethod
    def curve(
        self, compute: Floats, n: Numbers, B: Numbers, luck: float = 1.0, later: float = 0.0
    ) -> Floats:
        """Reward of runs that do not collapse: of gain x `luck`, ln C_mid + `later`."""

    @abstractmethod
    def grown(self, compute: Floats, n: float, B: float) -> Floats:
        """Share of the gain: runs wander by its root, for at first there is nothing to vary."""

    def reward(self, compute: Floats, n: Numbers, B: Numbers) -> Floats:
        """Mean over all runs that there could be, those that collapse too; arrays broadcast."""
        kept = self.curve(compute, n, B)
        if self.collapse is None:
            return kept
        gone = self.collapse.gone(np.log10(compute), np.log2(n))
        return np.asarray((1 - gone) * kept + gone * self.base_reward / 2)

    def curves(
        self, runs: Sequence[PlannedRun], compute: Sequence[Floats], rng: np.random.Generator
    ) -> Iterator[Floats | None]:
        """Each run's own reward at each of its `compute`, before it is evaluated with noise.

        (records,) of (records,); None for a run whose records are missing. Drawn as they are asked
        for.
        """
        gone = self._missing(runs, rng)
        seeds = {run.seed for run in runs} if self.shared_sd else ()
        shared = {seed: self.shared_sd * rng.normal() for seed in sorted(seeds)}
        for run, at in zip(runs, compute, strict=True):
            luck = shared.get(run.seed, 0.0)
            yield None if run.run_id in gone else self._run(run, at, luck, rng)

    def best_n(self, compute: float, least: float, most: float, batches: Batches) -> float:
        """n*(C) over real n in [least, most], to 1e-4 doublings, each at the best of `batches`."""
        return self.smallest_n(compute, least, most, batches, 0.0)

    def smallest_n(
        self, compute: float, least: float, most: float, batches: Batches, loss: float
    ) -> float:
        """The smallest n that loses at most `loss` against the best; as `best_n`."""
        x = np.arange(np.log2(least), np.log2(most) + 5e-5, 1e-4)
        n = 2.0**x
        rewards = self.reward(np.array(compute), n, batches(n)).max(axis=0)
        return float(n[int(np.argmax(rewards >= rewards.max() - loss))])

    def _missing(self, runs: Sequence[PlannedRun], rng: np.random.Generator) -> set[str]:
        """Names of the runs that left no records."""
        count = round(self.missing * len(runs))
        left = Counter(Pair.of(run) for run in runs)
        gone: set[str] = set()
        for place in rng.permutation(len(runs)) if count else ():
            run = runs[int(place)]
            if len(gone) < count and left[Pair.of(run)] > 2:
                left[Pair.of(run)] -= 1
                gone.add(run.run_id)
        return gone

    def _run(
        self, run: PlannedRun, compute: Floats, shared: float, rng: np.random.Generator
    ) -> Floats:
        """One run's reward at each record, its gain larger by `shared`: (records,)."""
        n, B = map(float, Pair.of(run))
        luck = shared + LUCKS[self.seed_luck](rng, self.seed_sd)
        later = rng.normal(0, self.seed_midpoint_sd) if self.seed_midpoint_sd else 0.0
        rewards = self.curve(compute, n, B, luck=luck, later=later)
        wander = wandering(compute, self.wander_decades, rng)
        rewards += wander * self.wander_sd * np.sqrt(self.grown(compute, n, B))
        if (falls := self.collapse) and rng.random() < falls.gone(falls.end, math.log2(n)):
            end = falls.start + (falls.end - falls.start) * rng.random()
            rewards[np.log10(compute) >= end] = self.base_reward / 2
        return np.clip(rewards, 0.0, 1.0)


def wandering(compute: Floats, decades: float, rng: np.random.Generator) -> Floats:
    """A stationary autoregression in log compute, of spread 1: (records,).

    Correlated over `decades` of compute.
    """
    gaps = np.diff(np.log10(compute), prepend=math.log10(compute[0]))
    noise = rng.normal(0, 1, len(compute))
    value, values = noise[0], [noise[0]]
    for gap, fresh in zip(gaps[1:], noise[1:], strict=True):
        kept = math.exp(-gap / decades)
        value = kept * value + math.sqrt(1 - kept**2) * fresh
        values.append(value)
    return np.asarray(values)
