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
    hardware, task = config.hardware, config.task
    choices: list[tuple[str, SweepConfig]] = []
    lean = config
    if not hardware.gradient_checkpointing:
        lean = replace(config, hardware=replace(hardware, gradient_checkpointing=True))
        choices.append(("hardware.gradient_checkpointing=true", lean))
    if config.generation.name != "vllm":
        size = config.evaluation.samples_per_problem
        fewer = replace(lean, evaluation=replace(config.evaluation, batch_size=size))
        choices.append((f"evaluation.batch_size={size}", fewer))
        queued = replace(config, generation=GenerationConfig(name="vllm"))
        choices.append(("generation=vllm", queued))
    if hardware.device == "cuda" and hardware.sharding == "ddp":
        eight_bit = replace(lean.hardware, optimizer="adamw_8bit")
        choices.append(("hardware.optimizer=adamw_8bit", replace(lean, hardware=eight_bit)))
    if hardware.interconnect_bandwidth is not None:
        for devices in (2, 4, 8, 16, 32, 64):
            spread = replace(
                lean.hardware, devices_per_run=devices, sharding="fsdp", optimizer="adamw"
            )
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
            evaluated=changed.evaluation.completions_at_once(
                task.num_eval_problems, changed.hardware.devices_per_run
            ),
        )
        if fit.micro_batch[0] > 0:
            return text
    return "a smaller model, or hardware with more memory"
