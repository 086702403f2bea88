"""Where runs execute."""

from dataclasses import dataclass, field
from typing import Any

from isosweep.config.rules import one_of, positive, require


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """What each Slurm job asks for. `additional` is passed to sbatch as it is.

    A run may go on in `max_requeues` further jobs when one reaches `timeout_min`.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    timeout_min: int = 240
    max_requeues: int = 3
    cpus_per_task: int = 8
    mem_gb: float | None = None
    gpus_per_node: int = 0
    setup: list[str] = field(default_factory=list)
    additional: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive("launcher.slurm", self, "timeout_min", "cpus_per_task", "mem_gb")
        rule = "must be 0 or more"
        value = self.gpus_per_node
        require(
            value >= 0,
            "launcher.slurm.gpus_per_node",
            value,
            rule,
            "launcher.slurm.gpus_per_node=0",
        )


@dataclass(frozen=True, kw_only=True)
class LauncherConfig:
    """Where runs execute. `max_parallel` null: one run per GPU, or per core on a CPU machine
    (`local`); every run at once (`slurm`). A run that fails is tried `max_retries` more times."""

    name: str
    max_parallel: int | None = None
    max_retries: int = 2
    stop_grace_s: float = 60.0
    slurm: SlurmConfig = field(default_factory=SlurmConfig)

    def __post_init__(self) -> None:
        one_of("launcher.name", self.name, ("local", "slurm"))
        positive("launcher", self, "max_parallel", "stop_grace_s")
        rule = "must be 0 or more"
        require(
            self.max_retries >= 0,
            "launcher.max_retries",
            self.max_retries,
            rule,
            "launcher.max_retries=0",
        )
