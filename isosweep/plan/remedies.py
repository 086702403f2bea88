"""Settings with which a candidate that broke a rule would be planned."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from isosweep.config.generation import GenerationConfig, splits
from isosweep.config.sweep import SweepConfig
from isosweep.costs.steps import budget_of, steps_for
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


def memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    for text, changed in _changes(config):
        if _fits(changed, completions):
            return text
    return "a smaller model, or hardware with more memory"


# GPUs of a usual node: a run of more takes a larger one.
_NODE = 8

# Settings, as they are typed, and the config that has them.
_Change = tuple[str, SweepConfig]


def _changes(config: SweepConfig) -> Iterator[_Change]:
    """Changes that take less memory, the mildest first."""
    prefix = ""
    for fewer in range(config.launcher.runs_per_device - 1, 0, -1):
        launcher = replace(config.launcher, runs_per_device=fewer)
        config, prefix = replace(config, launcher=launcher), f"launcher.runs_per_device={fewer} "
        yield prefix.strip(), config
    for text, changed in _changes_of_a_run(config):
        yield prefix + text, changed


def _changes_of_a_run(config: SweepConfig) -> Iterator[_Change]:
    hardware, lean = config.hardware, config
    if not hardware.gradient_checkpointing:
        lean = replace(config, hardware=replace(hardware, gradient_checkpointing=True))
        yield "hardware.gradient_checkpointing=true", lean
    if config.generation.name != "vllm":
        size = config.evaluation.samples_per_problem
        fewer = replace(lean, evaluation=replace(config.evaluation, batch_size=size))
        yield f"evaluation.batch_size={size}", fewer
        yield "generation=vllm", replace(config, generation=GenerationConfig(name="vllm"))
    yield from _engines(lean)
    if hardware.device == "cuda" and hardware.sharding == "ddp":
        eight_bit = replace(lean.hardware, optimizer="adamw_8bit")
        yield "hardware.optimizer=adamw_8bit", replace(lean, hardware=eight_bit)
    if hardware.interconnect_bandwidth is not None:
        for devices in (2, 4, 8, 16, 32, 64):
            if devices % lean.generation.tensor_parallel == 0 or lean.generation.mode == "server":
                yield from _layouts(lean, devices)
    recipe = lean.recipe
    if not (recipe.cast_lm_head_to_fp32 and lean.model.architecture.tie_word_embeddings):
        yield "recipe.lora_rank=32", replace(lean, recipe=replace(recipe, lora_rank=32))


def _layouts(config: SweepConfig, devices: int) -> Iterator[_Change]:
    """A model that is sharded over `devices`; on all of a usual node, with less on each as well."""
    hardware, recipe = config.hardware, config.recipe
    text = f"hardware.devices_per_run={devices} hardware.sharding=fsdp"
    if recipe.interruption is not None:
        # Answers are not continued from sharded weights.
        text, recipe = f"{text} recipe.interruption=null", replace(recipe, interruption=None)
    optimizer = hardware.optimizer
    if optimizer not in ("adamw", "adamw_torch_8bit"):
        # Of bitsandbytes, which FSDP does not shard.
        optimizer = "adamw_torch_8bit" if optimizer.endswith("8bit") else "adamw"
        text = f"{text} hardware.optimizer={optimizer}"
    sharded = replace(hardware, devices_per_run=devices, sharding="fsdp", optimizer=optimizer)
    changes = [(text, sharded)]
    if devices == _NODE and optimizer == "adamw" and not hardware.offload_optimizer:
        more = "hardware.optimizer=adamw_torch_8bit"
        changes.append((f"{text} {more}", replace(sharded, optimizer="adamw_torch_8bit")))
        if hardware.host_bandwidth is not None:
            more = "hardware.offload_optimizer=true"
            changes.append((f"{text} {more}", replace(sharded, offload_optimizer=True)))
    for change, spread in changes:
        wide = replace(config, hardware=spread, recipe=recipe)
        yield change, wide
        yield from ((f"{change} {more}", changed) for more, changed in _engines(wide))


def _engines(config: SweepConfig) -> Iterator[_Change]:
    """Engines that sleep while the policy is updated, that have more devices, and both."""
    generation, arch = config.generation, config.model.architecture
    if generation.name != "vllm":
        return
    present = generation.tensor_parallel
    wider = [size for size in (2, 4, 8) if size > present and splits(arch, size)]
    if generation.mode == "server":
        for size in wider:
            devices = math.lcm(size, generation.server_devices)
            text = f"generation.server_devices={devices} generation.tensor_parallel={size}"
            engine = replace(generation, server_devices=devices, tensor_parallel=size)
            yield text, replace(config, generation=engine)
        return
    asleep = config.hardware.device == "cuda" and not generation.sleep
    for size in (present, *wider):
        if config.hardware.devices_per_run % size:
            continue
        engine = replace(generation, tensor_parallel=size)
        text = f"generation.tensor_parallel={size}"
        if size > present and config.recipe.interruption is not None:
            # The devices of one engine do not continue answers.
            continue
        if size > present:
            yield text, replace(config, generation=engine)
        if asleep:
            text = f"{text} generation.sleep=true" if size > present else "generation.sleep=true"
            yield text, replace(config, generation=replace(engine, sleep=True))


def _fits(config: SweepConfig, completions: int) -> bool:
    # Mini-batches that do not divide it anyway are another rule's.
    parts = math.gcd(completions, config.recipe.mini_batches)
    if completions % (config.hardware.devices_per_run * parts):
        return False
    return bool(planned_memory(config, np.array([completions])).micro_batch[0] > 0)
