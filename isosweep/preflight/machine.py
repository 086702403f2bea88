"""What this machine lacks for a plan, reported before anything is launched."""

import importlib.util
from collections.abc import Sequence

from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.difficulty.variants import ChosenVariant
from isosweep.errors import PreflightError
from isosweep.models.weights import missing_weights
from isosweep.plan.evaluation import evaluations
from isosweep.preflight.devices import missing_devices
from isosweep.preflight.memory import missing_for_training
from isosweep.preflight.vllm import missing_for_vllm
from isosweep.tasks.sets import problems_of_sets
from isosweep.training.loss import try_loss

# A planning install (`pip install isosweep`) has none of these.
ANALYSIS_PACKAGES = (
    "scipy",
    "pandas",
    "plotly",
    "matplotlib",
    "threadpoolctl",
    "jinja2",
    "annotated_types",
)


def preflight(config: SweepConfig, variants: Sequence[ChosenVariant]) -> None:
    """Raise PreflightError with all that this machine lacks, before anything is launched.

    SettingError for problems that cannot be drawn. `variants`: those of `config`, resolved.
    """
    missing = _missing_packages("torch", "trl", "transformers", "datasets", *ANALYSIS_PACKAGES)
    if config.tracking.name == "mlflow":
        missing += _missing_packages("mlflow")
    if config.search.searches:
        missing += _missing_packages("optuna")
    missing += missing_devices(config)
    if importlib.util.find_spec("huggingface_hub") is not None:
        for variant in variants:
            missing += missing_weights(variant.config.model)
    missing += missing_for_vllm(config, variants)
    missing += missing_for_training(config, variants)
    tasks = [each.task for variant in variants for each in evaluations(variant.config)]
    missing += _missing_packages(*sorted({name for task in tasks for name in _packages(task)}))
    if any(task.code is not None for task in tasks):
        missing += _missing_sandbox()
    if any(variant.config.recipe.lora_rank is not None for variant in variants):
        missing += _missing_packages("peft")
    missing += _not_trainable(config)
    if missing:
        # With all else that is missing, so that one download serves for all.
        missing += dict.fromkeys(each for task in tasks for each in _missing_data(task))
        raise PreflightError(missing)
    for variant in variants:
        try_loss(variant.config)
        # What is wrong with the problems is reported once, not by every worker.
        problems_of_sets(variant.config, variant.problems.training)
    if config.launcher.name == "slurm":
        from isosweep.launchers.cluster import require_slurm

        require_slurm()
    if config.launcher.name == "command":
        from isosweep.launchers.command import require_commands

        require_commands(config.launcher.command)


def _packages(task: TaskConfig) -> tuple[str, ...]:
    """Packages that draw the task's problems and check their answers."""
    match task.kind:
        case "reasoning_gym":
            return ("reasoning_gym",)
        case "math":
            return ("math_verify", "pyarrow")
        case "code":
            return ("pyarrow",)
        case _:
            return ()


def _missing_data(task: TaskConfig) -> list[tuple[str, str]]:
    """A dataset that no earlier load has left here; the hub, which may have it, is not asked."""
    if task.rows is None or _missing_packages("datasets", "pyarrow"):
        return []
    from isosweep.tasks.rows import is_cached, other_data

    if is_cached(task.rows):
        return []
    return [(f"the dataset {task.rows.dataset} in the local cache", other_data(task.rows))]


def _missing_sandbox() -> list[tuple[str, str]]:
    """What keeps this machine from running programs that nobody has read; nodes may differ."""
    from isosweep.tasks.code import missing_sandbox

    why = missing_sandbox()
    if why is None:
        return []
    remedy = (
        "run on Linux (x86-64 or ARM64) with seccomp filters, which a container must not forbid; "
        "task=code has no other way to run programs"
    )
    return [(f"a sandbox for programs (task=code): {why}", remedy)]


def _missing_packages(*names: str) -> list[tuple[str, str]]:
    return [
        (f"the package {name}", "pip install 'isosweep[train]'")
        for name in names
        if importlib.util.find_spec(name) is None
    ]


def require_mlflow() -> None:
    """Raise PreflightError where this installation has no MLflow."""
    if missing := _missing_packages("mlflow"):
        raise PreflightError(missing)


def require_analysis() -> None:
    """Raise PreflightError where this installation cannot analyse."""
    missing = _missing_packages(*ANALYSIS_PACKAGES)
    if missing:
        raise PreflightError(missing)


def _not_trainable(config: SweepConfig) -> list[tuple[str, str]]:
    """What can be planned and not trained as configured."""
    missing = []
    if config.hardware.sharding.startswith("zero") and not importlib.util.find_spec("deepspeed"):
        remedy = "pip install deepspeed, or set hardware.sharding=fsdp"
        missing.append(("the package deepspeed", remedy))
    return missing
