"""What is handed to sbatch: the resources of each run's job, and the text of an array of them."""

import math
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from submitit.slurm.slurm import _make_sbatch_string

from isosweep.commands import call
from isosweep.config.slurm import SlurmConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.costs.host import host_bytes
from isosweep.costs.memory import PRECISION_BYTES
from isosweep.errors import PreflightError, SettingError
from isosweep.plan.cells import PlannedRun, predicted

# An allowance for predicted times, which no GPU has been compared with yet; what a job does before
# its first step, as loading a model over a busy network, comes on top.
_TIME_FACTOR, _TIME_MARGIN_MIN = 1.5, 15
# Hours that limits are rounded up to, so that runs of about the same length share an array; beyond
# the last one to multiples of it.
_LIMITS_H = (0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 96, 120, 168)
# `costs.host` counts weights and states: libraries of CUDA and of an engine come on top, for each
# process, and pages of files that are read count as the job's until they are needed.
_MEMORY_FACTOR, _GPU_PROCESS_BYTES = 1.5, 4e9
# The signal comes up to 60 s early (sbatch(1), --signal): less lead has no use.
_LEAST_LEAD_S = 60
# A checkpoint is written at no less than this by a shared file system that is busy, in bytes per
# second: a quarter of one 10-gigabit link.
_CHECKPOINT_BYTES_PER_S = 0.3e9
# slurm.h has the signal's time in 16 bits.
_MOST_LEAD_S = 65535
# srun ends all tasks of a run when one fails. When the first has ended well, the others have as
# long as a checkpoint may take (srun(1)).
_TOGETHER = ("--kill-on-bad-exit=1", "--wait=900")
# sbatch's options for memory: one excludes the others.
_MEMORY_OPTIONS = ("mem", "mem_per_cpu", "mem_per_gpu")


@dataclass(frozen=True, kw_only=True, order=True)
class Shape:
    """What a job asks for, beyond what all jobs of a sweep do: runs of one shape share arrays.

    `memory_mb`: host memory on each of its nodes. `lead_s`: how long before its time limit the job
    is told to write a checkpoint.
    """

    timeout_min: int
    memory_mb: int
    lead_s: int


def largest(shapes: Iterable[Shape]) -> Shape:
    """What has room for jobs of any of `shapes`."""
    timeouts, memories, leads = zip(*(astuple(shape) for shape in shapes), strict=True)
    return Shape(timeout_min=max(timeouts), memory_mb=max(memories), lead_s=max(leads))


def gpus_of_node(config: SweepConfig) -> int:
    """GPUs that each job asks for by `--gpus-per-node`: those of its run on one node, unless the
    settings say otherwise; 0 where it asks for none, or by an option of its own."""
    slurm, hardware = config.launcher.slurm, config.hardware
    if slurm.gpus_per_node is not None:
        return slurm.gpus_per_node
    return hardware.node_devices if hardware.device == "cuda" and not slurm.gpu_options else 0


def shape_of(config: SweepConfig, run: PlannedRun, longest_min: float = math.inf) -> Shape:
    """What the job of `run` asks for, by the settings and where they leave it open by the plan.

    `config`: of the run's own variant; `longest_min`: minutes that the partition allows.
    """
    slurm = config.launcher.slurm
    minutes = slurm.timeout_min
    if minutes is None:
        planned = predicted(run.seconds) / 60 * _TIME_FACTOR + _TIME_MARGIN_MIN
        weeks = math.ceil(planned / 60 / _LIMITS_H[-1]) * _LIMITS_H[-1]
        hours = next((limit for limit in _LIMITS_H if planned <= limit * 60), weeks)
        minutes = max(1, math.floor(min(longest_min, hours * 60)))
    memory = slurm.mem_gb if slurm.mem_gb is not None else memory_gb(config)
    return Shape(timeout_min=minutes, memory_mb=round(memory * 1024), lead_s=_lead_s(run, minutes))


def memory_gb(config: SweepConfig) -> int:
    """Host memory of a job on each of its nodes as planned, in whole GB."""
    hardware, generation = config.hardware, config.generation
    planned = host_bytes(config.model.architecture, config.recipe, hardware).total
    ranks = hardware.node_devices
    processes = ranks if hardware.device == "cuda" else 0
    if generation.name == "vllm":
        # An engine is a process of its own, whose weights sleep in host memory.
        processes *= 2
        if generation.sleep:
            compute = PRECISION_BYTES[hardware.dtype]
            engines = ranks / generation.tensor_parallel
            planned += engines * config.model.architecture.parameters * compute
    return math.ceil((planned * _MEMORY_FACTOR + processes * _GPU_PROCESS_BYTES) / 1e9)


def _lead_s(run: PlannedRun, timeout_min: int) -> int:
    """The rest of a step and a checkpoint, at worst, in a minute times a power of two; at most half
    of the job's time: a step longer than that goes on from the last periodic checkpoint."""
    step = predicted(run.seconds) / run.num_steps * _TIME_FACTOR
    needed = _LEAST_LEAD_S + step + run.checkpoint_bytes / _CHECKPOINT_BYTES_PER_S
    lead = _LEAST_LEAD_S << math.ceil(math.log2(needed / _LEAST_LEAD_S))
    return min(lead, timeout_min * 60 // 2, _MOST_LEAD_S)


def sbatch_text(
    config: SweepConfig,
    shape: Shape,
    name: str,
    directory: Path,
    tasks: Sequence[int],
    *,
    parallel: int | None = None,
    after: Sequence[str] = (),
) -> str:
    """The script of an array of `tasks`, each of which has a link to its logs in `directory`.

    `parallel`: how many run at once, None: all. `after`: jobs that have to end before.
    """
    directory = directory.absolute()
    if not str(directory).isprintable():
        rule = "has a control character in it, which ends a line of the job's script"
        raise SettingError("sweep_dir", str(directory), rule, "a directory of another name")
    slurm = config.launcher.slurm
    own = ("setup", "python", "additional")
    require_own({f"launcher.slurm.{name}": getattr(slurm, name) for name in own})
    python = shlex.quote(sys.executable) if slurm.python is None else slurm.python
    # A command starts its own processes.
    tasks_per_node = config.run_hardware.node_devices if config.trainer.name == "trl" else 1
    # What comes after `%` is replaced in a pattern (sbatch(1)).
    logs = Path(str(directory).replace("%", "%%")) / "%a"
    parameters: dict[str, Any] = {
        "job_name": name,
        "time": shape.timeout_min,
        "nodes": config.hardware.nodes,
        "ntasks_per_node": tasks_per_node,
        "cpus_per_task": slurm.cpus_per_task,
        "mem": f"{shape.memory_mb}M",
        "gpus_per_node": gpus_of_node(config) or None,
        "dependency": ":".join(["afterany", *after]) if after else None,
    }
    further = _further(slurm, shape)
    further["array"] = f"{ranges(tasks)}%{min(parallel or len(tasks), len(tasks))}"
    if any(option in further for option in _MEMORY_OPTIONS):
        del parameters["mem"]
    left_out = [option for option, value in further.items() if value is False]
    parameters = {key: value for key, value in parameters.items() if key not in left_out}
    together = _TOGETHER if config.hardware.nodes * tasks_per_node > 1 else ()
    worker = f"{python} -u -P -m isosweep.training {shlex.quote(str(directory))}"
    return submitit_script(
        command=f"{worker}/$SLURM_ARRAY_TASK_ID",
        folder=logs,
        setup=list(slurm.setup) or None,
        map_count=len(tasks),
        additional_parameters={k: v for k, v in further.items() if v is not False},
        # Not inherited from the job since Slurm 22.05 (its release notes).
        srun_args=[f"--cpus-per-task={slurm.cpus_per_task}", *together],
        **parameters,
    )


# Lines by which submitit knows jobs of its own executor, which these are not.
_MARKS = ("#SBATCH --wckey=submitit\n", "export SUBMITIT_EXECUTOR=slurm\n")


def submitit_script(**parameters: Any) -> str:
    """submitit's script of a job, without its marks: all that is used of submitit, and private.

    Its executor would pickle each job into the sweep's directory, where nothing is executed from.
    """
    with warnings.catch_warnings():
        # Of options that are said to need others: sbatch tells what it does not take.
        warnings.simplefilter("ignore")
        text = _make_sbatch_string(**parameters)
    for mark in _MARKS:
        text = text.replace(mark, "")
    return text


def _further(slurm: SlurmConfig, shape: Shape) -> dict[str, Any]:
    """Options that are handed on as they are, by name with underscores."""
    further: dict[str, Any] = {
        **site_options(slurm),
        **slurm.named,
        "signal": f"USR2@{shape.lead_s}",
        ("requeue" if slurm.requeue else "no_requeue"): True,
    }
    for option, value in slurm.additional.items():
        further[option.replace("-", "_")] = True if value is None else value
    return further


def ranges(tasks: Sequence[int]) -> str:
    """Ascending numbers as sbatch takes them: `0-3,7`."""
    parts: list[list[int]] = []
    for task in tasks:
        if parts and task == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], task]
        else:
            parts.append([task])
    return ",".join("-".join(map(str, part)) for part in parts)


# What sites export for all jobs of their users: without it sbatch may refuse the job, or charge
# somebody else. Of sbatch's other variables none is heeded (`isosweep.commands`).
_OF_SITE = ("account", "partition", "qos", "reservation")


def site_options(slurm: SlurmConfig) -> dict[str, str]:
    """Options of sbatch that its variables in the environment give, and no setting."""
    given = {**slurm.named, **slurm.additional}
    found = {option: os.environ.get(f"SBATCH_{option.upper()}") for option in _OF_SITE}
    return {option: value for option, value in found.items() if value and option not in given}


def longest_minutes(slurm: SlurmConfig) -> float:
    """Minutes that a job may take in the strictest of its partitions; infinite without a limit."""
    longest = [math.inf]
    named = {**site_options(slurm), **slurm.named}.get("partition", "").split(",")
    for line in call(["scontrol", "show", "partition", "--oneliner"]).output.splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split())
        ours = fields["PartitionName"] in named if any(named) else fields.get("Default") == "YES"
        found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", fields.get("MaxTime", ""))
        if ours and found is not None:
            days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
            longest.append(days * 1440 + hours * 60 + minutes + seconds / 60)
    return min(longest)


def require_slurm() -> None:
    """Raise PreflightError where Slurm's commands are missing."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        remedy = "run on a login node of the cluster, or set launcher=local"
        raise PreflightError([(f"Slurm's {', '.join(missing)}", remedy)])
