"""How the jobs of submissions are, by one question to Slurm for all, and one about those gone.

A job is the submission's only where its id and its name are: after a controller has lost its state,
or in another cluster, an id is somebody else's.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isosweep.commands import Answer, call
from isosweep.config.slurm import SlurmConfig
from isosweep.launchers.cluster import Cluster
from isosweep.launchers.heartbeat import SILENCE_S, FileClock
from isosweep.launchers.launcher import Observed
from isosweep.launchers.squeue import (
    REQUEUED_AFTER,
    Row,
    bases,
    sacct_jobs,
    sacct_names,
    sacct_rows,
    squeue,
    squeue_jobs,
    squeue_rows,
)
from isosweep.store.paths import node_of_log
from isosweep.store.state import view_run
from isosweep.store.submissions import Job, SubmissionState
from isosweep.words.numbers import duration

# Seconds between two questions, and above how many jobs the longer is taken: an answer about 500
# jobs is about 50 kB, and their ends are noticed from their files before.
_POLL_S, _LONG_POLL_S, _MANY = 15.0, 30.0, 500
# A job that is seen nowhere, or in a state that Slurm leaves by itself, may be back: accounting
# is late by 0.3 to 2.5 s (measured, Slurm 22.05), and by more where its database is busy.
_PATIENCE_S = 30.0
# A worker that wrote so recently lives, whatever Slurm does not say of its job: it writes every 5 s
# (`store.state.HEARTBEAT_S`), and a network file system may show that a minute later (nfs(5),
# acregmax).
_FRESH_S = 120.0
# How far back accounting is searched for a job that is known by name only, in days: a driver
# that was killed between sbatch and its answer is rarely resumed later.
_DAYS = 30
# An id as Slurm gives them, a task's with its number.
_ID = re.compile(r"\d+(_\d+)?")
# What sacct says where the cluster keeps no accounts.
_NO_ACCOUNTING = "accounting storage is disabled"
_MOST_LOG = 300
# What Slurm's own programs print beside a worker, the second with the name of its node.
_BY_SLURM = re.compile(r"(srun|slurmstepd(-\S+)?):")


def job_name(batch: str) -> str:
    """The name of a batch's job, by which it is found where its id is not known."""
    return f"isosweep-{batch}"


class _Rows:
    """What Slurm told, by the names of jobs and what tells those of one name apart.

    `users`: whose jobs it was asked for; of others' it has told nothing.
    """

    def __init__(self, rows: Iterable[Row], users: Iterable[str] = ()) -> None:
        self.users = frozenset(users)
        self._by_id: dict[tuple[str, str], Row] = {}
        self._by_task: dict[tuple[str, int | None], Row] = {}
        # Arrays and single jobs, each with its name.
        self.arrays: set[tuple[str, str]] = set()
        # How many jobs and tasks of each are not over, and how many of them wait.
        self.alive: Counter[tuple[str, str]] = Counter()
        self.waiting: Counter[tuple[str, str]] = Counter()
        for row in rows:
            array = row.name, bases([row.job_id])[0]
            self._by_id[row.name, row.raw_id] = self._by_id[row.name, row.job_id] = row
            self.arrays.add(array)
            self.alive[array] += row.status != "gone"
            self.waiting[array] += row.status == "pending"
            known = self._by_task.get((row.name, row.task))
            # Of two jobs of one submission, of which Slurm took the first without an answer, the
            # living one counts.
            if known is None or known.status == "gone":
                self._by_task[row.name, row.task] = row

    def of(self, state: SubmissionState) -> Row | None:
        """The submission's job."""
        name, index = job_name(state.submission.batch), state.submission.index
        if state.job is not None:
            job_id = state.job.job_id
            known = self._by_id.get((name, job_id))
            return known or _ended(self._by_id.get((name, bases([job_id])[0])))
        known, whole = self._by_task.get((name, index)), self._by_task.get((name, None))
        return known or (whole if index == 0 else _ended(whole))


def _ended(whole: Row | None) -> Row | None:
    """Of an array that was cancelled before a task began, Slurm tells in one row for all."""
    return whole if whole is not None and whole.status == "gone" else None


@dataclass
class ToStop:
    """Ids of jobs of one name that are to end: of arrays all of whose waiting tasks are, of those
    that keep some, and of tasks that run."""

    whole: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)


class SlurmJobs:
    """Asks Slurm how jobs are, and remembers for how long it has not known of one."""

    def __init__(self, config: SlurmConfig, cluster: Cluster) -> None:
        self.poll_s = _POLL_S
        self._config, self._cluster = config, cluster
        # What the cluster is called; None as long as that need not be known, or is not told.
        self._name: str | None = None
        self._users = {str(os.getuid())}
        self._accounting = True
        self._since: dict[str, tuple[str, float]] = {}
        self._queue = _Rows([])
        # Arrays and single jobs with the tasks that are not over, by the newest answer; None: it
        # gave none. `asked`: those of what was asked for.
        self.asked: set[str] = set()
        self.tasks: Mapping[str, int] | None = None
        # Names and ids of arrays and single jobs that submissions have.
        self._ours: set[tuple[str, str]] = set()

    def submitted(self, batch: str, array: str) -> None:
        """An array, or a single job, of `batch` was submitted."""
        self._ours.add((job_name(batch), array))

    def still_ours(self, arrays: Collection[str]) -> set[str]:
        """Those of `arrays` that Slurm has under the names of their submissions at this moment."""
        answer = self._ask(squeue_jobs(arrays))
        found = _Rows(squeue_rows(answer.output)).arrays & self._ours
        return {array for _, array in found}.intersection(arrays)

    def to_stop(
        self, submissions: Sequence[SubmissionState]
    ) -> tuple[dict[str, ToStop], list[str]]:
        """What is to end of jobs that are not gone, by their name, and why of some it is not known
        whether they are."""
        jobs: dict[str, ToStop] = {}
        waiting: dict[tuple[str, str], list[str]] = {}
        words = []
        for state, seen in zip(submissions, self.observe(submissions), strict=True):
            job, name = state.job or seen.job, job_name(state.submission.batch)
            if seen.status == "unknown":
                words.append(seen.reason)
            if job is None or seen.status == "gone" or not self._here(job):
                continue
            if not _ID.fullmatch(job.job_id):
                words.append(f"{job.job_id!r} is no id of a job of Slurm")
                continue
            if seen.status == "pending":
                waiting.setdefault((name, bases([job.job_id])[0]), []).append(job.job_id)
            else:
                jobs.setdefault(name, ToStop()).running.append(job.job_id)
        for array, ids in waiting.items():
            of_name = jobs.setdefault(array[0], ToStop())
            whole = len(ids) >= self._queue.waiting[array]
            (of_name.whole if whole else of_name.waiting).extend(ids)
        return jobs, list(dict.fromkeys(words))

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What is known of their jobs; nothing is concluded where Slurm gives no answer."""
        if not submissions:
            return []
        if self._name is None and any(state.job and state.job.cluster for state in submissions):
            self._name = self._cluster.name
        clock = FileClock(submissions[0].submission.run.root)
        here = [state for state in submissions if state.job is None or self._here(state.job)]
        seen = {s.submission.path: o for s, o in zip(here, self._seen(here, clock), strict=True)}
        return [
            seen.get(state.submission.path) or self._away(state, clock) for state in submissions
        ]

    def _here(self, job: Job) -> bool:
        """Whether the job's id is one of the cluster that is asked."""
        return job.cluster is None or self._name in (None, job.cluster)

    def _away(self, state: SubmissionState, clock: FileClock) -> Observed:
        """What can be said of a job of another cluster: what its worker wrote."""
        assert state.job is not None
        said = f"job {state.job.job_id} is of the cluster {state.job.cluster}"
        silent = _silence(state, clock)
        if silent is not None and silent >= SILENCE_S:
            reason = f"{said}, and its worker has been silent for {duration(silent)}"
            return Observed(status="gone", reason=reason, outcome="interrupted")
        return Observed(status="unknown", reason=f"{said}; Slurm here is {self._name}'s")

    def _seen(self, submissions: Sequence[SubmissionState], clock: FileClock) -> list[Observed]:
        """`observe`, of jobs of the cluster that is asked."""
        if not submissions:
            return []
        self.poll_s = _LONG_POLL_S if len(submissions) > _MANY else _POLL_S
        answer = self._ask(squeue(self._users))
        if answer.failure is not None:
            self.tasks = None
            return [Observed(status="unknown", reason=answer.failure)] * len(submissions)
        queue = self._queue = _Rows(squeue_rows(answer.output), self._users)
        asked = [state for state in submissions if _to_be_accounted(queue.of(state))]
        accounts, words = self._accounts(asked) if asked else (_Rows([]), None)
        rows = [row for state in submissions if (row := queue.of(state)) is not None]
        followed = {(row.name, bases([row.job_id])[0]) for row in rows}
        self._ours |= followed
        self.tasks = {array[1]: n for array, n in queue.alive.items() if n and array in self._ours}
        self.asked = {array for _, array in followed} & self.tasks.keys()
        return [
            self._one(state, queue, accounts, words=words, clock=clock) for state in submissions
        ]

    def _one(
        self,
        state: SubmissionState,
        queue: _Rows,
        accounts: _Rows,
        *,
        words: str | None,
        clock: FileClock,
    ) -> Observed:
        row, account = queue.of(state), accounts.of(state)
        if row is None and account is not None and account.user not in queue.users:
            # Somebody else's: from now on theirs are asked for as well.
            self._users.add(account.user)
            row = account
        if row is not None:
            return self._observed(state, row, account)
        if words is not None:
            return Observed(status="unknown", reason=words)
        seen = self._not_in_queue(state, account, clock)
        if seen.status == "gone" and account is None and state.job is not None:
            array = bases([state.job.job_id])[0]
            named = job_name(state.submission.batch), array
            if array != state.job.job_id and named in queue.arrays | accounts.arrays:
                # A waiting task that is cancelled leaves no trace but the others.
                return Observed(status="gone", reason="cancelled in Slurm", outcome="cancelled")
        return seen

    def _ask(self, command: Sequence[str]) -> Answer:
        return call(command)

    def _accounts(self, states: Sequence[SubmissionState]) -> tuple[_Rows, str | None]:
        """What accounting has of the jobs, and its words where it gave no answer."""
        ids = [state.job.job_id for state in states if state.job is not None]
        names = {job_name(state.submission.batch) for state in states if state.job is None}
        rows: list[Row] = []
        known = {job_name(state.submission.batch) for state in states if state.job is not None}
        commands = [sacct_jobs(ids, known)] if ids else []
        commands += [sacct_names(names, _DAYS)] if names else []
        for command in commands if self._accounting else []:
            answer = self._ask(command)
            if answer.failure is None:
                rows += sacct_rows(answer.output)
            elif _NO_ACCOUNTING in answer.failure:
                self._accounting = False
            else:
                return _Rows([]), answer.failure
        if ids and not self._accounting:
            # Of other users: the first question was about one's own.
            rows += squeue_rows(self._ask(squeue_jobs(ids)).output)
        return _Rows(rows), None

    def _observed(self, state: SubmissionState, row: Row, account: Row | None) -> Observed:
        path = str(state.submission.path)
        if account is not None and row.status == "gone" and account.state == row.state:
            # It also knows who cancelled it, and how it exited.
            row = account
        job = self._job(row) if state.job is None else None
        if row.status == "unknown":
            return Observed(status="unknown", reason=f"Slurm says {row.words}", job=job)
        if row.status != "gone":
            self._since.pop(path, None)
            return Observed(status=row.status, reason=row.words, job=job)
        returns = self._config.requeue and row.state in REQUEUED_AFTER
        if returns and not self._settled(path, row.state, _PATIENCE_S):
            reason = f"{row.state}: Slurm may start it again"
            return Observed(status="unknown", reason=reason, job=job)
        return Observed(status="gone", reason=_last_words(state, row), outcome=row.outcome, job=job)

    def _job(self, row: Row) -> Job:
        return Job(job_id=row.job_id, cluster=self._cluster.name)

    def _not_in_queue(
        self, state: SubmissionState, account: Row | None, clock: FileClock
    ) -> Observed:
        """Of a job that the queue does not have; accounting is late, and so may its answer be.

        Where a controller has lost the end of a job, accounting has it alive for ever (sacctmgr(1),
        RunawayJobs): that is believed until its worker has been silent for SILENCE_S.
        """
        if account is not None and account.status == "gone":
            job = self._job(account) if state.job is None else None
            words = _last_words(state, account)
            return Observed(status="gone", reason=words, outcome=account.outcome, job=job)
        path, silent = str(state.submission.path), _silence(state, clock)
        name = state.job.job_id if state.job else job_name(state.submission.batch)
        said = f"Slurm has no job {name} in its queue"
        if account is not None:
            said += f", though its accounting says {account.state}"
        if silent is not None and silent < (_FRESH_S if account is None else SILENCE_S):
            self._since.pop(path, None)
            return Observed(
                status="unknown", reason=f"{said}; its worker wrote {duration(silent)} ago"
            )
        # A command of a driver that is gone may still be under way.
        patience = _PATIENCE_S * (1 if state.job else 3)
        if not self._settled(path, "missing", patience if account is None else SILENCE_S):
            return Observed(status="unknown", reason=said)
        if account is None:
            return Observed(status="gone", reason=said, outcome="lost")
        since = f"nothing has been heard of it for {duration(SILENCE_S)}"
        return Observed(status="gone", reason=f"{said}; {since}", outcome="interrupted")

    def _settled(self, path: str, what: str, patience_s: float) -> bool:
        """Whether this has been so for `patience_s` seconds of this process's own clock."""
        now = time.monotonic()
        known, since = self._since.setdefault(path, (what, now))
        if known != what:
            self._since[path] = (what, now)
            return False
        return now - since >= patience_s


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


def _to_be_accounted(row: Row | None) -> bool:
    """Whether accounting knows more: of jobs that are over, or gone from the queue."""
    return row is None or row.status == "gone"


def _last_words(state: SubmissionState, row: Row) -> str:
    """How the job ended, and where it failed the last line that each of its nodes printed as an
    error."""
    words = f"Slurm says {row.words}"
    if row.outcome != "failed":
        return words
    logs = state.submission.run.submission_logs(state.submission.number)
    last: dict[int, str] = {}
    for path in sorted(logs.glob("*.err"), reverse=True):
        printed = path.read_text(errors="replace").splitlines()
        # Bars of progress are written there, too.
        lines = [line.strip() for line in printed if line.strip() and "%|" not in line]
        # Rather the program's own than what Slurm says of its end.
        own = [line for line in lines if not _BY_SLURM.match(line)]
        if lines:
            last.setdefault(node_of_log(path), (own or lines)[-1])
    if not any(last):
        return f"{words}: {last[0][:_MOST_LOG]}" if last else words
    told = (f"node {n}: {line[: _MOST_LOG // len(last)]}" for n, line in sorted(last.items()))
    return f"{words}: {'; '.join(told)}"
