"""Settings with which a candidate that broke a rule would be planned."""

import math
from dataclasses import replace

import numpy as np

from isosweep.config.generation import GenerationConfig
from isosweep.config.sweep import SweepConfig
from isosweep.costs.memory import fit_memory
from isosweep.plan.candidates import Candidates, Place


def budget_that_works(table: Candidates, place: Place) -> str:
    """The nearest budget with which this pair of n and B keeps all rules about numbers of steps.

    Where the rules leave no number of steps, with the limits that have to be raised for it.
    """
    i, j, _ = place
    config = table.config
    grid, updates = config.grid, config.recipe.num_iterations
    per_epoch = config.task.num_train_problems / int(table.problems_per_batch[j])
    # From so many steps on, rounding to whole generations stays within the tolerance.
    least = max(math.ceil(0.5 * updates / grid.tolerance), grid.min_steps)
    most = min(grid.max_steps, math.floor(grid.max_epochs * per_epoch) * updates)
    steps = max(min(int(table.steps[i, j, 0]), most), least)
    settings = [f"budget={steps * float(table.cost[i, j]):.4g}"]
    if steps > grid.max_steps:
        settings.append(f"grid.max_steps={steps}")
    epochs = steps / updates / per_epoch
    if epochs > grid.max_epochs:
        settings.append(f"grid.max_epochs={math.ceil(epochs * 100) / 100:g}")
    return " ".join(settings)


def memory_that_suffices(config: SweepConfig, completions: int) -> str:
    """The mildest change of settings with which `completions` = n x B fit the devices."""
    hardware, task = config.hardware, config.task
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
        fit = fit_memory(
            changed.model.architecture,
            changed.recipe,
            changed.hardware,
            changed.generation,
            prompt=task.planned_prompt_tokens,
            completion=float(task.completion_limit),
            completions=np.array([completions]),
        )
        if fit.micro_batch[0] > 0:
            return text
    return "a smaller model, or hardware with more memory"
