"""Where runs execute."""

import re
from dataclasses import field
from typing import Any, Literal

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, Whole
from isosweep.errors import SettingError

# Options of sbatch that ask for GPUs, and those that may (its manual page).
_GPU_OPTIONS = ("gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")
_RESOURCE_OPTIONS = ("gres", "tres_per_node", "tres_per_socket", "tres_per_task", "tres_per_job")


@settings("launcher.slurm")
class SlurmConfig:
    """What each Slurm job asks for."""

    partition: str | None = None
    """Partition; null: the cluster's default."""
    account: str | None = None
    """Account that is charged; null: the user's default."""
    qos: str | None = None
    """Quality of service; null: the account's default."""
    timeout_min: PositiveInt = 240
    """Time limit of one job, in minutes."""
    max_requeues: Whole = 3
    """Further jobs that a run may take after one that reached `timeout_min`."""
    cpus_per_task: PositiveInt = 8
    """CPU cores of a job."""
    mem_gb: Positive | None = None
    """Host memory of a job, in GB; null: the partition's default."""
    gpus_per_node: NonNegativeInt | None = None
    """GPUs of a job; null: those of a run, unless `additional` asks for some."""
    setup: Listed[str] = field(default_factory=list)
    """Shell lines that run before the worker."""
    additional: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch, passed as they are."""

    def __post_init__(self) -> None:
        asked = self.gpu_options
        if asked and self.gpus_per_node is not None:
            name = "launcher.slurm.gpus_per_node"
            rule = f"launcher.slurm.additional asks for GPUs too: {', '.join(asked)}"
            raise SettingError(name, self.gpus_per_node, rule, f"{name}=null")

    @property
    def gpu_options(self) -> tuple[str, ...]:
        """The options of `additional` that ask for GPUs, as `name=value`."""
        options = {name.replace("-", "_"): value for name, value in self.additional.items()}
        return tuple(
            f"{name}={value}"
            for name, value in options.items()
            if name in _GPU_OPTIONS
            or (name in _RESOURCE_OPTIONS and re.search(r"\b(gpu|shard|mps)\b", str(value)))
        )


@settings("launcher")
class LauncherConfig:
    """Where runs execute, and how many at once."""

    name: Literal["local", "slurm"]
    """This machine, or jobs of a Slurm cluster."""
    max_parallel: PositiveInt | None = None
    """Runs at once; null: as many as the GPUs, or the cores of a CPU machine, have room for
    (`local`), or all (`slurm`)."""
    runs_per_device: PositiveInt = 1
    """Runs of one GPU each that share it: each is planned with its part of memory and speed."""
    confirm_above: Positive | None = 100.0
    """Predicted device-hours above which a terminal is asked before they are spent; null: never."""
    max_device_hours: Positive | None = None
    """Predicted device-hours above which nothing is launched; null: no limit."""
    max_retries: NonNegativeInt = 2
    """Times that a run which fails is tried again."""
    stop_grace_s: Positive = 60.0
    """Seconds that a stopped run is given to write a checkpoint."""
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    """What each job asks for, with `launcher=slurm`."""
