"""Settings with which a candidate that broke a rule would be planned."""

import math
from dataclasses import replace

import numpy as np

from isosweep.config.generation import GenerationConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import fit_memory
from isosweep.plan.candidates import Candidates, Place


def budget_for(steps: int, table: Candidates, place: Place) -> str:
    """The budget that `steps` of this pair of n and B spend, in the fewest digits that buy them."""
    updates = table.config.recipe.num_iterations
    cost = float(table.cost[place.i, place.j])

    def bought(budget: float) -> int:
        return max(1, math.floor(budget / (cost * updates) + 0.5))

    texts = (f"{steps * cost:.{digits}g}" for digits in range(4, 17))
    exact = repr(steps * cost)
    return next((text for text in texts if bought(float(text)) == bought(steps * cost)), exact)


def memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    prefix = ""
    for fewer in range(config.launcher.runs_per_device - 1, 0, -1):
        launcher = replace(config.launcher, runs_per_device=fewer)
        config, prefix = replace(config, launcher=launcher), f"launcher.runs_per_device={fewer} "
        if _fits(config, completions):
            return prefix.strip()
    hardware = config.hardware
    choices: list[tuple[str, SweepConfig]] = []
    lean = config
    if not hardware.gradient_checkpointing:
        lean = replace(config, hardware=replace(hardware, gradient_checkpointing=True))
        choices.append(("hardware.gradient_checkpointing=true", lean))
    if config.generation.name != "vllm":
        queued = replace(config, generation=GenerationConfig(name="vllm"))
        choices.append(("generation=vllm", queued))
    if hardware.interconnect_bandwidth is not None:
        for devices in (2, 4, 8, 16, 32, 64):
            spread = replace(lean.hardware, devices_per_run=devices, sharding="fsdp")
            text = f"hardware.devices_per_run={devices} hardware.sharding=fsdp"
            choices.append((text, replace(lean, hardware=spread)))
    adapters = replace(lean.recipe, lora_rank=32)
    choices.append(("recipe.lora_rank=32", replace(lean, recipe=adapters)))
    for text, changed in choices:
        if _fits(changed, completions):
            return prefix + text
    return "a smaller model, or hardware with more memory"


def _fits(config: SweepConfig, completions: int) -> bool:
    fit = fit_memory(
        config.model.architecture,
        config.recipe,
        config.run_hardware,
        config.generation,
        prompt=config.task.planned_prompt_tokens,
        completion=float(config.task.completion_limit),
        completions=np.array([completions]),
    )
    return bool(fit.micro_batch[0] > 0)
