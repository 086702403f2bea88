"""Commands of schedulers: bounded in time, given their input at once, quoted where they fail."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

# Options of the commands called here, as the environment gives them (ENVIRONMENT VARIABLES of
# their manual pages): filters hide jobs that are there, and sbatch's override its script.
_OPTIONS = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_", "SCONTROL_")
# The same of all commands: how they print, what status they end with, and an option of sbatch.
# SLURM_CLUSTERS stays: it holds for all of them alike, as SLURM_CONF does.
_OUTPUT = (
    *("SLURM_BITSTR_LEN", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE"),
    *("SLURM_HINT", "SLURM_TIME_FORMAT"),
)
# What Slurm tells a job, which srun and sbatch take for options of the job to be made; but not
# which controller is asked, and as whom.
_OF_A_JOB, _KEPT = ("SLURM_", "SLURMD_", "SRUN_"), ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
# A traceback's last lines say what went wrong; more does not fit a progress display.
_WORDS_LINES, _WORDS_CHARACTERS = 3, 400
# Seconds for an answer of Slurm: a controller that is busy takes some.
_SLURM_TIMEOUT_S = 60.0
# Seconds for a killed command's pipes to close.
_KILLED_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command printed. `program`: its name. `status`: its exit status; None
    where it was killed after its time, or could not be started, which `missing` says why."""

    program: str
    status: int | None
    output: str = ""
    errors: str = ""
    timeout_s: float
    missing: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether it was ended before it had answered: what it asked for may be done or not."""
        return self.status is None and not self.missing

    @property
    def words(self) -> str:
        """Its last words, on one line and without its own name: of its errors, or else of its
        output."""
        said = self._said()
        if self.missing:
            return f"{self.program}: {self.missing}"
        if self.status is None:
            return f"{self.program} gave no answer in {self.timeout_s:g} s{said and f': {said}'}"
        return said or f"{self.program} ended with status {self.status}"

    @property
    def failure(self) -> str | None:
        """`words` of one that did not succeed, else None."""
        return None if self.status == 0 else self.words

    def _said(self) -> str:
        heads = (f"{self.program}: error: ", f"{self.program}: fatal: ", f"{self.program}: ")
        plain = []
        for line in filter(None, map(str.strip, (self.errors or self.output).splitlines())):
            head = next((head for head in heads if line.startswith(head)), "")
            plain.append(line.removeprefix(head))
        last = list(dict.fromkeys(plain))[-_WORDS_LINES:]
        return "; ".join(last)[-_WORDS_CHARACTERS:]


def run_command(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Answer:
    """Run a command; it and all it has started are killed after `timeout_s`."""
    return _run(command[0], command, timeout_s, "", environment)


def call(command: Sequence[str], *, given: str = "", timeout_s: float = _SLURM_TIMEOUT_S) -> Answer:
    """Run a command of Slurm, with `given` as its input. Raises nothing that it causes."""
    environment = slurm_environment(os.environ)
    try:
        return _run(command[0], command, timeout_s, given, environment)
    except OSError as error:
        why = error.strerror or str(error)
        return Answer(program=command[0], status=None, timeout_s=timeout_s, missing=why)


def slurm_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what would change what Slurm's commands do or print; in a job also
    without what Slurm tells that job."""
    dropped = _OPTIONS + (_OF_A_JOB if "SLURM_JOB_ID" in environment else ())
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not (name in _OUTPUT or name.startswith(dropped))
    }
    # By default an array's tasks are cut off after 64 characters.
    return kept | {"SLURM_BITSTR_LEN": "0"}


def _run(
    program: str,
    command: Sequence[str],
    timeout_s: float,
    given: str,
    environment: Mapping[str, str],
) -> Answer:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    status: int | None
    try:
        output, errors = process.communicate(given, timeout=timeout_s)
        status = process.returncode
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        status = None
        try:
            output, errors = process.communicate(timeout=_KILLED_S)
        except subprocess.TimeoutExpired:
            # Something that left the group holds the pipes; what was said is not worth waiting.
            output = errors = ""
    return Answer(program=program, status=status, output=output, errors=errors, timeout_s=timeout_s)
