"""How the jobs of submissions are, by one question to Slurm for all.

A job is the submission's only where its id and its name are: after a controller has lost its state,
or in another cluster, an id is somebody else's. How a run ended its worker says; Slurm is believed
where a job is gone without a word.
"""

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from isosweep.commands import call
from isosweep.launchers.heartbeat import FileClock
from isosweep.launchers.launcher import Observed
from isosweep.launchers.squeue import REQUEUED_AFTER, Row, array_of, squeue, squeue_rows
from isosweep.store.state import view_run
from isosweep.store.submissions import Job, SubmissionState
from isosweep.words.numbers import duration

# Seconds between two questions: ends of jobs are noticed from their files before.
_POLL_S = 15.0
# A job that is seen nowhere, or in a state that Slurm leaves by itself, may be back; so may one
# whose sbatch of a driver that was killed is still under way.
_PATIENCE_S = 60.0
# A worker that wrote so recently lives, whatever Slurm does not say of its job: it writes every 5 s
# (`store.state.HEARTBEAT_S`), and a network file system may show that a minute later (nfs(5),
# acregmax).
_FRESH_S = 120.0
_MOST_LOG = 300
# What Slurm's own programs print beside a worker, the second with the name of its node.
_BY_SLURM = re.compile(r"(srun|slurmstepd(-\S+)?):")


def job_name(batch: str) -> str:
    """The name of a batch's job, by which it is found where its id is not known."""
    return f"isosweep-{batch}"


class _Rows:
    """Rows of squeue by name and id."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._named: defaultdict[str, dict[str, Row]] = defaultdict(dict)
        for row in rows:
            self._named[row.name][row.job_id] = row

    def of(self, state: SubmissionState) -> Row | None:
        """The submission's job; of an array that was cancelled before a task began, the one row
        that Slurm has of it."""
        named, index = self._named[job_name(state.submission.batch)], state.submission.index
        if state.job is not None:
            whole = named.get(array_of(state.job.job_id))
            gone = whole if whole is not None and whole.status == "gone" else None
            return named.get(state.job.job_id, gone)
        fitting = [row for row in named.values() if row.task == index]
        for whole in (row for row in named.values() if row.task is None):
            if index == 0 or whole.status == "gone":
                fitting.append(whole)
        # Of two jobs of one submission, of which Slurm took the first without an answer, the living
        # one counts.
        living = (row for row in fitting if row.status != "gone")
        return next(living, fitting[-1] if fitting else None)

    def has_array(self, state: SubmissionState) -> bool:
        """Whether other tasks of the job's array are there."""
        array, _, task = (state.job.job_id if state.job else "").partition("_")
        named = self._named[job_name(state.submission.batch)]
        return bool(task) and any(array_of(job_id) == array for job_id in named)


class SlurmJobs:
    """Asks Slurm how jobs are, and remembers for how long it has not known of one."""

    def __init__(self, *, requeues: bool) -> None:
        """`requeues`: whether Slurm may start a job again."""
        self.poll_s = _POLL_S
        self._requeues = requeues
        # By batch: the user who submitted it.
        self._users: dict[str, str] = {}
        self._gone_since: dict[str, float] = {}

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What is known of their jobs; nothing is concluded where Slurm gives no answer."""
        if not submissions:
            return []
        answer = call(squeue(self._users_of(submissions)))
        if answer.failure is not None:
            return [Observed(status="unknown", reason=answer.failure)] * len(submissions)
        rows, clock = (
            _Rows(squeue_rows(answer.output)),
            FileClock(submissions[0].submission.run.root),
        )
        return [self._observed(state, rows, clock) for state in submissions]

    def _users_of(self, submissions: Sequence[SubmissionState]) -> set[str]:
        """This user, and those who own the files of the submissions."""
        for submission in (state.submission for state in submissions):
            if submission.batch not in self._users:
                with suppress(OSError):
                    self._users[submission.batch] = str(submission.path.stat().st_uid)
        return {str(os.getuid()), *self._users.values()}

    def _observed(self, state: SubmissionState, rows: _Rows, clock: FileClock) -> Observed:
        row, path = rows.of(state), str(state.submission.path)
        if row is None:
            return self._missing(state, rows, clock)
        job = Job(job_id=row.job_id) if state.job is None else None
        if row.status == "unknown":
            return Observed(status="unknown", reason=f"Slurm says {row.words}", job=job)
        if row.status != "gone":
            self._gone_since.pop(path, None)
            return Observed(status=row.status, reason=row.words, job=job)
        returns = self._requeues and row.state in REQUEUED_AFTER
        if returns and not self._gone_for_long(path):
            reason = f"{row.state}: Slurm may start it again"
            return Observed(status="unknown", reason=reason, job=job)
        return Observed(status="gone", reason=_last_words(state, row), outcome=row.outcome, job=job)

    def _missing(self, state: SubmissionState, rows: _Rows, clock: FileClock) -> Observed:
        """Of a job that the queue does not have: lost once its worker has been silent for long."""
        path, silent = str(state.submission.path), _silence(state, clock)
        name = state.job.job_id if state.job else job_name(state.submission.batch)
        said = f"Slurm has no job {name} in its queue"
        if silent is not None and silent < _FRESH_S:
            self._gone_since.pop(path, None)
            said += f"; its worker wrote {duration(silent)} ago"
            return Observed(status="unknown", reason=said)
        if not self._gone_for_long(path):
            return Observed(status="unknown", reason=said)
        if rows.has_array(state):
            # A waiting task that is cancelled leaves no trace but the others.
            return Observed(status="gone", reason="cancelled in Slurm", outcome="cancelled")
        return Observed(status="gone", reason=said, outcome="lost")

    def _gone_for_long(self, path: str) -> bool:
        """Whether its job has been gone for `_PATIENCE_S` of this process's own clock."""
        now = time.monotonic()
        return now - self._gone_since.setdefault(path, now) >= _PATIENCE_S


def _silence(state: SubmissionState, clock: FileClock) -> float | None:
    """Seconds since the submission's worker wrote, 0 where that cannot be seen; None: it never did,
    or has left."""
    run = state.submission.run
    try:
        view = view_run(run)
    except OSError:
        return 0.0
    if view.submission is None:
        return 0.0
    current = view.current
    if current is None or current.status != "running":
        return None
    return clock.age(run.attempt(current.attempt)) or 0.0


def _last_words(state: SubmissionState, row: Row) -> str:
    """How the job ended, and where it failed the last line that each of its nodes printed as an
    error."""
    words = f"Slurm says {row.words}"
    if row.outcome != "failed":
        return words
    logs = state.submission.run.submission_logs(state.submission.number)
    last = [_last_line(path) for path in sorted(logs.glob(f"{row.job_id}_*.err"))]
    told = "; ".join(line for line in dict.fromkeys(last) if line)
    return f"{words}: {told[:_MOST_LOG]}" if told else words


def _last_line(log: Path) -> str:
    """The last line of a log but for bars of progress; the program's own, if it printed any."""
    printed = map(str.strip, log.read_text(errors="replace").splitlines())
    lines = [line for line in printed if line and "%|" not in line]
    own = [line for line in lines if not _BY_SLURM.match(line)]
    return (own or lines or [""])[-1]
