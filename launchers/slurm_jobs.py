"""How the jobs of submissions are, by one question to Slurm for all, and one about those gone."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from isosweep.config.slurm import SlurmConfig
from isosweep.launchers.calls import Answer, call
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
from isosweep.store.submissions import Job, SubmissionState

# Seconds between two questions, and above how many jobs the longer is taken: an answer about 500
# jobs is about 50 kB, and their ends are noticed from their files before.
_POLL_S, _LONG_POLL_S, _MANY = 15.0, 30.0, 500
# A job that is seen nowhere, or in a state that Slurm leaves by itself, may be back: accounting
# is late by 0.3 to 2.5 s (measured, Slurm 22.05), and by more where its database is busy.
_PATIENCE_S = 30.0
# How far back accounting is searched for a job that is known by name only, in days: a driver
# that was killed between sbatch and its answer is rarely resumed later.
_DAYS = 30
# What sacct says where the cluster keeps no accounts.
_NO_ACCOUNTING = "accounting storage is disabled"
_MOST_LOG = 300


def job_name(batch: str) -> str:
    """The name of a batch's job, by which it is found where its id is not known."""
    return f"isosweep-{batch}"


class _Rows:
    """What Slurm told, by what a job can be known by."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.by_id: dict[str, Row] = {}
        self._by_raw: dict[str, Row] = {}
        self._by_name: dict[tuple[str, int | None], Row] = {}
        for row in rows:
            self.by_id[row.job_id] = row
            self._by_raw[row.raw_id] = row
            known = self._by_name.get((row.name, row.task))
            # Of two jobs of one submission, of which Slurm took the first without an answer, the
            # living one counts.
            if known is None or known.status == "gone":
                self._by_name[row.name, row.task] = row

    @property
    def arrays(self) -> set[str]:
        """The arrays and single jobs."""
        return set(bases(self.by_id))

    def of(self, state: SubmissionState) -> Row | None:
        """The submission's job."""
        if state.job is not None:
            job_id = state.job.job_id
            known = self.by_id.get(job_id) or self._by_raw.get(job_id)
            return known or _ended(self.by_id.get(bases([job_id])[0]))
        name, index = job_name(state.submission.batch), state.submission.index
        known, whole = self._by_name.get((name, index)), self._by_name.get((name, None))
        return known or (whole if index == 0 else _ended(whole))


def _ended(whole: Row | None) -> Row | None:
    """Of an array that was cancelled before a task began, Slurm tells in one row for all."""
    return whole if whole is not None and whole.status == "gone" else None


class SlurmJobs:
    """Asks Slurm how jobs are, and remembers for how long it has not known of one."""

    def __init__(self, config: SlurmConfig) -> None:
        self.poll_s = _POLL_S
        self._config = config
        self._users = {str(os.getuid())}
        self._accounting = True
        self._since: dict[str, tuple[str, float]] = {}
        # Arrays and single jobs with the tasks that are not over, by the newest answer; None: it
        # gave none. `asked`: those of what was asked for.
        self.asked: set[str] = set()
        self.tasks: Mapping[str, int] | None = None

    def ids(self, submissions: Sequence[SubmissionState]) -> tuple[list[str], list[str], str]:
        """Ids of jobs that wait, and of those that may run; Slurm's words where it said nothing."""
        waiting, running, words = [], [], ""
        for state, seen in zip(submissions, self.observe(submissions), strict=True):
            job = state.job or seen.job
            if seen.status == "pending" and job is not None:
                waiting.append(job.job_id)
            elif seen.status != "gone" and job is not None:
                running.append(job.job_id)
            if seen.status == "unknown":
                words = seen.reason
        return waiting, running, words

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """What is known of their jobs; nothing is concluded where Slurm gives no answer."""
        if not submissions:
            return []
        self.poll_s = _LONG_POLL_S if len(submissions) > _MANY else _POLL_S
        answer = self._ask(squeue(self._users))
        if answer.words is not None:
            self.tasks = None
            return [Observed(status="unknown", reason=answer.words)] * len(submissions)
        queue = _Rows(squeue_rows(answer.out))
        alive = {job_id for job_id, row in queue.by_id.items() if row.status != "gone"}
        asked = [state for state in submissions if _to_be_accounted(queue.of(state))]
        accounts, words = self._accounts(asked) if asked else (_Rows([]), None)
        rows = [row for state in submissions if (row := queue.of(state)) is not None]
        self.tasks = Counter(job_id.partition("_")[0] for job_id in alive)
        self.asked = self.tasks.keys() & bases(row.job_id for row in rows)
        observed = []
        for state in submissions:
            row, account = queue.of(state), accounts.of(state)
            if row is None and account is not None and account.user not in self._users:
                # Somebody else's: from now on they are asked for as well.
                self._users.add(account.user)
                row = account
            seen = self._observed(state, row, account, words)
            if seen.status == "gone" and row is None and account is None and state.job is not None:
                array = bases([state.job.job_id])[0]
                if array != state.job.job_id and (array in queue.arrays | accounts.arrays):
                    # A waiting task that is cancelled leaves no trace but the others.
                    seen = Observed(status="gone", reason="cancelled in Slurm", outcome="cancelled")
            observed.append(seen)
        return observed

    def _ask(self, command: Sequence[str]) -> Answer:
        return call(command, self._config.command_timeout_s)

    def _accounts(self, states: Sequence[SubmissionState]) -> tuple[_Rows, str | None]:
        """What accounting has of the jobs, and its words where it gave no answer."""
        ids = [state.job.job_id for state in states if state.job is not None]
        names = {job_name(state.submission.batch) for state in states if state.job is None}
        rows: list[Row] = []
        commands = [sacct_jobs(ids)] if ids else []
        commands += [sacct_names(names, _DAYS)] if names else []
        for command in commands if self._accounting else []:
            answer = self._ask(command)
            if answer.words is None:
                rows += sacct_rows(answer.out)
            elif _NO_ACCOUNTING in answer.words:
                self._accounting = False
            else:
                return _Rows([]), answer.words
        if ids and not self._accounting:
            # Of other users: the first question was about one's own.
            rows += squeue_rows(self._ask(squeue_jobs(ids)).out)
        return _Rows(rows), None

    def _observed(
        self, state: SubmissionState, row: Row | None, account: Row | None, words: str | None
    ) -> Observed:
        path = str(state.submission.path)
        if row is None:
            if words is not None:
                return Observed(status="unknown", reason=words)
            return self._not_in_queue(path, state, account)
        if row.state == "CANCELLED" and account is not None and account.state == "CANCELLED":
            row = account
        job = Job(job_id=row.job_id) if state.job is None else None
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

    def _not_in_queue(self, path: str, state: SubmissionState, account: Row | None) -> Observed:
        """Of a job that the queue does not have; accounting is late, and so may its answer be."""
        if account is not None and account.status == "gone":
            job = Job(job_id=account.job_id) if state.job is None else None
            words = _last_words(state, account)
            return Observed(status="gone", reason=words, outcome=account.outcome, job=job)
        # A command of a driver that is gone may still be under way.
        patience = _PATIENCE_S + (self._config.command_timeout_s if state.job is None else 0.0)
        name = state.job.job_id if state.job else job_name(state.submission.batch)
        said = f"Slurm has no job {name} in its queue"
        if account is not None:
            said += f", though its accounting says {account.state}"
        if not self._settled(path, "missing", patience):
            return Observed(status="unknown", reason=said)
        return Observed(status="gone", reason=said, outcome="lost")

    def _settled(self, path: str, what: str, patience_s: float) -> bool:
        """Whether this has been so for `patience_s` seconds of this process's own clock."""
        now = time.monotonic()
        known, since = self._since.setdefault(path, (what, now))
        if known != what:
            self._since[path] = (what, now)
            return False
        return now - since >= patience_s


def _to_be_accounted(row: Row | None) -> bool:
    """Whether accounting knows more: of jobs that are gone from the queue, and who cancelled."""
    return row is None or row.state == "CANCELLED"


def _last_words(state: SubmissionState, row: Row) -> str:
    """How the job ended, and where it failed the last line that it printed as an error."""
    words = f"Slurm says {row.words}"
    if row.outcome != "failed":
        return words
    logs = state.submission.run.submission_logs(state.submission.number)
    for path in sorted(logs.glob("*.err"), reverse=True):
        printed = path.read_text(errors="replace").splitlines()
        lines = [line.strip() for line in printed if line.strip()]
        # Rather the program's own than what Slurm says of its end.
        own = [line for line in lines if not line.startswith(("srun:", "slurmstepd:"))]
        if lines:
            return f"{words}: {(own or lines)[-1][:_MOST_LOG]}"
    return words
