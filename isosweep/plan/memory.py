"""How the runs of a config fit the memory that each of them has."""

from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import Counts, MemoryFit, Sampled, fit_memory
from isosweep.plan.evaluation import evaluations
from isosweep.plan.spec import evaluation_batch


def planned_memory(config: SweepConfig, completions: Counts) -> MemoryFit:
    """How n x B = `completions` fit: arrays of their shape."""
    task, hardware = config.task, config.run_hardware
    return fit_memory(
        config.model.architecture,
        config.recipe,
        hardware,
        config.generation,
        prompt=task.planned_prompt_tokens,
        completion=float(task.completion_limit),
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
