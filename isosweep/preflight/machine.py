"""What this machine lacks for a plan, reported before anything is launched."""

import importlib.util
import os
import shutil
from collections.abc import Sequence

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.costs.host import host_bytes
from isosweep.devices import Devices, visible_devices
from isosweep.difficulty.variants import ChosenVariant
from isosweep.errors import PreflightError
from isosweep.launchers.sbatch import gpus_of_node, memory_gb
from isosweep.models.prompts import require_prompts
from isosweep.models.stops import require_stops
from isosweep.models.weights import missing_weights
from isosweep.plan.evaluation import evaluations
from isosweep.preflight.vllm import Missing, missing_for_vllm
from isosweep.tasks.sets import problems_of_sets
from isosweep.training.loss import try_loss

# A planning install (`pip install isosweep`) has none of these.
ANALYSIS = ("scipy", "pandas", "matplotlib", "threadpoolctl", "jinja2", "annotated_types")
_OPTIMIZERS = {"adamw_torch_8bit": "torchao"}
# And of attention kernels.
_KERNELS = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
}


def preflight(config: SweepConfig, variants: Sequence[ChosenVariant]) -> None:
    """Raise PreflightError with all that this machine lacks, before anything is launched.

    SettingError for problems that cannot be drawn. `variants`: those of `config`, resolved.
    """
    missing = _missing_packages(*ANALYSIS)
    if config.tracking.name == "mlflow":
        missing += _missing_packages("mlflow")
    if config.tracking.name == "wandb":
        missing += _missing_packages("wandb", extra="wandb")
    if config.search.searches:
        missing += _missing_packages("optuna")
    missing += missing_devices(config)
    ours = config.trainer.name == "trl"
    if importlib.util.find_spec("huggingface_hub") is not None and (
        ours or config.trainer.names("model")
    ):
        for model in {
            str(variant.config.model): variant.config.model for variant in variants
        }.values():
            missing += missing_weights(model)
    if ours:
        _preflight_training(config, variants, missing)
    else:
        missing += _missing_program(config)
    if missing:
        raise PreflightError(missing)
    if config.launcher.name == "slurm":
        from isosweep.launchers.sbatch import require_slurm

        require_slurm()
    if config.launcher.name == "ray":
        from isosweep.launchers.ray import ray_client

        ray_client()


def _missing_program(config: SweepConfig) -> Missing:
    program = config.trainer.command[0]
    if "{" in program or config.launcher.name in ("slurm", "ray") or shutil.which(program):
        return []
    return [(f"the program {program} of trainer.command", "install it, or name its path")]


def _preflight_training(
    config: SweepConfig, variants: Sequence[ChosenVariant], missing: Missing
) -> None:
    """What isosweep's own worker needs, beside what is `missing` already."""
    missing += _missing_packages("torch", "trl", "transformers", "datasets")
    missing += missing_for_vllm(config, variants)
    missing += _missing_for_training(config, variants)
    tasks = [each.task for variant in variants for each in evaluations(variant.config)]
    missing += _missing_packages(*sorted({name for task in tasks for name in _packages(task)}))
    if any(task.code is not None for task in tasks):
        missing += _missing_sandbox()
    if any(variant.config.recipe.lora_rank is not None for variant in variants):
        missing += _missing_packages("peft")
    if missing:
        # With all else that is missing, so that one download serves for all.
        missing += dict.fromkeys(each for task in tasks for each in _missing_data(task))
        raise PreflightError(missing)
    for variant in variants:
        require_stops(variant.config.generation, variant.config.model)
        try_loss(variant.config)
        # What is wrong with the problems is reported once, not by every worker.
        training = variant.problems.training
        sets = problems_of_sets(variant.config, training)
        firsts = {getattr(problem, "part", None): problem for problem in training}
        firsts |= {name: problems[0] for name, problems in sets.items()}
        require_prompts(variant.config.model, firsts.values())


def missing_devices(config: SweepConfig) -> Missing:
    """What is missing of the GPUs, each with what to do about it; [] if nothing."""
    if config.hardware.device == "cpu":
        return []
    if config.launcher.name == "slurm":
        return _missing_in_jobs(config)
    if config.launcher.name == "ray":
        return []
    return _missing_here(config, visible_devices())


def _missing_in_jobs(config: SweepConfig) -> Missing:
    asked, needed = gpus_of_node(config), config.hardware.node_devices
    if asked >= needed or config.launcher.slurm.gpu_options:
        return []
    what = f"{needed} GPUs in what each job asks for{_on_nodes(config)}, which is {asked}"
    return [(what, f"set launcher.slurm.gpus_per_node={needed}")]


def _on_nodes(config: SweepConfig) -> str:
    return f" on each of its {nodes} nodes" if (nodes := config.hardware.nodes) > 1 else ""


def _missing_here(config: SweepConfig, devices: Devices) -> Missing:
    needed, found = config.hardware.devices_per_run, len(devices.names)
    if found == 0:
        what = f"a GPU ({config.hardware.name}) on this machine: {devices.source}"
        remedy = (
            "run on a GPU machine, submit to a cluster with launcher=slurm, or set hardware=cpu"
        )
        return [(what, remedy)]
    if found < needed:
        what = f"{needed} GPUs for a run, of {devices.described()}"
        return [(what, f"set hardware.devices_per_run={found}")]
    if needed > 1 and devices.names[0].startswith("MIG-"):
        # "Only single MIG instance enumeration is supported" (CUDA C++ Programming Guide).
        what = f"{needed} GPUs that one run can see, where CUDA shows a process one MIG instance"
        return [(f"{what}; {devices.described()}", "set hardware.devices_per_run=1")]
    return _missing_places(config, devices)


def _missing_places(config: SweepConfig, devices: Devices) -> Missing:
    """Whether `launcher.max_parallel` runs have a place: one too many would share its devices."""
    wanted, needed = config.launcher.max_parallel, config.hardware.devices_per_run
    places = len(devices.names) // needed
    if wanted is None or wanted <= places:
        return []
    what = f"GPUs for {wanted} runs at once, {needed} each, of {devices.described()}"
    return [(what, f"set launcher.max_parallel={places}")]


def _missing_for_training(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """What a policy's training lacks beside the stack: optimiser, attention, host memory."""
    hardware = config.hardware
    missing = []
    optimizer = _OPTIMIZERS.get(hardware.optimizer)
    if optimizer is not None and not importlib.util.find_spec(optimizer):
        remedy = f"pip install {optimizer}, or set hardware.optimizer=adamw"
        missing.append((f"the package {optimizer} (hardware.optimizer)", remedy))
    kernels = _KERNELS.get(hardware.attention)
    if kernels is not None and not importlib.util.find_spec(kernels):
        remedy = "install it, or set hardware.attention=sdpa"
        missing.append((f"the package {kernels} (hardware.attention={hardware.attention})", remedy))
    return missing + _missing_host_memory(config, variants)


def _missing_host_memory(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """Whether one run of each variant loads on its host."""
    needed = max(
        host_bytes(v.config.model.architecture, v.config.recipe, config.hardware).total
        for v in variants
    )
    needed /= 1e9
    launcher = config.launcher
    asked = {"slurm": launcher.slurm.mem_gb, "ray": launcher.ray.mem_gb}
    if launcher.name in asked:
        given = asked[launcher.name]
        if given is None or needed <= given:
            return []
        each = f"in each job{_on_nodes(config)}"
        what = f"{needed:,.1f} GB of host memory {each}, which asks for {given:g}"
        planned = max(memory_gb(v.config) for v in variants)
        return [(what, f"set launcher.{launcher.name}.mem_gb={planned}")]
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if needed <= here:
        return []
    what = f"{needed:,.1f} GB of host memory to load a run, where this machine has {here:,.1f}"
    return [(what, "a smaller model, hardware.sharding=fsdp, or a machine with more memory")]


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


def _missing_data(task: TaskConfig) -> Missing:
    """A dataset that no earlier load has left here; the hub, which may have it, is not asked."""
    if task.rows is None or _missing_packages("datasets", "pyarrow"):
        return []
    from isosweep.tasks.rows import is_cached, other_data

    if is_cached(task.rows):
        return []
    return [(f"the dataset {task.rows.dataset} in the local cache", other_data(task.rows))]


def _missing_sandbox() -> Missing:
    """What keeps this machine from running programs that nobody has read; nodes may differ."""
    from isosweep.tasks.code import missing_sandbox

    why = missing_sandbox()
    if why is None:
        return []
    remedy = (
        "run on Linux with libseccomp and seccomp filters, which a container must not forbid; "
        "task=code has no other way to run programs"
    )
    return [(f"a sandbox for programs (task=code): {why}", remedy)]


def _missing_packages(*names: str, extra: str = "train") -> Missing:
    return [
        (f"the package {name}", f"pip install 'isosweep[{extra}]'")
        for name in names
        if importlib.util.find_spec(name) is None
    ]


def require_packages(*names: str) -> None:
    """Raise PreflightError where this installation lacks one of these packages."""
    if missing := _missing_packages(*names):
        raise PreflightError(missing)
