"""Submissions: that a run was handed to a launcher, as files that precede the job.

A submission is created, with exclusion, before anything is started, and carries a `batch` by which
the scheduler can be asked for its job. Then come, each created once by whoever is first: the job's
id, a request to cancel it, and its end. While the newest submission of a run has no end, nobody
makes another: who comes second adopts it. A worker ends at once where its submission is over, or
is not the newest.

    submissions/3.json  3.job.json  3.cancel.json  3.end.json
"""

import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from isosweep.errors import RecordError
from isosweep.files import JsonObject, make_directory
from isosweep.machine import process_alive, process_start
from isosweep.store.claims import claim, highest_of, names, read_claim
from isosweep.store.paths import SUBMISSIONS, RunPaths

SUBMISSION_VERSION = 1

LauncherName = Literal["local", "slurm", "ray", "inline", "none"]
# finished: its worker left by itself, whatever came of the run. lost: the job is gone, and its
# worker had not ended it. refused: the scheduler did not take it, or its worker what
# it was given, which another try would not mend. stuck: stopped for want of progress. cancelled: by
# request, or by somebody in the scheduler.
Outcome = Literal["finished", "failed", "interrupted", "cancelled", "lost", "refused", "stuck"]

# What commands are given: no option of theirs, and one word.
_JobId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][!-~]*$")]


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process, named for good: ids alone are used again. `start` is None where unknown."""

    host: str
    pid: int
    start: int | None

    @staticmethod
    def this() -> "Process":
        """The process that asks."""
        return Process.of(os.getpid())

    @staticmethod
    def of(pid: int) -> "Process":
        """The process of this machine that now has this id."""
        return Process(host=socket.gethostname(), pid=pid, start=process_start(pid))

    def alive(self) -> bool | None:
        """Whether it lives; None where that cannot be seen from this machine."""
        if self.host != socket.gethostname():
            return None
        if self.start is None:
            return process_alive(self.pid)
        return process_start(self.pid) == self.start


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One submission of a run. `job`: what its worker is to do (`TrainRun.to_json`, but for the
    run's directory); `sweep`: the directory of the sweep that asked for it; `by`: who submitted.

    `batch` names the jobs that are sent to the scheduler together, `index` this one among them.
    `devices`: GPUs of the submitter's machine that it was given, by name: another queue there
    leaves them alone. `home`: the run's directory then, and `inode` its number on its disk: a move
    changes the first, a copy both.
    """

    run: RunPaths
    number: int
    launcher: LauncherName
    job: JsonObject
    sweep: str
    batch: str
    index: int
    by: Process
    unix_time: float
    home: str
    inode: int
    devices: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file that it is, which its worker is given."""
        return self.run.submission(self.number)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the scheduler calls a submission: `job_id` is its own id; for a process of a machine,
    `process`."""

    job_id: _JobId
    process: Process | None = None


@dataclass(frozen=True, kw_only=True)
class End:
    """That a submission is over, and why."""

    outcome: Outcome
    reason: str
    unix_time: float


@dataclass(frozen=True, kw_only=True)
class SubmissionState:
    """A submission and what came of it. `cancel`: who asked for it to be cancelled."""

    submission: Submission
    job: Job | None
    cancel: str | None
    end: End | None

    @property
    def live(self) -> bool:
        """Whether the run belongs to it: nobody has said that it is over."""
        return self.end is None

    @property
    def gone(self) -> bool:
        """Whether its process can be seen from here to have ended, although nobody has said so."""
        process = self.job.process if self.job else None
        return self.live and process is not None and process.alive() is False


def submit(
    run: RunPaths,
    launcher: LauncherName,
    job: JsonObject,
    sweep: str,
    batch: str,
    index: int = 0,
    devices: tuple[str, ...] = (),
) -> Submission | None:
    """Make the next submission of `run`; None where the newest is not over, or another was faster.

    Raises RecordError where the newest cannot be read.
    """
    newest = newest_submission(run)
    if newest is not None and newest.live:
        return None
    make_directory(run.submissions)
    submission = Submission(
        run=run,
        number=newest.submission.number + 1 if newest else 1,
        launcher=launcher,
        job=job,
        sweep=sweep,
        batch=batch,
        index=index,
        by=Process.this(),
        unix_time=time.time(),
        devices=devices,
        home=str(run.root.absolute()),
        inode=run.root.stat().st_ino,
    )
    document = {name: value for name, value in asdict(submission).items() if name != "run"}
    claimed = claim(run.submission(submission.number), {"version": SUBMISSION_VERSION, **document})
    return submission if claimed else None


def started(submission: Submission, job: Job) -> None:
    """Say what the scheduler calls the submission; the first to say so is believed."""
    claim(submission.run.submission(submission.number, "job"), asdict(job))


def request_cancel(submission: Submission, by: str) -> None:
    """Ask for the submission to be cancelled: its worker looks for that, and nothing undoes it."""
    document = {"by": by, "unix_time": time.time()}
    claim(submission.run.submission(submission.number, "cancel"), document)


def close(submission: Submission, outcome: Outcome, reason: str) -> bool:
    """Say that the submission is over; False where somebody had said so before."""
    document = asdict(End(outcome=outcome, reason=reason, unix_time=time.time()))
    return claim(submission.run.submission(submission.number, "end"), document)


def newest_submission(run: RunPaths) -> SubmissionState | None:
    """The newest submission of `run`; None where there was none.

    Raises RecordError, which names the file, where one of its files is not what it should be.
    """
    there = names(run.text(SUBMISSIONS))
    number = highest_of(there)
    return read_submission(run, number, there) if number else None


def read_submission(run: RunPaths, number: int, there: list[str] | None = None) -> SubmissionState:
    """Submission `number` of `run`; `there`: names in its directory. Raises as above."""
    directory = run.text(SUBMISSIONS)
    there = names(directory) if there is None else there
    path = f"{directory}/{number}.json"

    def part(name: str, kind: Any) -> Any:
        file = f"{number}.{name}.json"
        try:
            return read_claim(kind, f"{directory}/{file}") if file in there else None
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    try:
        submission = read_claim(Submission, path, SUBMISSION_VERSION, run=run)
        if submission is None:
            raise ValueError("no such file")
        cancel = part("cancel", dict[str, Any])
        return SubmissionState(
            submission=submission,
            job=part("job", Job),
            cancel=cancel["by"] if cancel else None,
            end=part("end", End) or _end_of_copy(submission),
        )
    except (KeyError, ValueError) as error:
        raise RecordError(f"{path}: not a submission of a run ({error})") from None


def _end_of_copy(submission: Submission) -> End | None:
    """The end of what was copied while it was live: its job is the original's."""
    home, root = submission.home, submission.run.root
    if home == str(root) or submission.inode == root.stat().st_ino:
        return None
    with suppress(OSError):
        if RunPaths(Path(home)).submission(submission.number).samefile(submission.path):
            return None
    reason = f"its job belongs to {home}, of which this is a copy"
    return End(outcome="interrupted", reason=reason, unix_time=submission.unix_time)
