"""Settings with which a candidate that broke a rule would be planned."""

import math
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.config.typed import typed
from isosweep.costs.steps import budget_of, steps_for
from isosweep.errors import SettingError
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.memory import planned_memory


def budget_for(steps: int, table: Candidates, place: Place) -> str:
    """The budget that `steps` of this pair of n and B spend, in the fewest digits that buy them."""
    updates = table.config.recipe.updates_per_generation
    cost = float(table.cost[place.i, place.j])
    exact = budget_of(steps, cost)
    texts = (f"{exact:.{digits}g}" for digits in range(4, 17))
    bought = steps_for(exact, cost, updates)
    return next((t for t in texts if steps_for(float(t), cost, updates) == bought), repr(exact))


def fewer_devices(config: SweepConfig, completions: int) -> str:
    """The most devices, of those of a run, that share `completions` = n x B evenly; and how."""
    most = math.gcd(completions, config.hardware.devices_per_run)
    parts = [f"hardware.devices_per_run={most}"]
    if most == 1 and config.hardware.sharding != "ddp":
        parts.append("hardware.sharding=ddp")
        if config.hardware.offload_optimizer:
            parts.append("hardware.offload_optimizer=false")
    generation = config.generation
    if generation.mode == "colocate" and most % generation.tensor_parallel:
        size = math.gcd(most, generation.tensor_parallel)
        parts.append(f"generation.tensor_parallel={size}")
    return " ".join(parts)


# Settings by dotted name.
_Change = dict[str, Any]

# GPUs of a usual node: a run of more takes a larger one.
_NODE = 8
# Of bitsandbytes, whose states FSDP does not shard, and what is like it.
_SHARDED = {
    "adamw_8bit": "adamw_torch_8bit",
    "paged_adamw_8bit": "adamw_torch_8bit",
    "paged_adamw": "adamw",
}


def memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    for change in _changes(config):
        new = {name: value for name, value in change.items() if value != attrgetter(name)(config)}
        if new and _fits(config, new, completions):
            # What samples is chosen as a group.
            return " ".join(f"{n.removesuffix('.name')}={typed(v)}" for n, v in new.items())
    return "a smaller model, or hardware with more memory"


def _changes(config: SweepConfig) -> Iterator[_Change]:
    """Changes that take less memory, the mildest first; some change nothing, or break a rule."""
    runs, lean = "launcher.runs_per_device", {"hardware.gradient_checkpointing": True}
    yield from ({runs: fewer} for fewer in range(config.launcher.runs_per_device - 1, 0, -1))
    alone: _Change = {runs: 1}
    yield alone | lean
    if config.generation.name == "transformers":
        fewest = config.evaluation.samples_per_problem
        yield alone | lean | {"evaluation.batch_size": fewest}
        yield alone | {"generation.name": "vllm"}
    engines = list(_engines(config))
    yield from (alone | lean | engine for engine in engines)
    if config.hardware.device == "cuda":
        yield alone | lean | {"hardware.optimizer": "adamw_8bit"}
    for layout in _layouts(config):
        yield from (alone | lean | layout | engine for engine in ({}, *engines))
    yield alone | lean | {"recipe.lora_rank": 32}


def _layouts(config: SweepConfig) -> Iterator[_Change]:
    """The model sharded over devices; over all of a usual node, with less on each as well."""
    present = config.hardware.optimizer
    optimizer = _SHARDED.get(present, present)
    for devices in (2, 4, 8, 16, 32, 64):
        sharded: _Change = {
            "hardware.devices_per_run": devices,
            "hardware.sharding": "fsdp",
            # Answers are not continued from sharded weights.
            "recipe.interruption": None,
            "hardware.optimizer": optimizer,
        }
        yield sharded
        if devices == _NODE and optimizer == "adamw":
            yield sharded | {"hardware.optimizer": "adamw_torch_8bit"}
            yield sharded | {"hardware.offload_optimizer": True}


def _engines(config: SweepConfig) -> Iterator[_Change]:
    """Engines that sleep while the policy is updated, that have more devices, and both."""
    generation, size = config.generation, "generation.tensor_parallel"
    wider = [devices for devices in (2, 4, 8) if devices > generation.tensor_parallel]
    if generation.mode == "server":
        for devices in wider:
            together = math.lcm(devices, generation.server_devices)
            yield {"generation.server_devices": together, size: devices}
        return
    for devices in (generation.tensor_parallel, *wider):
        yield {size: devices}
        yield {size: devices, "generation.sleep": True}


def _fits(config: SweepConfig, change: _Change, completions: int) -> bool:
    """Whether n x B = `completions` fit with the `change`, and no rule forbids it."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in change.items():
        group, _, setting = name.partition(".")
        groups.setdefault(group, {})[setting] = value
    try:
        config = replace(
            config,
            **{group: replace(getattr(config, group), **new) for group, new in groups.items()},
        )
    except SettingError:
        return False
    # Mini-batches that do not divide it anyway are another rule's.
    parts = math.gcd(completions, config.recipe.mini_batches)
    if completions % (config.hardware.devices_per_run * parts):
        return False
    return bool(planned_memory(config, np.array([completions])).micro_batch[0] > 0)
