"""Runs as Slurm jobs: an array for each shape of job, and one question about all of them.

A job is an attempt's only where its name and its place in an array are: after a controller has lost
its state, or in another cluster, an id is somebody else's. When a job is gone `launchers.liveness`
decides.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from isosweep.commands import call
from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.files import highest_of, names, write_text
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.sbatch import (
    Shape,
    gpus_of_node,
    longest_minutes,
    ranges,
    sbatch_text,
    shape_of,
)
from isosweep.plan.cells import PlannedRun
from isosweep.store.attempts import Attempt, LauncherName, Status
from isosweep.store.paths import SweepPaths

T = TypeVar("T")

# JOB STATE CODES of squeue(1), Slurm 22.05 to 25.05.
_PENDING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "POWER_UP_NODE"),
)
_RUNNING = (
    *("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"),
    *("UPDATE_DB", "EXPEDITING"),
)
# A job that has ended: how its attempt did if its worker has not said so. Interrupted is what the
# worker could not help.
_OUTCOMES = {
    "COMPLETED": Status.LOST,
    "CANCELLED": Status.CANCELLED,
    **dict.fromkeys(("FAILED", "OUT_OF_MEMORY", "DEADLINE", "LAUNCH_FAILED"), Status.FAILED),
    **dict.fromkeys(
        ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "RECONFIG_FAIL"),
        Status.INTERRUPTED,
    ),
}
# Slurm may show these for a moment before it requeues the job.
_REQUEUED_AFTER = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED")

# sbatch's words for what passes: the controller is down or between two of its lives, or a limit on
# jobs is reached, or the file system is full (src/common/slurm_errno.c, slurm_strerror, and
# slurm_protocol_defs.c, job_state_reason_string). Of users and names that are unknown for a moment
# the queue makes sure by trying again.
_LIMIT = re.compile(
    r"SubmitJob|MaxJobCount|Unable to create job record|violates accounting/QOS policy"
    r"|Invalid job array"
)
_PASSING = re.compile(
    rf"{_LIMIT.pattern}|[Cc]onnect|[Cc]ontroller|timed out|standby mode|No route to host"
    r"|[Uu]nexpected mess|Zero Bytes|(Message|Communication) .*failure|forced closed"
    r"|socket error|authentication|configuration (source|file)|presently disabled"
    r"|Required (partition|node) not available|reservation not usable now|I/O error writing"
    r"|DB index is being set|Munge encode failed|Resource temporarily|Rate limit"
    r"|No space left|temporarily unable"
)
# Other limits of accounting are named before the policy: a job is longer, or larger, than allowed.
_NEVER = re.compile(r"PerJob|MaxWall|MinCpu")
# Of these the request may have reached the controller, and the answer not us.
_UNKNOWN = re.compile(
    r"timed out on send/recv|Zero Bytes|(Message|Communication) .*failure|forced closed|socket err"
)

# Seconds between two questions to Slurm; how runs end is noticed from their files before.
_POLL_S = 15.0
# Characters of a log's line that are told.
_MOST_LOG = 300
# What Slurm's own programs print beside a worker, the second with the name of its node.
_BY_SLURM = re.compile(r"(srun|slurmstepd(-\S+)?):")
# What scancel says of jobs that have ended meanwhile, which is no failure.
_ENDED = ("Invalid job id", "already completing or completed")


class Row(NamedTuple):
    """A task of an array, as squeue shows it: its job's id, `17_3`, and its state in words."""

    job_id: str
    state: str
    words: str


def rows_of(text: str) -> dict[tuple[str, int], Row]:
    """What squeue printed, by name and task. Lines of anything else are left out, and an array that
    was cancelled before it began, which has one line, counts for all its tasks."""
    rows = {}
    lines = (line.split("|", 3) for line in text.splitlines())
    for job_id, state, reason, name in (fields for fields in lines if len(fields) == 4):
        array, _, tasks = job_id.partition("_")
        if not array.isdecimal():
            continue
        # Of a job that was cancelled it is the last one why it waited.
        words = state if reason == "None" or state == "CANCELLED" else f"{state} ({reason})"
        for part in tasks.strip("[]").partition("%")[0].split(","):
            first, _, last = part.partition("-")
            if first.isdecimal():
                for task in range(int(first), int(last or first) + 1):
                    rows[name, task] = Row(f"{array}_{task}", state, words)
    return rows


def job_name(attempt: Attempt) -> str:
    """What its array is called, by which its job is found where its id is not known."""
    return f"isosweep-{attempt.batch}"


class SlurmLauncher(Launcher):
    """Submits runs as job arrays, and follows them by squeue.

    Slurm throttles each array by itself to `launcher.max_parallel`. So that several together keep
    to it, one that is submitted with others begins after them, and the queue submits more only
    where fewer runs are active.
    """

    name: LauncherName = "slurm"
    detaches = True
    places = False

    def __init__(self, config: SweepConfig) -> None:
        self._config, self._slurm = config, config.launcher.slurm
        self._variants = combinations(config)
        self.poll_s = _POLL_S
        # Attempts whose jobs it has seen, by their files.
        self._seen: set[Path] = set()

    @cached_property
    def max_batch(self) -> int:  # type: ignore[override]
        """Tasks of an array: MaxArraySize is one more than the highest index."""
        text = call(["scontrol", "show", "config"]).output
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
        return max(1, int(found[1])) if found else Launcher.max_batch

    @cached_property
    def _longest_min(self) -> float:
        return math.inf if self._slurm.timeout_min else longest_minutes(self._slurm)

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Submit an array for each shape of job, in halves where a limit allows no more at once."""
        answers: dict[Path, Refused | None] = {}
        sent: list[str] = []
        for batch in self._batches(orders, lambda order: order.run):
            size = len(batch)
            while batch:
                part = batch[:size]
                refused = self._sbatch(part, sent)
                if refused and _LIMIT.search(refused.reason):
                    if len(part) > 1:
                        size = len(part) // 2
                        continue
                    if refused.passing:
                        # There is room for none of them.
                        part = batch
                answers |= dict.fromkeys((order.attempt.path for order in part), refused)
                batch = batch[len(part) :]
        return [answers[order.attempt.path] for order in orders]

    def _sbatch(self, orders: Sequence[Order], sent: list[str]) -> Refused | None:
        """Submit one array, to begin after those of `sent`, and add its id there."""
        tasks = {order.attempt.index: order for order in orders}
        first = orders[0].attempt
        directory = SweepPaths(Path(first.sweep).absolute(), Path()).jobs / first.batch
        runs = [order.run for order in orders]
        text = self._text(runs, job_name(first), directory, sorted(tasks), sent)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Slurm knows one directory of output for all tasks: in it, each task's leads to the
            # run's.
            for task, order in tasks.items():
                link = directory / str(task)
                if not link.is_symlink():
                    link.symlink_to(order.logs.absolute(), target_is_directory=True)
            write_text(directory / f"{first.index}.sbatch", text)
        except OSError as error:
            return Refused(reason=f"{error.strerror}: {error.filename}", passing=True)
        # As it was made: the file may be another by now.
        answer = call(["sbatch", "--parsable"], given=text)
        # With several clusters it is followed by the cluster's name.
        job_id = answer.output.strip().rpartition("\n")[2].partition(";")[0]
        if answer.failure is None and job_id.isdecimal():
            sent.append(job_id)
            return None
        words = answer.failure or f"sbatch answered {answer.output.strip()!r}"
        if answer.timed_out or answer.failure is None or _UNKNOWN.search(words):
            # The job may be there: it is looked for by its name.
            return None
        passing = bool(_PASSING.search(words)) and not _NEVER.search(words)
        return Refused(reason=words, passing=passing)

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """What Slurm says of their jobs, by one call of squeue."""
        users = {str(os.getuid())}
        for attempt in {attempt.batch: attempt for attempt in attempts}.values():
            with suppress(OSError):
                users.add(str(attempt.path.stat().st_uid))
        # By user, because the controller then sends no others; of a list of ids it sends all jobs.
        format_, whose = "--format=%i|%T|%r|%j", f"--user={','.join(sorted(users))}"
        answer = call(["squeue", "--noheader", "--array", "--states=all", format_, whose])
        if answer.failure is not None:
            return [Observed(status="unknown", reason=answer.failure)] * len(attempts)
        rows = rows_of(answer.output)
        arrays = {name for name, _ in rows}
        return [self._observed(attempt, rows, arrays) for attempt in attempts]

    def _observed(
        self, attempt: Attempt, rows: dict[tuple[str, int], Row], arrays: set[str]
    ) -> Observed:
        name = job_name(attempt)
        row = rows.get((name, attempt.index))
        if row is None:
            if attempt.path in self._seen and attempt.worker is None and name in arrays:
                # A waiting task that is cancelled leaves no trace but the others of its array.
                reason, outcome = "cancelled in Slurm", Status.CANCELLED
                return Observed(status="missing", reason=reason, outcome=outcome)
            reason = f"Slurm has no job {attempt.job_id or name} in its queue"
            return Observed(status="missing", reason=reason, job_id=attempt.job_id)
        self._seen.add(attempt.path)
        if row.state in _PENDING:
            return Observed(status="pending", reason=row.words, job_id=row.job_id)
        if row.state in _RUNNING:
            return Observed(status="running", reason=row.words, job_id=row.job_id)
        said = f"Slurm says {row.words}"
        if row.state not in _OUTCOMES:
            return Observed(status="unknown", reason=said, job_id=row.job_id)
        outcome = _OUTCOMES[row.state]
        if self._slurm.requeue and row.state in _REQUEUED_AFTER:
            return Observed(status="restarting", reason=said, outcome=outcome, job_id=row.job_id)
        if outcome is Status.FAILED and (line := _last_error(attempt)):
            said = f"{said}: {line}"
        return Observed(status="ended", reason=said, outcome=outcome, job_id=row.job_id)

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Cancel jobs that wait and send SIGTERM to the workers of others, or cancel all (`kill`:
        Slurm sends SIGTERM and, KillWait seconds later, SIGKILL)."""
        # Slurm has just said that these ids are the sweep's, by their names.
        found = self.observe(attempts)
        waiting = [seen.job_id for seen in found if seen.job_id and seen.status == "pending"]
        over = ("pending", "ended", "missing")
        running = [seen.job_id for seen in found if seen.job_id and seen.status not in over]
        problems = [seen.reason for seen in found if seen.status == "unknown"]
        problems += _cancel([], waiting)
        problems += _cancel([] if kill else ["--signal=TERM"], running)
        return "; ".join(dict.fromkeys(problems)) or None

    def scripts(
        self, runs: Sequence[PlannedRun], sweep: Path
    ) -> Iterator[tuple[list[PlannedRun], str]]:
        """What `submit` would hand to sbatch for `runs` of a sweep, and for which of them."""
        sent: list[str] = []
        for number, batch in enumerate(self._batches(runs, lambda run: run)):
            name = f"BATCH{number}"
            directory = SweepPaths(sweep, Path()).jobs / name
            yield batch, self._text(batch, f"isosweep-{name}", directory, range(len(batch)), sent)
            sent.append(f"ID{number}")

    def _batches(self, each: Sequence[T], run_of: Callable[[T], PlannedRun]) -> list[list[T]]:
        """Those whose jobs may be one array, as many together as an array may have tasks.

        Slurm throttles each array by itself: where `max_parallel` is given, runs of any length
        share one, and none leaves a place idle.
        """
        alike: dict[tuple[object, ...], list[T]] = {}
        for one in each:
            config = self._of_variant(run_of(one))
            by_shape = self._config.launcher.max_parallel is None
            shape = self._shape(run_of(one)) if by_shape else None
            key = (config.hardware.nodes, gpus_of_node(config), shape)
            alike.setdefault(key, []).append(one)
        size = self.max_batch
        return [
            together[first : first + size]
            for together in alike.values()
            for first in range(0, len(together), size)
        ]

    def _text(
        self,
        runs: Sequence[PlannedRun],
        name: str,
        directory: Path,
        tasks: Sequence[int],
        after: Sequence[str],
    ) -> str:
        """Return the script of an array of `tasks`, each with a link in `directory`."""
        shapes = [self._shape(run) for run in runs]
        shape = Shape(
            timeout_min=max(each.timeout_min for each in shapes),
            memory_mb=max(each.memory_mb for each in shapes),
            lead_s=max(each.lead_s for each in shapes),
        )
        most = self._config.launcher.max_parallel
        after = () if most is None else after
        config = self._of_variant(runs[0])
        return sbatch_text(config, shape, name, directory, tasks, parallel=most, after=after)

    def _shape(self, run: PlannedRun) -> Shape:
        return shape_of(self._of_variant(run), run, self._longest_min)

    def _of_variant(self, run: PlannedRun) -> SweepConfig:
        """The config of the run's combination of `grid.axes`."""
        return next((v.config for v in self._variants if v.axes == run.axes), self._config)


def _last_error(attempt: Attempt) -> str:
    """The last line that the job printed as an error, but for Slurm's own and bars of progress.
    What starts again prints on where it did."""
    logs = attempt.run.attempt_logs(highest_of(names(attempt.run.logs)))
    for path in sorted(logs.glob("*.err")):
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
        own = [x for x in lines if x and "%|" not in x and not _BY_SLURM.match(x)]
        if own:
            return own[-1][:_MOST_LOG]
    return ""


def _cancel(options: Sequence[str], job_ids: Sequence[str]) -> list[str]:
    """Call scancel for jobs of these ids; what it says of those that it could not cancel.

    The tasks of an array are one word, `17_[3,5]`, and one request. No name is given beside them:
    with a filter, scancel of Slurm 22.05 cancels all waiting tasks of the array for one that waits.
    """
    if not job_ids:
        return []
    tasks: dict[str, list[int]] = {}
    for array, _, task in (job_id.partition("_") for job_id in job_ids):
        tasks.setdefault(array, []).append(int(task))
    words = [f"{array}_[{ranges(sorted(own))}]" for array, own in tasks.items()]
    answer = call(["scancel", *options, *words])
    # Without a word it failed at others of the array, which have ended or wait: Slurm 22.05 tells
    # that by its status alone.
    said = (answer.failure or "").split("; ") if answer.errors or answer.status is None else []
    return [line for line in said if line and not any(ended in line for ended in _ENDED)]
