"""What a plan is made of: cells, runs, rejections."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator

from isosweep.compute import BudgetUnit
from isosweep.pricing import Pricing

T = TypeVar("T")

# Types of plan.json's values, with their bounds.
Budget = Annotated[float, Gt(0)]
Cost = Annotated[float, Gt(0)]

PositiveInt = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]
Seed = Annotated[int, Ge(0)]


def _name(run_id: str) -> str:
    """A run lies below runs/, whatever its name is. Raises ValueError for one that would not."""
    if {"", ".", ".."}.intersection(run_id.split("/")) or not run_id.isprintable():
        raise ValueError("is no name of a run")
    return run_id


RunId = Annotated[str, AfterValidator(_name)]
Budgets = Annotated[tuple[Budget, ...], MinLen(1)]
# By a setting, a config group, or a name of the user's own.
Axes = dict[str, Any]


def predicted(value: T | None) -> T:
    """What the planner predicted, which only runs that were trained elsewhere lack: no code that
    launches or prices runs meets one."""
    assert value is not None
    return value


def variant_label(axes: Mapping[str, Any]) -> str:
    """What tables and figures call a variant of `grid.axes`: by its name, or its choice of a config
    group, as they are; by a setting with the value it has."""
    return " ".join(
        f"{axis.rpartition('.')[2]}={value}" if "." in axis else str(value)
        for axis, value in axes.items()
    )


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a cell, a candidate that is none and a run have in common."""

    num_generations: PositiveInt
    """n: rollouts per problem."""
    problems_per_batch: PositiveInt
    """B: distinct problems per batch."""
    num_steps: PositiveInt
    """T: optimiser updates until the budget is spent, of a run its last one; of a rejection the
    whole number nearest to it."""
    seed: Seed
    """Seed of the training run."""
    axes: Axes = field(default_factory=dict)
    """Settings of grid.axes and their values here, each in the unit of its setting; empty without
    axes."""


@dataclass(frozen=True, kw_only=True)
class Cell(Setup):
    """One feasible (n, B, T) at one budget, for one seed: its run read off at that budget."""

    budget: Budget
    """Compute that one cell may spend, in budget_unit."""
    planned_compute: Cost
    """What T steps are planned to spend, in budget_unit; within grid.tolerance of the budget."""
    planned_flops: Cost | None = None
    """FLOPs of T steps: generation and training, evaluation not counted; null of runs that were
    trained elsewhere."""
    device_hours: Cost | None = None
    """Predicted time from the run's start to this budget times the devices of the run (a part of
    one that runs share), evaluation included; null of runs that were trained elsewhere.
    Device-hours."""
    run_id: RunId
    """Name of the training run and of its directory, ending in a hash of all that can change its
    numbers."""

    @property
    def cost_of_step(self) -> float:
        """What one optimiser update is planned to spend, in budget_unit."""
        return self.planned_compute / self.num_steps


@dataclass(frozen=True, kw_only=True)
class Rejection(Setup):
    """A candidate that is not planned."""

    budget: Budget
    """Compute that one cell may spend, in budget_unit."""
    rule: str
    """The first setting of rules: the one that reason is about."""
    reason: Annotated[str, MinLen(1)]
    """How it breaks rule: a sentence with the numbers and their units."""
    rules: Annotated[tuple[str, ...], MinLen(1)]
    """Every setting that the candidate breaks."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun(Setup):
    """One training run and the budgets at which cells read it off."""

    run_id: RunId
    """Name of the training run and of its directory, ending in a hash of all that can change its
    numbers."""
    learning_rate: Annotated[float, Gt(0)] | None = None
    """Learning rate after warm-up, by the recipe's rule for this n x B; null of a run that was
    trained elsewhere, as its costs are."""
    milestones: Budgets
    """Budgets at which cells read the run off, ascending, in budget_unit. The run ends at the
    last."""
    planned_flops: Cost | None = None
    """FLOPs of the whole run: generation and training, evaluation not counted."""
    seconds: Cost | None = None
    """Predicted wall time of the whole run, start-up and evaluation included. Seconds."""
    micro_batch: PositiveInt | None = None
    """Completions per device in one forward pass of training."""
    vllm_share: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share of a device's memory given to vLLM, 0 without it. A fraction."""
    vllm_max_num_seqs: NonNegativeInt = 0
    """Rollouts that one engine of vLLM holds at once, 0 without it."""
    vllm_max_num_batched_tokens: NonNegativeInt = 0
    """Tokens of one of its forward passes."""
    vllm_max_model_len: NonNegativeInt = 0
    """Tokens of its longest sequence."""
    vllm_cache_bytes: NonNegativeInt = 0
    """Its cache of keys and values on one device. Bytes."""
    planned_hardware_flops: Cost | None = None
    """What planned_flops come to on the devices, with the padding, recomputation and square of
    attention expected of scoring and training; null of runs that were trained elsewhere. FLOPs."""
    records: NonNegativeInt = 0
    """Held-out evaluations, that before training included, which runs of a model share."""
    evaluation_flops: Annotated[float, Ge(0)] = 0.0
    """FLOPs of sampling for all of them."""
    evaluation_seconds: Annotated[float, Ge(0)] = 0.0
    """What they take of seconds. Seconds."""
    checkpoint_bytes: Annotated[float, Ge(0)] = 0.0
    """Size of one checkpoint: weights and optimiser states that are trained. Bytes."""
    checkpoints_peak_bytes: Annotated[float, Ge(0)] = 0.0
    """What its checkpoints take on the disk while it runs, at most. Bytes."""
    checkpoints_kept_bytes: Annotated[float, Ge(0)] = 0.0
    """What is left of them after its end, at most. Bytes."""

    @property
    def label(self) -> str:
        """n, B, seed and its values of `grid.axes`, on one line."""
        axes = "".join(f" {name.rpartition('.')[2]}={value}" for name, value in self.axes.items())
        return f"n={self.num_generations} B={self.problems_per_batch} seed={self.seed}{axes}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells and rejections partition the candidates: n x B x seed x budget x axes."""

    budget_unit: BudgetUnit
    """Unit of every budget, milestone and planned_compute: flops (FLOPs of training and
    generation), rollouts (completions sampled), tokens (prompt and completion tokens), device_hours
    (hours of one device, evaluation not counted)."""
    budgets: Budgets
    """What one cell may spend, ascending, in budget_unit."""
    cells: tuple[Cell, ...]
    """The feasible candidates."""
    runs: tuple[PlannedRun, ...]
    """The training runs. Cells that differ only in budget are read off one run."""
    rejected: tuple[Rejection, ...]
    """The candidates that are not planned, each with a reason."""
    pricing: Pricing = field(default_factory=Pricing)
    """What device-hours cost, and how far the predicted ones may be off; nothing is known of either
    of runs that were trained elsewhere."""

    @property
    def sharing(self) -> float:
        """FLOPs of the runs over the FLOPs of training every cell alone."""
        alone = math.fsum(predicted(cell.planned_flops) for cell in self.cells)
        return math.fsum(predicted(run.planned_flops) for run in self.runs) / alone

    @property
    def axes(self) -> list[dict[str, Any]]:
        """Every combination of values of `grid.axes` among the candidates; one, empty, without."""
        combinations: list[dict[str, Any]] = []
        for axes in [c.axes for c in self.cells] + [r.axes for r in self.rejected]:
            if axes not in combinations:
                combinations.append(axes)
        return combinations

    def of_axes(self, axes: dict[str, Any]) -> "Plan":
        """The part of the plan with these values of `grid.axes`."""
        return replace(
            self,
            cells=tuple(cell for cell in self.cells if cell.axes == axes),
            runs=tuple(run for run in self.runs if run.axes == axes),
            rejected=tuple(item for item in self.rejected if item.axes == axes),
        )

    @property
    def plan_id(self) -> str:
        """Hash of the runs and the budgets they are read at: what makes two plans the same."""
        key = [self.budget_unit, sorted((run.run_id, run.milestones) for run in self.runs)]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]
