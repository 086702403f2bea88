"""Where runs execute, and who trains them."""

import re
import shlex
import signal
import string
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from isosweep.config.base import (
    Listed,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Settings,
    close,
    load,
    or_empty,
)
from isosweep.config.identity import OUTSIDE
from isosweep.config.study import ImportConfig
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
            if "\n" in str(value) or value == "" or isinstance(value, list | dict):
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


class RayConfig(Settings, group="launcher.ray"):
    """Resources of a job on its node. GPUs are those of a run."""

    cpus: PositiveInt = 8
    """CPU cores of a job."""
    mem_gb: PositiveInt = 32
    """Host memory of a job, in GB."""


class LauncherConfig(Settings, group="launcher"):
    """Where runs execute, and how many at once."""

    name: Literal["local", "slurm", "ray", "inline"]
    """`local`: this machine. `slurm`: jobs of a Slurm cluster. `ray`: jobs of a Ray
    cluster. `inline`: this process, one run after another."""
    max_parallel: PositiveInt | None = None
    """Most runs at once; null: as many as GPUs or CPU cores have room for (`local`), or all
    (`slurm`, `ray`)."""
    confirm_above: Positive | None = 100.0
    """Predicted device-hours above which a terminal asks before launching; null: never."""
    max_device_hours: Positive | None = None
    """Predicted device-hours above which nothing is launched; null: no limit."""
    max_retries: NonNegativeInt = 2
    """How often a failed run is tried again; one that refuses its weights or a score is not."""
    stop_grace_s: Positive = 60.0
    """Seconds for a stopped run to write a checkpoint."""
    stuck_after: Positive | None = None
    """Seconds without progress after which a run is ended and tried again; null: 20 planned steps
    or evaluations, whichever take longer, and at least half an hour. A worker that loads its model
    always has at least half an hour."""
    on_finish: str | None = None
    """Command that is run when a followed sweep ends, fails or is interrupted, without a shell.
    ISOSWEEP_SWEEP_DIR, _STATUS, _REPORT, _DONE and _FAILED are in its environment."""
    slurm: SlurmConfig = Field(default_factory=SlurmConfig)
    """What each job asks for, with `launcher=slurm`."""
    ray: RayConfig = Field(default_factory=RayConfig)
    """What each job asks for, with `launcher=ray`."""


def overridden(
    stored: LauncherConfig, asked: LauncherConfig, given: Sequence[str]
) -> LauncherConfig:
    """`stored`, with those of the settings named in `given` (`launcher.slurm.qos`) of `asked`.

    A launcher that is given itself counts with all its settings.
    """
    if "launcher" in given:
        return asked
    plain, wanted = stored.model_dump(), asked.model_dump()
    for name in given:
        if not name.startswith("launcher."):
            continue
        *groups, last = name.split(".")[1:]
        target: dict[str, Any] = plain
        source: dict[str, Any] = wanted
        for group in groups:
            target, source = target[group], source[group]
        if last in source:
            target[last] = source[last]
        else:
            # Taken away, as by `~launcher.slurm.additional.exclusive`.
            target.pop(last, None)
    return load(LauncherConfig, plain)


# What a command's texts may name of a run.
NAMES = (
    *("n", "B", "completions", "T", "every", "seed", "learning_rate"),
    *("model", "directory", "python"),
)
RESUME_FROM, STEP = "resume_from", "step"


def _words(value: Any) -> Any:
    return shlex.split(value or "") if isinstance(value, str | None) else value


def _texts(value: Any) -> Any:
    """Numbers as the text that a variable is."""
    if not isinstance(value, dict):
        return value
    return {k: str(v) if type(v) in (int, float) else v for k, v in value.items()}


class TrainerConfig(Settings, group="trainer"):
    """Who trains the runs. A command may contain `{n}`, `{B}`, `{completions}` (n x B), `{T}`,
    `{every}` (a tenth of T), `{seed}`, `{learning_rate}`, `{model}` (directory of weights),
    `{directory}` (of this attempt) and `{python}`; see docs/trainers.md."""

    name: Literal["trl", "command"] = "trl"
    """`trl`: TRL, in isosweep's worker. `command`: your command."""
    command: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """The command: its words, or one line. No shell reads it."""
    more: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """Further words at its end, for what a packaged command leaves open."""
    resume: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """Further words to continue from the checkpoint `{resume_from}`."""
    environment: Annotated[dict[str, str] | None, BeforeValidator(_texts)] = None
    """Further environment variables: {NAME: value}."""
    log: str = "{directory}"
    """Its log: a file or directory that `mode=import` can read."""
    columns: ImportConfig | None = None
    """What its log's columns are, as settings of `import`: {columns: {reward: val/acc}}."""
    checkpoints: str | None = None
    """Its checkpoints below `{directory}`, with `{step}` in the name, such as `checkpoint-{step}`,
    or the file in each that is written last; null: it cannot continue."""
    stop_signal: Annotated[Literal["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"], OUTSIDE] = "SIGTERM"
    """Signal that asks it to stop; all processes that it started get it."""
    stop_grace_s: Annotated[Positive, OUTSIDE] = 60.0
    """Seconds from that signal until it is killed."""
    poll_s: Annotated[Positive, OUTSIDE] = 5.0
    """Seconds between two looks at its log."""

    def _check(self) -> None:
        if self.name != "command":
            return
        if not self.command:
            rule = "trainer=command takes the command that trains a run"
            raise SettingError("trainer.command", "null", rule, _EXAMPLE)
        self._check_names("command", self.command, NAMES)
        self._check_names("more", self.more, NAMES)
        self._check_names("resume", self.resume, (*NAMES, RESUME_FROM))
        self._check_names("environment", (self.environment or {}).values(), NAMES)
        self._check_names("log", [self.log], NAMES)
        if "{directory}" not in self.log:
            rule = "would be the same file for several runs or attempts: it lies in {directory}"
            raise SettingError("trainer.log", self.log, rule, "{directory}/log.jsonl")
        if self.checkpoints is not None and f"{{{STEP}}}" not in self.checkpoints:
            rule = "says by {step} which step each checkpoint is of"
            raise SettingError("trainer.checkpoints", self.checkpoints, rule, "checkpoint-{step}")
        if (self.checkpoints is None) is not (not self.resume):
            rule = "go together: where checkpoints lie, and how the command resumes"
            given = self.checkpoints or "null"
            raise SettingError("trainer.checkpoints", given, f"and trainer.resume {rule}")

    def _check_names(self, setting: str, texts: Iterable[str], known: tuple[str, ...]) -> None:
        for text in texts:
            try:
                named = [
                    name for _, name, _, _ in string.Formatter().parse(text) if name is not None
                ]
            except ValueError as error:
                rule = f"{error}; a brace of its own is written twice"
                raise SettingError(f"trainer.{setting}", text, rule) from None
            for name in named:
                if name not in known:
                    rule = f"names {{{name}}}, and a run has {', '.join(known)}"
                    nearest = text.replace(f"{{{name}}}", f"{{{close(name, known, 1)[0]}}}")
                    raise SettingError(f"trainer.{setting}", text, rule, nearest)

    def names(self, name: str) -> bool:
        """Whether the command or its environment has the placeholder `{name}`."""
        texts = (*self.command, *self.more, *(self.environment or {}).values())
        return any(f"{{{name}}}" in text for text in texts)

    @property
    def signal(self) -> signal.Signals:
        """The signal that asks it to stop."""
        return signal.Signals[self.stop_signal]


_EXAMPLE = """"trainer.command='python train.py --n {n} --batch {B} --steps {T}'\""""
