"""What each Slurm job asks for, and how Slurm is asked."""

import re
from dataclasses import field
from typing import Annotated, Any

from pydantic import BeforeValidator

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, Whole, or_empty
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
    "launcher.slurm.comment",
)


@settings("launcher.slurm")
class SlurmConfig:
    """Options of each Slurm job; most have sbatch's names."""

    partition: Listed[str] | None = None
    """Partition, or several: the job takes the one where it starts first; null: the cluster's
    default."""
    account: str | None = None
    """Account to charge; null: the user's default."""
    qos: str | None = None
    """Quality of service; null: the account's default."""
    constraint: str | None = None
    """Required features of the node, such as `h100|h200`."""
    gres: str | None = None
    """Generic resources of the job, such as `gpu:h100:1`."""
    exclude: str | None = None
    """Nodes not to use, such as `node[3-5],node9`."""
    nodelist: str | None = None
    """Nodes to use."""
    reservation: str | None = None
    """Reservation whose nodes are used."""
    mail_type: str | None = None
    """Events that Slurm sends mail about, such as `END,FAIL`; for arrays, of the whole array."""
    mail_user: str | None = None
    """Receiver of that mail; null: the user who submits."""
    comment: str | None = None
    """The job's comment, which some sites require."""
    timeout_min: PositiveInt | None = None
    """Time limit of one job, in minutes; null: 1.5 times the predicted time of the run, at most the
    partition's limit."""
    requeue: bool = True
    """Let Slurm start a job again after a preemption, a node failure or its time limit. It writes a
    checkpoint before the limit."""
    max_requeues: Whole | None = None
    """Most further jobs of `timeout_min` that a run may be planned to need; null: any number."""
    cpus_per_task: PositiveInt = 8
    """CPU cores of a job, on each of its nodes."""
    mem_gb: Positive | None = None
    """Host memory of a job on each of its nodes, in GB; null: what the plan predicts."""
    gpus_per_node: NonNegativeInt | None = None
    """GPUs of a job on each of its nodes; null: those of a run, unless `gres` or `additional` sets
    them."""
    setup: Listed[str] = field(default_factory=list)
    """Shell lines that run before the worker."""
    python: str | None = None
    """Command that starts Python on a node, such as `apptainer exec --nv image.sif python`; null:
    the interpreter that submits."""
    use_srun: bool = True
    """Start the worker with srun, as a step of the job; false: from the batch script."""
    srun_args: Listed[str] = field(default_factory=list)
    """Further options of srun, such as `--container-image=IMAGE`."""
    additional: Annotated[dict[str, Any], BeforeValidator(or_empty)] = field(default_factory=dict)
    """Further options of sbatch; null: an option without a value; false: an option to leave out."""
    command_timeout_s: Positive = 60.0
    """Seconds to wait for a command of Slurm."""

    def __post_init__(self) -> None:
        asked = self.gpu_options
        if asked and self.gpus_per_node is not None:
            rule = f"{asked[0].partition('=')[0]} asks for GPUs too: {', '.join(asked)}"
            raise SettingError("launcher.slurm.gpus_per_node", self.gpus_per_node, rule)
        for option, value in self.additional.items():
            name = f"launcher.slurm.additional.{option}"
            if (instead := _OWN_OPTIONS.get(option.replace("-", "_"))) is not None:
                rule = f"isosweep sets this option of sbatch itself, by {instead}"
                raise SettingError(name, value, rule)
        for name, value in self.named.items():
            if "\n" in str(value) or value == "":
                rule = "goes on one line of the job's script, and has to be some text, or null"
                raise SettingError(f"launcher.slurm.{name}", repr(value), rule)

    @property
    def named(self) -> dict[str, str]:
        """Options of sbatch that have a setting of the same name, where it is given."""
        names = (
            *("account", "qos", "constraint", "gres", "exclude", "nodelist"),
            *("reservation", "mail_type", "mail_user", "comment"),
        )
        options = {name: getattr(self, name) for name in names}
        options["partition"] = None if self.partition is None else ",".join(self.partition)
        return {name: value for name, value in options.items() if value is not None}

    @property
    def gpu_options(self) -> tuple[str, ...]:
        """The options of `gres` and `additional` that ask for GPUs, as `name=value`."""
        options = {name.replace("-", "_"): value for name, value in self.additional.items()}
        if self.gres is not None:
            options["gres"] = self.gres
        return tuple(
            f"{name}={value}"
            for name, value in options.items()
            if name in _GPU_OPTIONS
            or (name in _RESOURCE_OPTIONS and re.search(r"\b(gpu|shard|mps)\b", str(value)))
        )
