"""What is handed to sbatch: the resources of each run's job, and the script of an array of them."""

import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from submitit import SlurmExecutor

from isosweep.commands import call
from isosweep.config.launcher import SlurmConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.costs.memory import PRECISION_BYTES, host_bytes
from isosweep.errors import PreflightError, SettingError
from isosweep.plan.cells import PlannedRun, predicted

# An allowance for predicted times, which no GPU has been compared with yet; what a job does before
# its first step, as loading a model over a busy network, comes on top.
_TIME_FACTOR, _TIME_MARGIN_MIN = 1.5, 15
# Hours that limits are rounded up to, so that runs of about the same length share an array. A run
# that takes longer is a chain of jobs.
_LIMITS_H = (0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 96, 120, 168)
# `host_bytes` counts weights and states: libraries of CUDA and of an engine come on top, for each
# process, and pages of files that are read count as the job's until they are needed.
_MEMORY_FACTOR, _GPU_PROCESS_BYTES = 1.5, 4e9
# The signal comes up to 60 s early (sbatch(1), --signal), and has its time in 16 bits (slurm.h).
_LEAST_LEAD_S, _MOST_LEAD_S = 60, 65535
# A checkpoint is written at no less than this by a shared file system that is busy, in bytes per
# second: a quarter of one 10-gigabit link.
_CHECKPOINT_BYTES_PER_S = 0.3e9
# srun ends all tasks of a run when one fails. When the first has ended well, the others have as
# long as a checkpoint may take (srun(1)).
_TOGETHER = ("--kill-on-bad-exit=1", "--wait=900")
# sbatch's options for memory: one excludes the others.
_MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
# What sites export for all jobs of their users: without it sbatch may refuse the job, or charge
# somebody else. Of sbatch's other variables none is heeded (`isosweep.commands`).
_SITE_OPTIONS = ("account", "partition", "qos", "reservation")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a job asks for, beyond what all jobs of a sweep do: runs of one shape share arrays.

    `memory_mb`: host memory on each of its nodes. `lead_s`: how long before its time limit the job
    is told to write a checkpoint.
    """

    timeout_min: int
    memory_mb: int
    lead_s: int


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
    slurm, planned_s = config.launcher.slurm, predicted(run.seconds) * _TIME_FACTOR
    minutes = slurm.timeout_min
    if minutes is None:
        hours = (planned_s / 60 + _TIME_MARGIN_MIN) / 60
        limit = next((each for each in _LIMITS_H if hours <= each), _LIMITS_H[-1])
        minutes = max(1, math.floor(min(longest_min, limit * 60)))
    memory = slurm.mem_gb if slurm.mem_gb is not None else memory_gb(config)
    # The rest of a step and a checkpoint, at worst, in a minute times a power of two; at most half
    # of the time: a step longer than that goes on from the last periodic checkpoint.
    saving_s = run.checkpoint_bytes / _CHECKPOINT_BYTES_PER_S
    needed_s = _LEAST_LEAD_S + planned_s / run.num_steps + saving_s
    lead_s = _LEAST_LEAD_S << math.ceil(math.log2(needed_s / _LEAST_LEAD_S))
    return Shape(
        timeout_min=minutes,
        memory_mb=round(memory * 1024),
        lead_s=min(lead_s, minutes * 60 // 2, _MOST_LEAD_S),
    )


def memory_gb(config: SweepConfig) -> int:
    """Host memory of a job on each of its nodes as planned, in whole GB."""
    hardware, generation = config.hardware, config.generation
    planned = host_bytes(config.model.architecture, config.recipe, hardware)
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
        raise SettingError("sweep", str(directory), rule, "a directory of another name")
    slurm = config.launcher.slurm
    executed = ("setup", "python", "additional")
    require_own(*((f"launcher.slurm.{each}", getattr(slurm, each)) for each in executed))
    # A command starts its own processes.
    tasks_per_node = config.run_hardware.node_devices if config.trainer.name == "trl" else 1
    # What comes after `%` is replaced in a pattern (sbatch(1)).
    logs = Path(str(directory).replace("%", "%%")) / "%a"
    options: dict[str, object] = {
        "job-name": name,
        "array": f"{ranges(tasks)}%{min(parallel or len(tasks), len(tasks))}",
        "dependency": ":".join(["afterany", *after]) if after else False,
        "time": shape.timeout_min,
        "signal": f"USR2@{shape.lead_s}",
        ("requeue" if slurm.requeue else "no-requeue"): True,
        "nodes": config.hardware.nodes,
        "ntasks-per-node": tasks_per_node,
        "cpus-per-task": slurm.cpus_per_task,
        "gpus-per-node": gpus_of_node(config) or False,
        "mem": f"{shape.memory_mb}M",
        **site_options(slurm),
        **slurm.named,
    }
    additional = {
        option.replace("_", "-"): True if value is None else value
        for option, value in slurm.additional.items()
    }
    if any(option in additional for option in _MEMORY_OPTIONS):
        del options["mem"]
    python = shlex.quote(sys.executable) if slurm.python is None else slurm.python
    worker = f"{python} -u -P -m isosweep.training {shlex.quote(str(directory))}"
    script = _Script(logs)
    script.parameters = {
        "setup": list(slurm.setup) or None,
        # Not inherited from the job since Slurm 22.05 (its release notes).
        "srun_args": [
            f"--cpus-per-task={slurm.cpus_per_task}",
            *(_TOGETHER if config.hardware.nodes * tasks_per_node > 1 else ()),
        ],
        **dict.fromkeys(_DEFAULTS),
        "map_count": len(tasks),
        "additional_parameters": {
            option: value
            for option, value in {**options, **additional}.items()
            if value is not False
        },
    }
    text: str = script._make_submission_file_text(f"{worker}/$SLURM_ARRAY_TASK_ID", uid="")
    return text


# What submitit gives sbatch unasked, and is given by its name in `options`.
_DEFAULTS = ("job_name", "time", "nodes", "wckey")


class _Script(SlurmExecutor):
    """The batch script as submitit's executor writes it, for all that subclass it.

    The rest of that executor does not serve: it pickles what is executed into the sweep's
    directory, and learns how jobs end from Slurm's accounting.
    """

    @classmethod
    def affinity(cls) -> int:
        """A script can be looked at where there is no Slurm too."""
        return 1


def ranges(tasks: Sequence[int]) -> str:
    """Ascending numbers as Slurm takes them: `0-3,7`."""
    parts: list[list[int]] = []
    for task in tasks:
        if parts and task == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], task]
        else:
            parts.append([task])
    return ",".join("-".join(map(str, part)) for part in parts)


def site_options(slurm: SlurmConfig) -> dict[str, str]:
    """Options of sbatch that its variables in the environment give, and no setting."""
    given = {**slurm.named, **slurm.additional}
    found = {option: os.environ.get(f"SBATCH_{option.upper()}") for option in _SITE_OPTIONS}
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
