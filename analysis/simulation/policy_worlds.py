"""Worlds by mechanism: sweeps of GRPO on small softmax policies, with n*(C) found by brute force.

    python -m isosweep.analysis.simulation.policy_worlds

trains POOL runs of every n in each world (about a minute a world) and writes their means as
`policy_truth.json`. A simulated sweep draws its runs from the same pool, without replacement: the
pool is all the runs there are, and its mean is their expectation but for the file's rounding.

| world | what makes n matter | n* |
|---|---|---|
| conflict | 128 problems with random answers, more than features can tell apart | rises |
| few | 32 training problems, 256 others held out | rises |
| floor | right answers score in 65%, wrong ones in 35%: noise keeps small n from settling | rises |
| collapse | a rate so high that runs end far apart, many of small n near the start | rises |
| root | `conflict` with a rate in proportion to the root of n | stays at the smallest |
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from isosweep.analysis.simulation.policy import Runs, Setting, train
from isosweep.analysis.simulation.worlds import Batches, Floats, Numbers, World
from isosweep.files import write_json
from isosweep.plan.cells import PlannedRun

GENERATIONS = (4, 8, 16, 32, 64, 128, 256)
# Rollouts: 2.4 decades, each a whole number of steps of every n at B = 4.
BUDGETS = tuple(1024.0 * 2**k for k in range(9))
PROBLEMS_PER_BATCH = 4
POOL = 400
_FIRST_RECORD = 256.0
_TRUTH = Path(__file__).with_name("policy_truth.json")
_COMMAND = "python -m isosweep.analysis.simulation.policy_worlds"

_CONFLICT = Setting(name="conflict", train=128, features=48, teacher=False, learning_rate=0.4)
_SOFT: dict[str, Any] = {"answers": 4, "right": 0.65, "wrong": 0.35}
SETTINGS = {
    setting.name: setting
    for setting in (
        _CONFLICT,
        Setting(name="few", train=32, held_out=256, features=24, learning_rate=0.4, seed=1),
        Setting(name="floor", train=64, features=16, learning_rate=0.5, seed=2, **_SOFT),
        Setting(name="collapse", train=64, features=24, learning_rate=2.0, seed=3),
        replace(_CONFLICT, name="root", learning_rate=1.0, rate_rule="square_root"),
    )
}


@dataclass(frozen=True, kw_only=True)
class PolicyTruth:
    """Means of a world's pool. `reward`, `standard_error`: (budgets, generations).

    `log2_n`: n*(C), by a parabola through the best n and its neighbours in log2 n: (budgets,).
    """

    generations: tuple[int, ...]
    budgets: tuple[float, ...]
    reward: tuple[tuple[float, ...], ...]
    standard_error: tuple[tuple[float, ...], ...]
    log2_n: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PolicyWorld(World):
    """A world of `SETTINGS`. Compute is in rollouts, B is its setting's."""

    setting: Setting

    @cached_property
    def _truth(self) -> PolicyTruth:
        return stored_truth()[self.name]

    def reward(self, compute: Floats, n: Numbers, B: Numbers) -> Floats:
        """Mean of the pool: between budgets linear in log C, between n by a smooth curve."""
        truth = self._truth
        compute, n, _ = np.broadcast_arrays(np.asarray(compute, float), n, B)
        by_n = PchipInterpolator(np.log2(truth.generations), np.array(truth.reward), axis=1)
        known = by_n(np.log2(n.ravel()))  # (budgets, points)
        logs = np.log(np.array(truth.budgets))
        place = np.interp(np.log(compute.ravel()), logs, np.arange(len(logs)))
        below = np.minimum(place.astype(int), len(logs) - 2)
        share, points = place - below, np.arange(known.shape[1])
        values = (1 - share) * known[below, points] + share * known[below + 1, points]
        return np.asarray(values.reshape(n.shape))

    def best_n(self, compute: float, least: float, most: float, batches: Batches) -> float:
        """n*(C) as stored, linear in log C between budgets."""
        logs = np.log(self._truth.budgets)
        x = float(np.interp(np.log(compute), logs, self._truth.log2_n))
        return float(np.clip(2.0**x, least, most))

    def curves(
        self, runs: Sequence[PlannedRun], compute: Sequence[Floats], rng: np.random.Generator
    ) -> Iterator[Floats | None]:
        """Runs of the pool, no run twice."""
        drawn: dict[int, list[int]] = {}
        for n in sorted({run.num_generations for run in runs}):
            drawn[n] = list(rng.permutation(POOL))
        for run, at in zip(runs, compute, strict=True):
            pool = pooled(self.setting, run.num_generations)
            yield pool.at(at)[drawn[run.num_generations].pop()]


@cache
def pooled(setting: Setting, n: int) -> Runs:
    """The pool of one n: POOL runs, trained when first asked for."""
    return train(setting, n, POOL, BUDGETS[-1], _FIRST_RECORD)


@cache
def stored_truth() -> dict[str, PolicyTruth]:
    """What the file says of every world."""
    document: dict[str, Any] = json.loads(_TRUTH.read_text())
    return {name: PolicyTruth(**truth) for name, truth in document["worlds"].items()}


def policy_worlds() -> dict[str, PolicyWorld]:
    """Every world of this module, by name."""
    return {
        name: PolicyWorld(name=name, base_reward=setting.base_reward, setting=setting)
        for name, setting in SETTINGS.items()
    }


def brute_force(setting: Setting) -> PolicyTruth:
    """The truth of one world, by training its pool."""
    rewards = np.stack([pooled(setting, n).at(np.array(BUDGETS)) for n in GENERATIONS], axis=2)
    x = np.log2(np.array(GENERATIONS))
    means, errors = rewards.mean(axis=0), rewards.std(axis=0, ddof=1) / np.sqrt(POOL)
    return PolicyTruth(
        generations=GENERATIONS,
        budgets=BUDGETS,
        reward=tuple(map(tuple, means.round(5).tolist())),
        standard_error=tuple(map(tuple, errors.round(5).tolist())),
        log2_n=tuple(best_log2_n(x, means).round(4).tolist()),
    )


def best_log2_n(x: Floats, rewards: Floats) -> Floats:
    """Top of the parabola through the best x and its neighbours: (budgets,) of (budgets, n).

    `x` is evenly spaced; a best at an edge stays there.
    """
    best = rewards.argmax(axis=1)
    inner = np.clip(best, 1, len(x) - 2)
    rows = np.arange(len(rewards))
    low, middle, high = (rewards[rows, inner + k] for k in (-1, 0, 1))
    bend = low - 2 * middle + high
    shift = np.where(bend < 0, 0.5 * (low - high) / np.where(bend < 0, bend, 1.0), 0.0)
    top = x[inner] + np.clip(shift, -0.5, 0.5) * (x[1] - x[0])
    return np.asarray(np.where(best == inner, top, x[best]))


if __name__ == "__main__":
    trained = {name: asdict(brute_force(setting)) for name, setting in SETTINGS.items()}
    write_json(_TRUTH, {"command": _COMMAND, "runs": POOL, "worlds": trained})
