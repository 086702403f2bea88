"""What this machine lacks for a plan, found out before anything is launched."""

import importlib.util

from isosweep.config import SweepConfig, variants
from isosweep.errors import PreflightError
from isosweep.models import missing_weights
from isosweep.task_settings import TaskConfig
from isosweep.tasks import problem_sets
from isosweep.vllm_requirements import missing_for_vllm

# A planning install (`pip install isosweep`) has none of these.
ANALYSIS_PACKAGES = ("scipy", "plotly", "matplotlib", "threadpoolctl")


def preflight(config: SweepConfig) -> None:
    """Raise PreflightError with all that this machine lacks, before anything is launched."""
    from isosweep.launchers.local import visible_gpus

    missing = _missing_packages("torch", "trl", "transformers", "datasets", *ANALYSIS_PACKAGES)
    if config.tracking.name == "mlflow":
        missing += _missing_packages("mlflow")
    local = config.launcher.name == "local"
    if local and config.hardware.device == "cuda" and visible_gpus() == 0:
        remedy = (
            "run on a GPU machine, submit to a cluster with launcher=slurm, or set hardware=cpu"
        )
        missing.append((f"a GPU ({config.hardware.name}) on this machine", remedy))
    if importlib.util.find_spec("huggingface_hub") is not None:
        for variant in variants(config):
            missing += missing_weights(variant.config.model)
    missing += missing_for_vllm(config)
    tasks = [variant.config.task for variant in variants(config)]
    missing += _missing_packages(*sorted({name for task in tasks for name in _packages(task)}))
    missing += _not_trainable(config)
    if missing:
        raise PreflightError(missing)
    for task in tasks:
        # What is wrong with the problems is told here, not by every worker.
        problem_sets(task)
    if not local:
        from isosweep.launchers.slurm import require_slurm

        require_slurm()


def _packages(task: TaskConfig) -> tuple[str, ...]:
    """Packages that draw the task's problems and check their answers."""
    match task.kind:
        case "reasoning_gym":
            return ("reasoning_gym",)
        case "math":
            return ("math_verify", "pyarrow")
        case _:
            return ()


def _missing_packages(*names: str) -> list[tuple[str, str]]:
    return [
        (f"the package {name}", "pip install 'isosweep[train]'")
        for name in names
        if importlib.util.find_spec(name) is None
    ]


def require_analysis() -> None:
    """Raise PreflightError where this installation cannot analyse."""
    missing = _missing_packages(*ANALYSIS_PACKAGES)
    if missing:
        raise PreflightError(missing)


def _not_trainable(config: SweepConfig) -> list[tuple[str, str]]:
    """What can be planned and not trained as configured."""
    found = []
    if config.hardware.devices_per_run > 1:
        found.append(("runs on several devices in this version", "set hardware.devices_per_run=1"))
    slurm = config.launcher.slurm
    asked = slurm.gpus_per_node or {"gres", "gpus", "gpus_per_task"} & set(slurm.additional)
    if config.launcher.name == "slurm" and config.hardware.device == "cuda" and not asked:
        found.append(("GPUs in what each job asks for", "set launcher.slurm.gpus_per_node=1"))
    if any(variant.config.recipe.lora_rank is not None for variant in variants(config)):
        found.append(("LoRA in this version", "set recipe.lora_rank=null"))
    return found
