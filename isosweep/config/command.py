"""Commands by which any scheduler is given jobs, asked for them, and told to end them."""

import re
from dataclasses import field
from typing import Annotated, Any

from pydantic import BeforeValidator

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, Whole, or_empty
from isosweep.errors import SettingError

# What may stand in braces in a command or a file, and what takes its place.
PLACEHOLDERS = {
    "script": "a shell script that runs the job; its output goes into {logs}",
    "submission": "the file that says what the job is to do",
    "python": "the interpreter that runs it",
    "name": "a name that no other submission has: letters, digits and hyphens",
    "run_id": "the run",
    "run_dir": "the run's directory",
    "logs": "the directory of the submission's logs",
    "nodes": "hardware.nodes_per_run; each has {gpus}, {cpus} and {mem_gb}",
    "gpus": "launcher.command.gpus",
    "cpus": "launcher.command.cpus",
    "mem_gb": "launcher.command.mem_gb",
    "minutes": "launcher.command.timeout_min",
    "file": "launcher.command.file, with its placeholders filled",
    "options": "launcher.command.options, as they are",
    "gpu_options": "launcher.command.gpu_options, as they are, where the job has GPUs",
    "id": "the scheduler's id of the job",
    "ids": "the ids of all jobs that are asked for",
}
# Those of one submission; `poll` and `cancel` know a job by its id alone.
_OF_ONE = ("script", "submission", "name", "run_id", "run_dir", "logs", "file")
# Braces of the shell (${name}) and of Go (`{{end}}`) are theirs.
_PLACEHOLDER = re.compile(r"(?<![{$])\{([a-z_]+)\}(?!\})")
# Exit statuses of a shell that cannot execute a command, or finds none (POSIX, 2.8.2).
_NO_COMMAND = (126, 127)


def placeholders(text: str) -> list[str]:
    """Names in braces in `text`, in their order."""
    return _PLACEHOLDER.findall(text)


def fill(text: str, values: dict[str, str]) -> str:
    """`text` with each placeholder's value in its place. Raises KeyError for one without."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


@settings("launcher.command")
class CommandConfig:
    """How jobs of another scheduler are submitted, observed and ended (docs/schedulers.md). `sh`
    executes the commands. Placeholders in braces are filled in and quoted."""

    submit: str = ""
    """Command that submits a job and prints its id, unless `own_id` sets the id."""
    submit_id: str = r"(\S+)\s*\Z"
    """Regular expression for what `submit` prints; its group is the id. Default: the last word."""
    own_id: str = ""
    """The id, if `submit` can choose it, such as {name}. A job is then found even if `submit` fails
    to answer."""
    find: str = ""
    """Command that prints the id of the job named {name}, or nothing. It is used if `submit` gave
    no answer. Without it such a job is abandoned; if it starts, it leaves at once."""
    poll: str = ""
    """Command that prints states: of the job {id}, of the jobs {ids}, or of all jobs."""
    state: str = r"(\S+)\s*\Z"
    """Regular expression for what `poll` prints: its group is the state's word. For several jobs it
    has two groups, id and word."""
    pending: Listed[str] = field(default_factory=list)
    """Words for a waiting job; `exit N` is the exit status of `poll`."""
    running: Listed[str] = field(default_factory=list)
    """Words for a job that runs or is ending."""
    gone: Listed[str] = field(default_factory=list)
    """Words for a job that has ended."""
    failed: Listed[str] = field(default_factory=list)
    """Words for a job that has failed; a run may have `launcher.max_retries` of these."""
    cancelled: Listed[str] = field(default_factory=list)
    """Words for a job that somebody cancelled; its run is not tried again."""
    unknown_id: str = ""
    """Regular expression for what `poll` prints if the scheduler no longer knows a job; {id} may be
    in it. Empty: the scheduler never says so."""
    cancel: str = ""
    """Command that ends the job {id}, if possible with a signal and time to write a checkpoint."""
    final_exits: Listed[Whole] = field(default_factory=lambda: list(_NO_COMMAND))
    """Exit statuses of `submit` that refuse a job for good; after others, it is submitted again
    later."""
    options: str = ""
    """Further options, inserted at {options}: queue, account and so on."""
    gpu_options: str = ""
    """Options inserted at {gpu_options} for jobs with GPUs."""
    each_node: str = ""
    """Command by which a job's first node starts {script} on each of its nodes, such as `mpirun
    -n {nodes} sh {script}`. Empty: the scheduler starts it on each."""
    file: str | None = None
    """A job file with placeholders: a path, or a name in conf/launcher/files. Each submission has a
    copy in {logs}. Values are quoted as JSON, which is safe in YAML and JSON."""
    values: Annotated[dict[str, Any], BeforeValidator(or_empty)] = field(default_factory=dict)
    """Further placeholders with their values."""
    python: str | None = None
    """Python interpreter on the nodes; null: the path of the one that submits."""
    setup: Listed[str] = field(default_factory=list)
    """Shell lines that run before the worker."""
    gpus: NonNegativeInt | None = None
    """GPUs of a job on each of its nodes; null: those of a run."""
    cpus: PositiveInt = 8
    """CPU cores of a job on each of its nodes."""
    mem_gb: PositiveInt = 32
    """Host memory of a job on each of its nodes, in GB."""
    timeout_min: PositiveInt = 240
    """Time limit of a job, in minutes; a longer run continues in another job."""
    timeout_s: Positive = 60.0
    """Seconds after which a command is killed."""
    poll_s: Positive = 15.0
    """Least seconds between two polls."""

    def __post_init__(self) -> None:
        known = [*PLACEHOLDERS, *self.values]
        of_one = [word for word in known if word not in ("id", "ids")]
        of_all = [word for word in known if word not in _OF_ONE]
        for name in ("submit", "own_id", "find", "options", "gpu_options", "each_node"):
            self._check_placeholders(name, of_one)
        for name in ("poll", "cancel"):
            self._check_placeholders(name, of_all)
        for name in ("submit_id", "state", "unknown_id"):
            self._check_pattern(name)
        if self.values.keys() & PLACEHOLDERS.keys():
            taken = ", ".join(sorted(self.values.keys() & PLACEHOLDERS.keys()))
            rule = f"names placeholders that have a meaning: {taken}"
            raise SettingError("launcher.command.values", self.values, rule)

    def _check_placeholders(self, name: str, allowed: list[str]) -> None:
        text, setting = getattr(self, name), f"launcher.command.{name}"
        for word in placeholders(text):
            if word not in allowed:
                rule = f"has {{{word}}}, which is none of {', '.join(allowed)}"
                raise SettingError(setting, text, rule)

    def _check_pattern(self, name: str) -> None:
        text, setting = getattr(self, name), f"launcher.command.{name}"
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise SettingError(setting, text, f"is no regular expression: {error}") from None
        wanted = {"submit_id": (1,), "state": (1,) if self.asks_each else (2,)}.get(name)
        if wanted and groups not in wanted and (name != "state" or self.poll):
            what = "1 group, the id" if name == "submit_id" else "1 group, the word for the state"
            if wanted == (2,):
                what = "2 groups, id and word, where launcher.command.poll has no {id}"
            raise SettingError(setting, text, f"has {groups} groups, and takes {what}")

    @property
    def asks_each(self) -> bool:
        """Whether `poll` tells of one job only."""
        return "id" in placeholders(self.poll)

    def asks_for_nodes(self, file: str = "") -> bool:
        """Whether a command, or the text of its `file`, says how many nodes a job takes."""
        told = (self.submit, self.options, self.gpu_options, file)
        return "nodes" in placeholders("\n".join(told))

    def require(self) -> None:
        """Raise SettingError for a command that is missing."""
        for name in ("submit", "poll", "cancel"):
            if not getattr(self, name):
                rule = (
                    "is needed with launcher=command; launcher=pbs, lsf, ray, skypilot and kueue "
                    "have it"
                )
                raise SettingError(f"launcher.command.{name}", "", rule)
