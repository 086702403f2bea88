"""Slurm's commands: in which environment they are called, and what they answered."""

import os
import subprocess
from collections.abc import Mapping, Sequence
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
# The lines of an error that say what is wrong; libraries precede them with hints, and callers
# follow them with what that led to.
_CAUSES = ("Munge encode failed", "Munge decode failed")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command printed; `words`: what it says of a failure, None where it succeeded.

    `timed_out`: it was ended before it had answered, so that what it asked for may be done or not.
    """

    out: str
    words: str | None
    timed_out: bool = False


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


def call(command: Sequence[str], timeout_s: float, given: str = "") -> Answer:
    """Run a command of Slurm, with `given` as its input and for `timeout_s` at most. Raises nothing
    that it causes."""
    try:
        done = subprocess.run(
            command,
            input=given.encode(),
            capture_output=True,
            timeout=timeout_s,
            env=slurm_environment(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = _words(command[0], late.stderr or b"")
        words = f"{command[0]} gave no answer in {timeout_s:g} s{said and f': {said}'}"
        return Answer(out="", words=words, timed_out=True)
    except OSError as error:
        return Answer(out="", words=f"{command[0]}: {error.strerror}")
    out = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return Answer(out=out, words=None)
    said = _words(command[0], done.stderr or done.stdout)
    return Answer(out=out, words=said or f"{command[0]} ended with status {done.returncode}")


def _words(program: str, printed: bytes) -> str:
    """What a command printed of an error, on one line and without its own name: the cause alone,
    where there is one."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines()]
    heads = (f"{program}: error: ", f"{program}: fatal: ", f"{program}: ")
    plain = []
    for line in filter(None, lines):
        head = next((head for head in heads if line.startswith(head)), "")
        plain.append(line.removeprefix(head))
    causes = [line for line in plain if line.startswith(_CAUSES)]
    return "; ".join(dict.fromkeys(causes or plain))
