"""How the runs of a config fit the memory that each of them has, and what would make them fit."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import Counts, MemoryFit, Sampled, fit_memory
from isosweep.errors import SettingError
from isosweep.plan.evaluation import evaluations
from isosweep.plan.spec import evaluation_batch

# How many times the devices of a run are tried.
_TIMES = (1, 2, 4, 8, 16, 32)
# How often the devices of an engine are doubled.
_DOUBLINGS = range(5)


def planned_memory(
    config: SweepConfig, completions: Counts, micro_batch: int | None = None
) -> MemoryFit:
    """How n x B = `completions` fit, in micro-batches of so many: arrays of their shape."""
    recipe = config.recipe
    if micro_batch is not None:
        recipe = replace(recipe, micro_batch=micro_batch)
    task, hardware = config.task, config.run_hardware
    return fit_memory(
        config.model.architecture,
        recipe,
        hardware,
        config.generation,
        lengths=task.lengths,
        completions=completions,
        evaluated=[_evaluated(on) for on in evaluations(config)],
    )


def roomier(config: SweepConfig, completions: int) -> dict[str, Any]:
    """The settings that change in the first layout in which n x B = `completions` fit; none where
    no layout does.

    Tried in turn: larger engines, engines that sleep, all states sharded, and all of it on twice
    the devices, up to 32 times. A layout that breaks another rule is passed over.
    """
    hardware, generation = config.hardware, config.generation
    for times, sharding, sleep, doublings in itertools.product(
        _TIMES,
        dict.fromkeys((hardware.sharding, "fsdp")),
        dict.fromkeys((generation.sleep, True)),
        _DOUBLINGS,
    ):
        devices = times * hardware.devices_per_run
        on = hardware.taking(devices)
        if sharding != hardware.sharding:
            on["sharding"] = sharding
        engine = {"tensor_parallel": generation.tensor_parallel << doublings, "sleep": sleep}
        engine = {
            name: value for name, value in engine.items() if getattr(generation, name) != value
        }
        try:
            spread = replace(hardware, **on)
            launcher = config.launcher
            if spread.nodes > 1 and launcher.name in ("local", "inline"):
                launcher = replace(launcher, name="slurm")
            changed = replace(
                config,
                hardware=spread,
                generation=replace(generation, **engine),
                launcher=launcher,
            )
        except SettingError:
            continue
        recipe, trained = config.recipe, changed.run_hardware.devices_per_run
        if completions % (trained * recipe.mini_batches * (recipe.micro_batch or 1)):
            continue
        if planned_memory(changed, np.array([completions])).micro_batch[0] > 0:
            moved = {} if launcher is config.launcher else {"launcher": launcher.name}
            return {
                **{f"hardware.{name}": value for name, value in on.items()},
                **{f"generation.{name}": value for name, value in engine.items()},
                **moved,
            }
    return {}


def _evaluated(on: SweepConfig) -> Sampled:
    task = on.task
    return Sampled(
        prompt=task.planned_prompt_tokens,
        completion=float(task.completion_limit),
        at_once=evaluation_batch(on),
    )
