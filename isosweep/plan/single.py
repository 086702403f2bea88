"""One configuration without a sweep: does it fit, how long does it take, what does it cost."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isosweep.config.axes import Variant, combinations
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.costs.activations import generating_bytes, training_bytes
from isosweep.costs.memory import checkpoint_bytes, state_bytes
from isosweep.plan.calibration import calibrated
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import MEASURED, PUBLISHED, hardware_that_works
from isosweep.plan.rules import RULES
from isosweep.plan.spec import resolve_learning_rate
from isosweep.pricing import Pricing


@dataclass(frozen=True, kw_only=True)
class Single:
    """A run of `num_steps` updates, at one n and B.

    `broken`: why it cannot be trained, a reason a rule, and `fitting`: the smallest hardware of
    conf/ that has the memory. `memory`: bytes of a device by part, at the most that each takes, and
    `needed`: at once, of the `usable` ones; sampling and activations take turns, but for an engine
    that stays awake. `step_seconds`: of one update, by phase; `seconds`: of the run, with its
    start and `records` evaluations. Device-hours follow with the price; FLOPs are of training and
    generation, and `evaluation_flops` come on top. `epochs`: passes over the training problems.
    """

    axes: dict[str, Any]
    model: str
    task: str
    hardware: str
    devices: int
    num_generations: int
    problems_per_batch: int
    num_steps: int
    learning_rate: float
    broken: dict[str, str]
    fitting: str
    micro_batch: int
    memory: dict[str, float]
    needed: float
    usable: float
    step_seconds: dict[str, float]
    seconds: float
    records: int
    evaluation_seconds: float
    startup_seconds: float
    device_hours: float
    dollars: float | None
    pricing: Pricing
    flops: float
    hardware_flops: float
    evaluation_flops: float
    rollouts: float
    epochs: float
    checkpoint_bytes: float


def single_runs(config: SweepConfig) -> Iterator[Single]:
    """A run of `config.steps` updates at each n and B of the grid, of each variant.

    Budgets and the limits that the grid sets T do not count.
    """
    config = calibrated(config)
    for variant in combinations(config):
        grid = variant.config.grid
        for n in sorted(grid.num_generations):
            for B in sorted(grid.problems_per_batch):
                yield _single(variant, n, B)


def _single(variant: Variant, n: int, B: int) -> Single:
    config, steps = variant.config, variant.config.steps
    assert steps is not None
    recipe, grid = config.recipe, config.grid
    pair = {"num_generations": [n], "problems_per_batch": [B], "completions_per_step": None}
    # In rollouts an update's cost is known beforehand.
    budget = steps * n * B * recipe.planned_draws / recipe.updates_per_generation
    alone = replaced(config, budget=budget, budget_unit="rollouts", grid=replaced(grid, **pair))
    (table,) = enumerate_candidates([Variant(axes=variant.axes, config=alone)])
    place, hardware = Place(0, 0, 0), alone.run_hardware
    broken = [name for name in table.broken_at(place) if not RULES[name].bounds_steps]
    fit, phases, updates = table.memory, table.phases, recipe.updates_per_generation
    num_steps, records = int(table.steps[place]), int(table.records[place])
    step = {"generation": phases.generation, "training": phases.training}
    step |= {"update": phases.update, "overhead": phases.overhead}
    seconds = float(table.run_seconds[place])
    hours = seconds * alone.devices_taken / 3600
    pricing = Pricing(
        dollars_per_hour=hardware.dollars_per_hour,
        spread=MEASURED if hardware.calibrated_from else PUBLISHED,
    )
    one = checkpoint_bytes(alone.model.architecture, recipe, hardware)
    return Single(
        axes=variant.axes,
        model=alone.model.name,
        task=alone.task.name,
        hardware=hardware.name,
        devices=alone.devices_taken,
        num_generations=n,
        problems_per_batch=B,
        num_steps=num_steps,
        learning_rate=resolve_learning_rate(recipe, n * B),
        broken={name: RULES[name].reason(table, place) for name in broken},
        fitting=hardware_that_works(table, place, broken) if broken else "",
        micro_batch=int(fit.micro_batch[0, 0]),
        memory=_memory(table),
        needed=float((fit.needed if broken else fit.peak)[0, 0]),
        usable=hardware.usable_bytes,
        step_seconds={name: float(each[0, 0]) / updates for name, each in step.items()},
        seconds=seconds,
        records=records,
        evaluation_seconds=records * float(table.evaluation_seconds[0, 0]),
        startup_seconds=hardware.startup,
        device_hours=hours,
        dollars=pricing.dollars(hours),
        pricing=pricing,
        flops=num_steps * float(table.flops[0, 0]),
        hardware_flops=num_steps * float(table.hardware_flops[0, 0]),
        evaluation_flops=records * table.evaluation_flops,
        rollouts=float(table.spent[place]),
        epochs=float(table.epochs[place]),
        checkpoint_bytes=one.total,
    )


def _memory(table: Candidates) -> dict[str, float]:
    """Bytes of a device by part, with the micro-batch that is planned, or the smallest."""
    config, fit = table.config, table.memory
    arch, recipe, hardware = config.model.architecture, config.recipe, config.run_hardware
    size = {"prompt": config.task.lengths.prompt, "completion": config.task.lengths.longest}
    passes = training_bytes(arch, recipe, hardware, **size)
    micro = max(int(fit.micro_batch[0, 0]), recipe.micro_batch or 1)
    sampling = float(fit.concurrency[0, 0]) * generating_bytes(arch, recipe, hardware, **size)
    if fit.engine is not None:
        sampling = float(np.max(fit.engine.share)) * hardware.memory_gb * 1e9
    return {
        **asdict(state_bytes(arch, recipe, hardware)),
        "activations": passes.fixed + micro * passes.per_completion,
        "sampling": sampling,
    }
