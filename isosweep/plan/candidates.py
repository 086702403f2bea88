"""Every candidate of one variant of a plan, as arrays; and one of them, as plain numbers.

Shape suffixes: N values of n, M values of B, K budgets. Seeds only repeat candidates, so nothing
here depends on them. `enumerate.py` fills these arrays, `rules.py` says what they break.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import MemoryFit
from isosweep.costs.steps import Floats, Ints, budget_of, steps_for
from isosweep.costs.timing import StepSeconds

Bools = NDArray[np.bool_]


class Place(NamedTuple):
    """Where a candidate lies in the arrays: which n, which B, which budget."""

    i: int
    j: int
    k: int


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One candidate, as its rules see it.

    `num_generations` is n and `problems_per_batch` is B; `num_steps` is the whole number of steps
    that comes nearest to the budget, `spent` what they spend, in the budget's unit.
    `memory_bytes`: what a device needs at least; `epochs`: passes over the training problems.
    """

    config: SweepConfig
    num_generations: int
    problems_per_batch: int
    num_steps: int
    budget: float
    spent: float
    memory_bytes: float
    epochs: float

    @property
    def completions(self) -> int:
        """n x B."""
        return self.num_generations * self.problems_per_batch

    @property
    def product(self) -> str:
        """The product n x B in words."""
        return f"n x B = {self.num_generations} x {self.problems_per_batch} = {self.completions}"

    @property
    def num_batches(self) -> int:
        """Batches of problems that its steps draw: one for every generation."""
        return self.num_steps // self.config.recipe.updates_per_generation

    @property
    def deviation(self) -> float:
        """By which fraction of the budget its steps miss it."""
        return abs(self.spent / self.budget - 1)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Candidates of one variant. `listed`: (N, M) pairs that the grid asks for.

    `cost`, `flops`, `hardware_flops`, `seconds`: (N, M) per optimiser update, cost in the budget's
    unit, hardware FLOPs with what the learner pads and computes twice; `steps`, `records` (held-out
    evaluations from start to budget) and `run_seconds` (from start to budget, evaluation included):
    (N, M, K); `evaluation_flops` and `evaluation_seconds`, (N, M): of one evaluation; `broken`:
    (N, M, K), bit r set where the r-th rule is broken. `memory` has arrays (N, M).
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
    broken: Ints

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

    @property
    def _updates(self) -> int:
        return self.config.recipe.updates_per_generation

    # Of one pair of n and B.

    def steps_to(self, place: Place, budget: float) -> int:
        """T at any `budget`."""
        return steps_for(budget, float(self.cost[place[:2]]), self._updates)

    def budget_at(self, place: Place, steps: int) -> float:
        """What `steps` spend, in the budget's unit."""
        return budget_of(steps, float(self.cost[place[:2]]))

    def epochs(self, place: Place, steps: int) -> float:
        """Passes over the training problems that `steps` make, with all that their batches draw."""
        recipe, problems = self.config.recipe, self.config.task.epoch_draws
        drawn = steps / self._updates * int(self.problems_per_batch[place.j])
        return drawn * recipe.planned_draws / problems

    @cached_property
    def feasible(self) -> Bools:
        """Candidates that break no rule: (N, M, K)."""
        feasible: Bools = self.listed[..., None] & (self.broken == 0)
        return feasible

    @cached_property
    def longest(self) -> Ints:
        """Index of the largest feasible budget of each pair, -1 where there is none: (N, M).

        Cells that differ only in budget are one run, which ends at this one.
        """
        last = len(self.budgets) - 1 - np.argmax(self.feasible[..., ::-1], axis=-1)
        return np.where(self.feasible.any(axis=-1), last, -1)

    @property
    def divisible(self) -> Bools:
        """Whether n x B can be shared evenly by devices and micro-batches: (N, M)."""
        devices, recipe = self.config.run_hardware.devices_per_run, self.config.recipe
        even: Bools = self.completions % devices == 0
        if recipe.micro_batch is None:
            return even
        together = devices * recipe.mini_batches * recipe.micro_batch
        whole: Bools = even & (self.completions % together == 0)
        return whole

    def pair(self, num_generations: int, problems_per_batch: int) -> tuple[int, int]:
        """Where this n and this B, both of the grid, lie in the arrays (N, M)."""
        n, B = self.num_generations.tolist(), self.problems_per_batch.tolist()
        return n.index(num_generations), B.index(problems_per_batch)

    def at(self, place: Place) -> Candidate:
        """The candidate at `place`."""
        i, j, _ = place
        return Candidate(
            config=self.config,
            num_generations=int(self.num_generations[i]),
            problems_per_batch=int(self.problems_per_batch[j]),
            num_steps=int(self.steps[place]),
            budget=float(self.budgets[place.k]),
            spent=float(self.spent[place]),
            memory_bytes=float(self.memory.needed[i, j]),
            epochs=self.epochs(place, int(self.steps[place])),
        )

    def places(self, where: Bools) -> list[Place]:
        """Where a mask (N, M, K) is true."""
        return [Place(*map(int, place)) for place in np.argwhere(where)]
