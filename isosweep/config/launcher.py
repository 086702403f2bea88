"""Where runs execute."""

from dataclasses import field
from typing import Any, Literal

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, Whole


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
    gpus_per_node: NonNegativeInt = 0
    """GPUs of a job."""
    setup: Listed[str] = field(default_factory=list)
    """Shell lines that run before the worker."""
    additional: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch, passed as they are."""


@settings("launcher")
class LauncherConfig:
    """Where runs execute, and how many at once."""

    name: Literal["local", "slurm"]
    """This machine, or jobs of a Slurm cluster."""
    max_parallel: PositiveInt | None = None
    """Runs at once; null: one per GPU, or per core on a CPU machine (`local`), or all (`slurm`)."""
    max_retries: NonNegativeInt = 2
    """Times that a run which fails is tried again."""
    stop_grace_s: Positive = 60.0
    """Seconds that a stopped run is given to write a checkpoint."""
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    """What each job asks for, with `launcher=slurm`."""
