"""How the runs of a config fit the memory that each of them has."""

from dataclasses import replace

from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import Counts, MemoryFit, Sampled, fit_memory
from isosweep.plan.evaluation import evaluations
from isosweep.plan.spec import evaluation_batch


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


def _evaluated(on: SweepConfig) -> Sampled:
    task = on.task
    return Sampled(
        prompt=task.planned_prompt_tokens,
        completion=float(task.completion_limit),
        at_once=evaluation_batch(on),
    )
