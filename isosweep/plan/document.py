"""What plan.json holds besides the plan itself."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, MinLen

from isosweep.config.study import Keep
from isosweep.plan.cells import Axes

Flops = Annotated[float, Ge(0)]


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """What the checkpoints of the whole sweep take on the disk."""

    keep: Keep
    """What is left of a run's checkpoints after its end: checkpoint.keep. No unit."""
    runs_at_once: Annotated[int, Ge(1)]
    """Runs that train at the same time, at most. A count."""
    largest_bytes: Annotated[float, Ge(0)]
    """One checkpoint of the run whose checkpoints are largest. Bytes."""
    peak_bytes: Annotated[float, Ge(0)]
    """While the sweep runs, at most. Bytes."""
    kept_bytes: Annotated[float, Ge(0)]
    """After its end, at most. Bytes."""


@dataclass(frozen=True, kw_only=True)
class SetPlan:
    """A further set of problems that every record has the results of: evaluation.sets."""

    name: Annotated[str, MinLen(1)]
    """Its name. No unit."""
    problems: Annotated[int, Ge(1)]
    """Its problems, of the first combination of values of grid.axes. A count."""
    samples_per_problem: Annotated[int, Ge(1)]
    """k of its avg@k. A count."""
    flops_of_one: Flops
    """Sampling for one evaluation on it. FLOPs."""
    part: bool = False
    """Whether it is a part of a mixture, whose problems are among the main ones."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """What held-out evaluation takes of the whole sweep, with all its sets, by the lengths that the
    planner assumes.

    That before training counts once a run, though runs of a model share it.
    """

    problems: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)]
    """Held-out problems: each size of task.num_eval_problems among grid.axes, one without. A
    count."""
    samples_per_problem: Annotated[int, Ge(1)]
    """k of avg@k: evaluation.samples_per_problem. A count."""
    records: Annotated[int, Ge(0)]
    """Evaluations of all runs together. A count."""
    flops: Flops
    """Sampling for all of them. FLOPs."""
    share_of_flops: Annotated[float, Ge(0), Le(1)]
    """Its part of the FLOPs of training, generation and evaluation together. A fraction."""
    device_hours: Annotated[float, Ge(0)]
    """Predicted time times devices. Device-hours."""
    share_of_time: Annotated[float, Ge(0), Le(1)]
    """Its part of the predicted device time of the sweep. A fraction."""
    sets: tuple[SetPlan, ...] = ()
    """The sets besides the main held-out problems, in their order, after the parts of a mixture,
    which are these."""


@dataclass(frozen=True, kw_only=True)
class Caution:
    """Cells of one combination of values of grid.axes that the plan warns of, and the worst."""

    axes: Axes
    """Settings of grid.axes and their values here, each in the unit of its setting; empty without
    axes."""
    cells: Annotated[int, Ge(1)]
    """How many cells that is so of. A count."""
    of_cells: Annotated[int, Ge(1)]
    """Cells planned, these included. A count."""
    num_generations: Annotated[int, Ge(2)]
    """n of the worst. A count."""
    problems_per_batch: Annotated[int, Ge(1)]
    """B of the worst. A count."""


@dataclass(frozen=True, kw_only=True)
class ShortOfWarmup(Caution):
    """Cells that are read too soon after warm-up: whose T is below three warm-ups."""

    warmup_steps: Annotated[int, Ge(1)]
    """recipe.warmup_steps. Updates."""
    num_steps: Annotated[int, Ge(1)]
    """T of the shortest of them. Updates."""
    budget: Annotated[float, Gt(0)]
    """Budget of that one, in budget_unit."""


@dataclass(frozen=True, kw_only=True)
class Repeated(Caution):
    """Cells at the largest budget whose runs see the training problems more than 16 times, of those
    planned there."""

    budget: Annotated[float, Gt(0)]
    """The largest budget, in budget_unit."""
    epochs: Annotated[float, Gt(0)]
    """Of the one that sees them most often. Passes."""
    problems: Annotated[int, Ge(1)]
    """Training problems that are passed over: of a mixture's part, where one is gone through first.
    A count."""
    part: str
    """That part; empty without. No unit."""


@dataclass(frozen=True, kw_only=True)
class Stale(Caution):
    """Cells whose learning rate is above what is published as stable with rollouts as old."""

    staleness: Annotated[int, Ge(2)]
    """Updates from the policy that sampled a rollout to the last update that uses it. A count."""
    rollout_lag: Annotated[int, Ge(0)]
    """recipe.rollout_lag. Generations."""
    learning_rate: Annotated[float, Gt(0)]
    """The largest rate among them. No unit."""
    largest: Annotated[float, Gt(0)]
    """The largest rate by what is published. No unit."""
    mended: Annotated[float, Gt(0)]
    """recipe.learning_rate with which none of the cells would be above it. No unit."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something about what was read that an answer may depend on."""

    kind: Annotated[str, MinLen(1)]
    """What it is: a kind of isosweep/words/importing.py. No unit."""
    count: Annotated[int, Ge(0)] = 0
    """How many rows or runs it is of. A count."""
    example: str = ""
    """One of them. No unit."""
    value: float | None = None
    """A number of the kind, in the unit that it has there."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where runs that were trained elsewhere were read from, and how."""

    source: tuple[str, ...]
    """Files, directories or addresses. No unit."""
    columns: dict[str, str | float]
    """The column that each quantity was read from, or the number that all rows share. Each in the
    unit of its setting of the import group."""
    guessed: tuple[str, ...]
    """Quantities whose columns were found by their usual names. No unit."""
    reward_range: tuple[float, float]
    """The lowest and highest reward, of which records have shares. Reward, as it was read."""
    notes: tuple[Note, ...]
    """What else was done to read them."""
