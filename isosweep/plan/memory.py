"""How the runs of a config fit the memory that each of them has."""

from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import Counts, MemoryFit, fit_memory


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
        evaluated=config.evaluation.completions_at_once(
            task.num_eval_problems, hardware.devices_per_run
        ),
    )
