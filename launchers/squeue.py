"""What Slurm is asked about jobs, and what its answers mean."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from isosweep.launchers.launcher import Refused
from isosweep.store.submissions import Outcome

# JOB STATE CODES of squeue(1), Slurm 22.05 to 25.05.
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

_FORMAT = "%i|%T|%r|%j"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A job, or one task of an array, as squeue shows it.

    `job_id` is what Slurm calls it, as `17_3`. `state` is a state's name, `detail` the reason why
    it waits or failed.
    """

    job_id: str
    state: str
    detail: str
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
    whose = f"--user={','.join(sorted(users))}"
    return ["squeue", "--noheader", "--array", "--states=all", f"--format={_FORMAT}", whose]


def squeue_rows(text: str) -> Iterator[Row]:
    """What squeue printed, a row a job or task; lines of anything else are left out."""
    lines = (line.split("|", 3) for line in text.splitlines())
    for job_id, state, reason, name in (fields for fields in lines if len(fields) == 4):
        if job_id[:1].isdecimal():
            # Of a job that was cancelled it is the last one why it waited.
            detail = "" if reason == "None" or state == "CANCELLED" else reason
            yield Row(job_id=job_id, state=state, detail=detail, name=name)


def array_of(job_id: str) -> str:
    """The array, or the single job, that a job's id belongs to."""
    return job_id.partition("_")[0]


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


_LATER = Refused(reason="", passing=True)
# sbatch's words where it does not take a job (src/common/slurm_errno.c, slurm_strerror), and what
# they mean. The first that fits counts; what none has is refused for good: bad partitions,
# accounts, qos, constraints, times, sizes.
_REFUSALS = (
    # The controller is down, or between two of its lives: the request never reached it.
    (r"connect failure|connection failure|timed out establishing|standby mode", _LATER),
    # The request may have reached it, and the answer not us.
    (
        r"[Cc]ontroller|timed out|Zero Bytes|(Message|Communication) .*failure|forced closed"
        r"|socket error|temporarily unable to accept job",
        replace(_LATER, unknown=True),
    ),
    # Other limits of accounting are named before the policy: longer, or larger, than allowed.
    (r"PerJob|MaxWall|MinCpu", replace(_LATER, passing=False)),
    # Limits on jobs that are submitted: AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, ...
    # (src/common/slurm_protocol_defs.c, job_state_reason_string). An array counts as its tasks.
    (
        r"SubmitJob|MaxJobCount|Unable to create job record|violates accounting/QOS policy",
        replace(_LATER, smaller=True),
    ),
    # More tasks than MaxArraySize, which `scontrol show config` did not tell.
    (r"Invalid job array specification", replace(_LATER, passing=False, smaller=True)),
    (
        r"Required (partition|node) not available|presently disabled|reservation not usable now"
        r"|I/O error writing|DB index is being set|authentication agent|Munge encode failed"
        r"|Resource temporarily|Rate limit",
        _LATER,
    ),
)


def refusal(words: str, *, timed_out: bool) -> Refused:
    """What it means that sbatch refused in these words, or gave no answer in time."""
    fitting = (meaning for pattern, meaning in _REFUSALS if re.search(pattern, words))
    means = next(fitting, replace(_LATER, passing=False))
    return replace(_LATER if timed_out else means, reason=words, unknown=timed_out or means.unknown)
