"""What each Slurm job asks for, and how Slurm is asked."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from isosweep.config.base import Settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, or_empty
from isosweep.errors import SettingError

# Options of sbatch that ask for GPUs, and those that may (its manual page).
_GPU_OPTIONS = ("gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")
_RESOURCE_OPTIONS = ("gres", "tres_per_node", "tres_per_socket", "tres_per_task", "tres_per_job")
# Options of sbatch that a run's job cannot do with otherwise, and the setting to use instead.
_OWN_OPTIONS = {
    "array": "launcher.max_parallel",
    "time": "launcher.slurm.timeout_min",
    "signal": "launcher.slurm.timeout_min",
    "requeue": "launcher.slurm.requeue",
    "no_requeue": "launcher.slurm.requeue",
    "ntasks": "hardware.devices_per_run",
    "ntasks_per_node": "hardware.devices_per_run",
    "nodes": "hardware.nodes_per_run",
} | dict.fromkeys(
    ("job_name", "output", "error", "input", "open_mode", "parsable", "wait", "wrap", "test_only"),
    "",
)


class SlurmConfig(Settings, group="launcher.slurm"):
    """Options of each Slurm job; most have sbatch's names."""

    partition: Listed[str] | None = None
    """Partition, or several: the job takes the one where it starts first; null: the cluster's
    default."""
    account: str | None = None
    """Account to charge; null: the user's default."""
    qos: str | None = None
    """Quality of service; null: the account's default."""
    timeout_min: PositiveInt | None = None
    """Time limit of one job, in minutes; null: 1.5 times the predicted time of the run, at most the
    partition's limit."""
    requeue: bool = True
    """Let Slurm start a job again after a preemption, a node failure or its time limit. It writes a
    checkpoint before the limit."""
    cpus_per_task: PositiveInt = 8
    """CPU cores of each task: a run has one for each of its devices."""
    mem_gb: Positive | None = None
    """Host memory of a job on each of its nodes, in GB; null: what the plan predicts."""
    gpus_per_node: NonNegativeInt | None = None
    """GPUs of a job on each of its nodes; null: those of a run, unless `additional` asks for
    GPUs."""
    setup: Listed[str] = Field(default_factory=list)
    """Shell lines that run before the worker."""
    python: str | None = None
    """Command that starts Python on a node, such as `apptainer exec --nv image.sif python`; null:
    the interpreter that submits."""
    additional: Annotated[dict[str, Any], BeforeValidator(or_empty)] = Field(default_factory=dict)
    """Further options of sbatch, such as `{constraint: h100, mail-type: END}`; null: an option
    without a value; false: an option to leave out."""

    def _check(self) -> None:
        asked = self.gpu_options
        if asked and self.gpus_per_node is not None:
            rule = f"{asked[0].partition('=')[0]} asks for GPUs too: {', '.join(asked)}"
            raise SettingError("launcher.slurm.gpus_per_node", self.gpus_per_node, rule)
        for option, value in self.additional.items():
            if (own := option.replace("-", "_")) in _OWN_OPTIONS:
                rule = "isosweep sets this option of sbatch itself"
                instead = _OWN_OPTIONS[own]
                rule += f", by {instead}" if instead else ""
                raise SettingError(f"launcher.slurm.additional.{option}", value, rule)
        further = {f"additional.{option}": value for option, value in self.additional.items()}
        for name, value in {**self.named, **further}.items():
            if "\n" in str(value) or value == "":
                rule = "goes on one line of the job's script, and has to be some text, or null"
                raise SettingError(f"launcher.slurm.{name}", repr(value), rule)

    @property
    def named(self) -> dict[str, str]:
        """Options of sbatch that have a setting of the same name, where it is given."""
        options = {"account": self.account, "qos": self.qos}
        options["partition"] = None if self.partition is None else ",".join(self.partition)
        return {name: value for name, value in options.items() if value is not None}

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
