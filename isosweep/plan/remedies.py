"""Settings with which a candidate that broke a rule would be planned."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from isosweep.config.generation import GenerationConfig, splits
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import fit_memory
from isosweep.plan.candidates import Candidates, Place


def budget_for(steps: int, table: Candidates, place: Place) -> str:
    """The budget that `steps` of this pair of n and B spend, in the fewest digits that buy them."""
    updates = table.config.recipe.updates_per_generation
    cost = float(table.cost[place.i, place.j])

    def bought(budget: float) -> int:
        return max(1, math.floor(budget / (cost * updates) + 0.5))

    texts = (f"{steps * cost:.{digits}g}" for digits in range(4, 17))
    exact = repr(steps * cost)
    return next((text for text in texts if bought(float(text)) == bought(steps * cost)), exact)


def memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    for text, changed in _changes(config):
        if _fits(changed, completions):
            return text
    return "a smaller model, or hardware with more memory"


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
            text = f"hardware.devices_per_run={devices} hardware.sharding=fsdp"
            spread = replace(
                lean.hardware, devices_per_run=devices, sharding="fsdp", optimizer="adamw"
            )
            if devices % lean.generation.tensor_parallel == 0 or lean.generation.mode == "server":
                wide = replace(lean, hardware=spread)
                yield text, wide
                yield from ((f"{text} {more}", changed) for more, changed in _engines(wide))
    yield "recipe.lora_rank=32", replace(lean, recipe=replace(lean.recipe, lora_rank=32))


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
        if size > present:
            yield text, replace(config, generation=engine)
        if asleep:
            text = f"{text} generation.sleep=true" if size > present else "generation.sleep=true"
            yield text, replace(config, generation=replace(engine, sleep=True))


def _fits(config: SweepConfig, completions: int) -> bool:
    fit = fit_memory(
        config.model.architecture,
        config.recipe,
        config.run_hardware,
        config.generation,
        prompt=config.task.planned_prompt_tokens,
        completion=float(config.task.completion_limit),
        completions=np.array([completions]),
        evaluated=config.evaluation.completions_at_once(
            config.task.num_eval_problems, config.hardware.devices_per_run
        ),
    )
    return bool(fit.micro_batch[0] > 0)
