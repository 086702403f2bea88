"""Every candidate of one variant of a plan, as arrays.

Shape suffixes: N values of n, M values of B, K budgets. Seeds only repeat candidates, so nothing
here depends on them. `enumerate.py` fills these arrays; `rules.py` says what a candidate breaks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import MemoryFit
from isosweep.costs.steps import Floats, Ints, budget_of
from isosweep.costs.timing import StepSeconds

Bools = NDArray[np.bool_]


class Place(NamedTuple):
    """Where a candidate lies in the arrays: which n, which B, which budget."""

    i: int
    j: int
    k: int


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Candidates of one variant. `listed`: (N, M) pairs that the grid asks for.

    `cost`, `flops`, `hardware_flops`, `seconds`: (N, M) per optimiser update, cost in the budget's
    unit, hardware FLOPs with what the learner pads and computes twice; `steps`, `records` (held-out
    evaluations from start to budget) and `run_seconds` (from start to budget, evaluation included):
    (N, M, K); `evaluation_flops` and `evaluation_seconds`, (N, M): of one evaluation. `memory` and
    `phases` have arrays (N, M). `broken`: where each rule is broken, (N, M, K), by its name.
    """

    variant: Variant
    num_generations: Ints
    problems_per_batch: Ints
    budgets: Floats
    listed: Bools
    cost: Floats
    flops: Floats
    hardware_flops: Floats
    seconds: Floats
    phases: StepSeconds
    memory: MemoryFit
    steps: Ints
    records: Ints
    evaluation_flops: float
    evaluation_seconds: Floats
    run_seconds: Floats
    broken: Mapping[str, Bools]

    @property
    def config(self) -> SweepConfig:
        """The settings of the variant."""
        return self.variant.config

    @property
    def completions(self) -> Ints:
        """n x B: (N, M)."""
        return self.num_generations[:, None] * self.problems_per_batch[None, :]

    @cached_property
    def spent(self) -> Floats:
        """Planned compute at the nearest whole number of steps, in the budget's unit: (N, M, K)."""
        return self.total(self.cost)

    def total(self, of_update: Floats) -> Floats:
        """What all steps come to up to every budget, of what an update takes, (N, M): (N, M, K)."""
        return budget_of(self.steps, of_update[..., None])

    @cached_property
    def epochs(self) -> Floats:
        """Passes over the training problems, with all that the batches draw: (N, M, K)."""
        recipe, problems = self.config.recipe, self.config.task.epoch_draws
        batches = self.steps / recipe.updates_per_generation * recipe.planned_draws
        passes: Floats = batches * self.problems_per_batch[None, :, None] / problems
        return passes

    @cached_property
    def feasible(self) -> Bools:
        """Candidates that break no rule: (N, M, K)."""
        feasible = np.broadcast_to(self.listed[..., None], self.steps.shape).copy()
        for broken in self.broken.values():
            feasible &= ~broken
        return feasible

    @cached_property
    def longest(self) -> Ints:
        """Index of the largest feasible budget of each pair, -1 where there is none: (N, M).

        Cells that differ only in budget are one run, which ends at this one.
        """
        last = len(self.budgets) - 1 - np.argmax(self.feasible[..., ::-1], axis=-1)
        return np.where(self.feasible.any(axis=-1), last, -1)

    def broken_at(self, place: Place) -> list[str]:
        """The rules that a candidate breaks, in their order."""
        return [name for name, broken in self.broken.items() if broken[place]]

    def pair(self, num_generations: int, problems_per_batch: int) -> tuple[int, int]:
        """Where this n and this B, both of the grid, lie in the arrays (N, M)."""
        n, B = self.num_generations.tolist(), self.problems_per_batch.tolist()
        return n.index(num_generations), B.index(problems_per_batch)
