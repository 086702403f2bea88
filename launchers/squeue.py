"""What is asked of Slurm about jobs, and what its answers mean."""

import pwd
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from isosweep.store.submissions import Outcome

# JOB STATE CODES of squeue(1) and sacct(1), Slurm 22.05 to 25.05.
_PENDING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "POWER_UP_NODE"),
)
_RUNNING = (
    *("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"),
    *("UPDATE_DB", "EXPEDITING"),
)
# A job that is gone: what that is called if its worker has not said how it ended. Interrupted is
# what the worker could not help: the run goes on from its last checkpoint.
_GONE: dict[str, Outcome] = {
    "COMPLETED": "lost",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "failed",
    "DEADLINE": "failed",
    "CANCELLED": "cancelled",
    "TIMEOUT": "interrupted",
    "PREEMPTED": "interrupted",
    "NODE_FAIL": "interrupted",
    "BOOT_FAIL": "interrupted",
    "REVOKED": "interrupted",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "interrupted",
}
# Slurm may show these for a moment before it requeues the job.
REQUEUED_AFTER = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED")
# Why a job waits although nothing that Slurm does by itself will start it (squeue(1), JOB REASON
# CODES).
_HELD = ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "JobLaunchFailure", "launch_failed")

_SEPARATOR = "|"
_SQUEUE_FORMAT = _SEPARATOR.join(("%i", "%A", "%T", "%r", "%u", "%j"))
_SACCT_FORMAT = "JobID,JobIDRaw,State,ExitCode,User,JobName"
_ARRAY = re.compile(r"(\d+)_\[([\d,\-]+)(?:%\d+)?\]")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A job, or one task of an array, as Slurm tells of it.

    `job_id` is what Slurm calls it, as `17_3`; `raw_id` the number that it has beside that. `state`
    is a state's name, `detail` the reason why it waits, the exit status, or who cancelled it.
    """

    job_id: str
    raw_id: str
    state: str
    detail: str
    user: str
    name: str

    @property
    def task(self) -> int | None:
        """Its place in its array; None of a job that is none's."""
        _, _, task = self.job_id.partition("_")
        return int(task) if task.isdecimal() else None

    @property
    def status(self) -> Literal["pending", "running", "gone", "unknown"]:
        """Whether it is alive; unknown for a state that no manual page has."""
        if self.state in _PENDING:
            return "pending"
        if self.state in _RUNNING:
            return "running"
        return "gone" if self.state in _GONE else "unknown"

    @property
    def outcome(self) -> Outcome:
        """What its end is called, where its worker has not said."""
        return _GONE.get(self.state, "lost")

    @property
    def words(self) -> str:
        """The state, and why, as the terminal shows it."""
        if self.status == "pending" and self.detail in _HELD:
            return f"{self.detail}: held; scontrol release {self.job_id} lets it go"
        if self.state in ("PENDING", "RUNNING"):
            return self.detail
        return f"{self.state} ({self.detail})" if self.detail else self.state


def squeue(users: Collection[str]) -> list[str]:
    """The command that lists every job of `users` that Slurm still knows, ended ones as well.

    By user, because the controller then sends no others; a list of ids it sends all jobs for.
    """
    return [*_SQUEUE, f"--user={','.join(sorted(users))}"]


def squeue_jobs(job_ids: Iterable[str]) -> list[str]:
    """The command that lists these jobs, whoever submitted them."""
    return [*_SQUEUE, f"--jobs={','.join(bases(job_ids))}"]


_SQUEUE = ("squeue", "--noheader", "--array", "--states=all", f"--format={_SQUEUE_FORMAT}")


def sacct_jobs(job_ids: Iterable[str], names: Iterable[str]) -> list[str]:
    """The command that asks accounting for these jobs, where they have these names: of jobs with
    one id it tells the newest only."""
    return [*_SACCT, f"--jobs={','.join(bases(job_ids))}", f"--name={','.join(sorted(names))}"]


def sacct_names(names: Iterable[str], days: int) -> list[str]:
    """The command that asks accounting for one's jobs of these names, of the last `days`."""
    return [*_SACCT, f"--name={','.join(sorted(names))}", f"--starttime=now-{days}days"]


_SACCT = ("sacct", "--noheader", "--parsable2", "--allocations", f"--format={_SACCT_FORMAT}")


def bases(job_ids: Iterable[str]) -> list[str]:
    """The arrays and single jobs that `job_ids` belong to, each once."""
    return list(dict.fromkeys(job_id.partition("_")[0] for job_id in job_ids))


def grouped(job_ids: Iterable[str]) -> list[str]:
    """`job_ids` with the tasks of an array in one word, as `17_[3,5]`: one request of scancel each.

    With a filter, as `--name`, scancel of Slurm 22.05 cancels all waiting tasks of the array for
    one that waits.
    """
    tasks: dict[str, list[str]] = {}
    for job_id in job_ids:
        base, _, task = job_id.partition("_")
        tasks.setdefault(base, []).extend([task] if task else [])
    return [f"{base}_[{','.join(own)}]" if own else base for base, own in tasks.items()]


def squeue_rows(text: str) -> Iterator[Row]:
    """What squeue printed, a row a job or task; lines of anything else are left out."""
    for job_id, raw_id, state, reason, user, name in _told(text):
        # Of a job that was cancelled it is the last one why it waited.
        detail = "" if reason == "None" or state == "CANCELLED" else reason
        yield from _rows(job_id, raw_id, state, detail, user, name)


def sacct_rows(text: str) -> Iterator[Row]:
    """What sacct printed, a row a job or task; lines of anything else are left out."""
    for job_id, raw_id, told, exit_code, user, name in _told(text):
        state, _, by = told.partition(" by ")
        yield from _rows(job_id, raw_id, state.split()[0], _ended(by, exit_code), user, name)


def _told(text: str) -> Iterator[list[str]]:
    lines = (line.split(_SEPARATOR, 5) for line in text.splitlines())
    return (fields for fields in lines if len(fields) == 6 and fields[0][:1].isdecimal())


def _rows(job_id: str, raw_id: str, state: str, detail: str, user: str, name: str) -> Iterator[Row]:
    """One row, or those of all tasks that Slurm tells of in one line."""
    array = _ARRAY.fullmatch(job_id)
    ids = [job_id] if array is None else [f"{array[1]}_{task}" for task in _numbers(array[2])]
    for each in ids:
        yield Row(job_id=each, raw_id=raw_id, state=state, detail=detail, user=user, name=name)


def _numbers(ranges: str) -> Iterator[int]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _ended(by: str, exit_code: str) -> str:
    if by:
        return f"by {_user_name(by)}"
    status, _, signal = exit_code.partition(":")
    if signal not in ("", "0"):
        return f"signal {signal}"
    return f"exit status {status}" if status not in ("", "0") else ""


def _user_name(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError):
        return f"user {uid}"


@dataclass(frozen=True)
class Refusal:
    """What sbatch says where it does not take a job (src/common/slurm_errno.c, slurm_strerror).

    `passing`: later it may; `unknown`: the job may have been taken all the same; `smaller`: fewer
    tasks might be taken now.
    """

    text: str
    passing: bool = True
    unknown: bool = False
    smaller: bool = False


# The first whose text is in sbatch's words is meant; what none has is refused for good: bad
# partitions, accounts, qos, constraints, times, sizes.
_REFUSALS = (
    # The controller is down, or between two of its lives: the request never reached it.
    Refusal("Unable to contact slurm controller (connect failure)"),
    Refusal("Communication connection failure"),
    Refusal("Connection timed out establishing"),
    Refusal("Slurm backup controller in standby mode"),
    Refusal("Controller is in standby mode"),
    # The request may have reached it, and the answer not us.
    Refusal("Unable to contact slurm controller", unknown=True),
    Refusal("Socket timed out on send/recv operation", unknown=True),
    Refusal("Zero Bytes were transmitted or received", unknown=True),
    Refusal("Message receive failure", unknown=True),
    Refusal("Message send failure", unknown=True),
    Refusal("Communication shutdown failure", unknown=True),
    Refusal("Connection timed out", unknown=True),
    Refusal("Connection forced closed", unknown=True),
    Refusal("Kernel reported delayed socket error", unknown=True),
    # Limits on jobs that are submitted: AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, ...
    # (src/common/slurm_protocol_defs.c, job_state_reason_string). An array counts as its tasks.
    Refusal("SubmitJob", smaller=True),
    Refusal("MaxJobCount limit reached", smaller=True),
    # The same up to Slurm 24.05.
    Refusal("Unable to create job record, try again", smaller=True),
    Refusal("Slurm temporarily unable to accept job", unknown=True),
    Refusal("Resource temporarily unavailable"),
    Refusal("Rate limit exceeded"),
    # Other limits of accounting are named before the policy: longer, or larger, than allowed.
    Refusal("PerJob", passing=False),
    Refusal("MaxWall", passing=False),
    Refusal("MinCpu", passing=False),
    Refusal("Job violates accounting/QOS policy", smaller=True),
    Refusal("Required partition not available (inactive or drain)"),
    Refusal("Required node not available (down, drained or reserved)"),
    Refusal("Requested operation is presently disabled"),
    Refusal("Requested reservation not usable now"),
    Refusal("I/O error writing script/environment to file"),
    Refusal("DB index is being set"),
    Refusal("Failed to connect to authentication agent"),
    Refusal("Munge encode failed"),
    # More tasks than MaxArraySize, which `scontrol show config` did not tell.
    Refusal("Invalid job array specification", passing=False, smaller=True),
)
_FOR_GOOD = Refusal("", passing=False)


def refusal(words: str, *, timed_out: bool) -> Refusal:
    """What it means that sbatch refused in these words, or gave no answer in time."""
    if timed_out:
        return Refusal("", unknown=True)
    return next((each for each in _REFUSALS if each.text in words), _FOR_GOOD)


def longest_minutes(text: str, partitions: Collection[str] | None) -> float | None:
    """Minutes that a job may take in the strictest of `partitions`, or the default one, by
    `scontrol show partition --oneliner`; None where there is no limit, or no such partition."""
    longest = []
    for line in text.splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split())
        wanted = (
            fields.get("Default") == "YES"
            if partitions is None
            else (fields.get("PartitionName") in partitions)
        )
        limit = _minutes(fields.get("MaxTime", "")) if wanted else None
        longest += [] if limit is None else [limit]
    return min(longest, default=None)


def _minutes(text: str) -> float | None:
    """Minutes of Slurm's `days-hours:minutes:seconds`; None for UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
