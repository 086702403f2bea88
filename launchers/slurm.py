"""Runs as Slurm jobs: an array for each shape of job, and one question about all of them.

A job is an attempt's only where its name and its place in an array are: after a controller has lost
its state, or in another cluster, an id is somebody else's. How a run ended its worker says; Slurm
is believed where a job is gone without a word.
"""

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from isosweep.commands import call
from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.files import file_system_time, highest_of, names, write_text
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.sbatch import (
    Shape,
    gpus_of_node,
    largest,
    longest_minutes,
    sbatch_text,
    shape_of,
)
from isosweep.plan.cells import PlannedRun
from isosweep.store.attempts import Attempt, LauncherName, Status
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import duration

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
# A job that is gone: how its attempt ended if its worker has not said so. Interrupted is what the
# worker could not help.
_GONE = {
    "COMPLETED": Status.LOST,
    "FAILED": Status.FAILED,
    "OUT_OF_MEMORY": Status.FAILED,
    "DEADLINE": Status.FAILED,
    "LAUNCH_FAILED": Status.FAILED,
    "CANCELLED": Status.CANCELLED,
    "TIMEOUT": Status.INTERRUPTED,
    "PREEMPTED": Status.INTERRUPTED,
    "NODE_FAIL": Status.INTERRUPTED,
    "BOOT_FAIL": Status.INTERRUPTED,
    "REVOKED": Status.INTERRUPTED,
    "RECONFIG_FAIL": Status.INTERRUPTED,
}
# Slurm may show these for a moment before it requeues the job.
_REQUEUED_AFTER = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED")
# Why a job waits although nothing that Slurm does by itself will start it (squeue(1), JOB REASON
# CODES).
_HELD = ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "JobLaunchFailure", "launch_failed")

# sbatch's words for what passes: the controller is down or between two of its lives, or a limit on
# jobs is reached, or the file system is full (src/common/slurm_errno.c, slurm_strerror, and
# slurm_protocol_defs.c, job_state_reason_string). Of users and names that are unknown for a moment
# the queue makes sure by trying again.
_LIMIT = (
    r"SubmitJob|MaxJobCount|Unable to create job record|violates accounting/QOS policy"
    r"|Invalid job array"
)
_PASSING = re.compile(
    rf"{_LIMIT}|[Cc]onnect|[Cc]ontroller|timed out|standby mode|No route to host|[Uu]nexpected mess"
    r"|Zero Bytes|(Message|Communication) .*failure|forced closed|socket error|authentication"
    r"|configuration (source|file)|Required (partition|node) not available|presently disabled"
    r"|reservation not usable now|I/O error writing|DB index is being set|Munge encode failed"
    r"|Resource temporarily|Rate limit|No space left|temporarily unable"
)
# Other limits of accounting are named before the policy: a job is longer, or larger, than allowed.
_NEVER = re.compile(r"PerJob|MaxWall|MinCpu")
# Of these the request may have reached the controller, and the answer not us.
_UNKNOWN = re.compile(
    r"timed out on send/recv|Zero Bytes|(Message|Communication) .*failure|forced closed|socket err"
)

# Seconds between two questions, and above how many jobs the longer is taken: an answer about 500
# jobs is about 50 kB, and their ends are noticed from their files before.
_POLL_S, _LONG_POLL_S, _MANY = 15.0, 30.0, 500
# A job that is seen nowhere, or in a state that Slurm leaves by itself, may be back; so may one
# whose sbatch of a driver that was killed is still under way.
_PATIENCE_S = 60.0
# A worker that wrote so recently lives, whatever Slurm does not say of its job: it writes every 5 s
# (`store.attempts.HEARTBEAT_S`), and a network file system may show that a minute later (nfs(5),
# acregmax).
_FRESH_S = 120.0
# Jobs that one scancel is given: far below what a command line holds.
_AT_ONCE = 500
_MOST_LOG = 300
# What Slurm's own programs print beside a worker, the second with the name of its node.
_BY_SLURM = re.compile(r"(srun|slurmstepd(-\S+)?):")
# What scancel says of jobs that have ended meanwhile, which is no failure.
_ENDED = ("Invalid job id", "already completing or completed")


@dataclass(frozen=True)
class Row:
    """A task of an array, as squeue shows it: `job_id` as `17_3`, its state, and why it waits."""

    job_id: str
    state: str
    detail: str

    @property
    def words(self) -> str:
        """Its state, and why."""
        held = "; it has to be released" if self.detail in _HELD else ""
        return f"{self.state} ({self.detail}{held})" if self.detail else self.state


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
        detail = "" if reason == "None" or state == "CANCELLED" else reason
        for part in tasks.strip("[]").partition("%")[0].split(","):
            first, _, last = part.partition("-")
            if first.isdecimal():
                for task in range(int(first), int(last or first) + 1):
                    rows[name, task] = Row(f"{array}_{task}", state, detail)
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
        # When this process first saw that a job is gone, by its attempt's file.
        self._gone_since: dict[Path, float] = {}
        # Attempts whose jobs it has seen, by their files.
        self._seen: set[Path] = set()

    @cached_property
    def at_once(self) -> int:  # type: ignore[override]
        """Tasks of an array: MaxArraySize is one more than the highest index."""
        text = call(["scontrol", "show", "config"]).output
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
        return max(1, int(found[1])) if found else Launcher.at_once

    @cached_property
    def _longest_min(self) -> float:
        return math.inf if self._slurm.timeout_min else longest_minutes(self._slurm)

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Submit an array for each shape of job, in parts where a limit allows no more at once."""
        answers: dict[Path, Refused | None] = {}
        sent: list[str] = []
        for left in self._batches(orders, lambda order: order.run):
            size = len(left)
            while left:
                part, left = left[:size], left[size:]
                refused = self._sbatch(part, sent)
                if refused and re.search(_LIMIT, refused.reason) and len(part) > 1:
                    left, size = part + left, len(part) // 2
                    continue
                answers |= dict.fromkeys((order.attempt.path for order in part), refused)
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
        """What Slurm says of their jobs; nothing is concluded where it gives no answer."""
        if not attempts:
            return []
        self.poll_s = _LONG_POLL_S if len(attempts) > _MANY else _POLL_S
        users = {str(os.getuid())}
        for attempt in {attempt.batch: attempt for attempt in attempts}.values():
            with suppress(OSError):
                users.add(str(attempt.path.stat().st_uid))
        # By user, because the controller then sends no others; of a list of ids it sends all jobs.
        format_, whose = "--format=%i|%T|%r|%j", f"--user={','.join(sorted(users))}"
        answer = call(["squeue", "--noheader", "--array", "--states=all", format_, whose])
        if answer.failure is not None:
            return [Observed(status="unknown", reason=answer.failure)] * len(attempts)
        rows, clock = rows_of(answer.output), file_system_time(attempts[0].run.root)
        arrays = {name for name, _ in rows}
        return [self._observed(attempt, rows, arrays, clock) for attempt in attempts]

    def _observed(
        self, attempt: Attempt, rows: dict[tuple[str, int], Row], arrays: set[str], clock: float
    ) -> Observed:
        name = job_name(attempt)
        row = rows.get((name, attempt.index))
        if row is None:
            return self._missing(attempt, clock, others=name in arrays)
        self._seen.add(attempt.path)
        if row.state in _PENDING or row.state in _RUNNING:
            self._gone_since.pop(attempt.path, None)
            status: Literal["pending", "running"]
            status = "pending" if row.state in _PENDING else "running"
            return Observed(status=status, reason=row.words, job_id=row.job_id)
        said = f"Slurm says {row.words}"
        if row.state not in _GONE:
            return Observed(status="unknown", reason=said, job_id=row.job_id)
        returns = self._slurm.requeue and row.state in _REQUEUED_AFTER
        if returns and not self._gone_for_long(attempt):
            reason = f"{row.state}: Slurm may start it again"
            return Observed(status="unknown", reason=reason, job_id=row.job_id)
        outcome = _GONE[row.state]
        if outcome is Status.FAILED and (line := _last_error(attempt)):
            said = f"{said}: {line}"
        return Observed(status="gone", reason=said, outcome=outcome, job_id=row.job_id)

    def _missing(self, attempt: Attempt, clock: float, *, others: bool) -> Observed:
        """Of a job that the queue does not have: lost once its worker has been silent for long.
        `others`: tasks of its array are there."""
        said = f"Slurm has no job {attempt.job_id or job_name(attempt)} in its queue"
        for_long = self._gone_for_long(attempt)
        if attempt.status is Status.RUNNING:
            silent = max(0.0, clock - attempt.path.stat().st_mtime)
            if silent < _FRESH_S:
                said += f"; its worker wrote {duration(silent)} ago"
                return Observed(status="unknown", reason=said)
        if not for_long:
            return Observed(status="unknown", reason=said)
        if others and attempt.path in self._seen and attempt.worker is None:
            # A waiting task that is cancelled leaves no trace but the others.
            return Observed(status="gone", reason="cancelled in Slurm", outcome=Status.CANCELLED)
        return Observed(status="gone", reason=said, job_id=attempt.job_id)

    def _gone_for_long(self, attempt: Attempt) -> bool:
        """Whether its job has been gone for `_PATIENCE_S` of this process's own clock."""
        now = time.monotonic()
        return now - self._gone_since.setdefault(attempt.path, now) >= _PATIENCE_S

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Cancel jobs that wait and send SIGTERM to the workers of others, or cancel all (`kill`:
        Slurm sends SIGTERM and, KillWait seconds later, SIGKILL)."""
        waiting: list[str] = []
        running: dict[str, list[str]] = {}
        problems: list[str] = []
        for attempt, seen in zip(attempts, self.observe(attempts), strict=True):
            if seen.status == "unknown":
                problems.append(seen.reason)
            if seen.job_id is None or seen.status == "gone":
                continue
            if seen.status == "pending":
                waiting.append(seen.job_id)
            else:
                running.setdefault(job_name(attempt), []).append(seen.job_id)
        # Slurm has just said that these are the sweep's, by id and name (`grouped` says why no
        # name is given).
        problems += _cancel([], waiting)
        for name, ids in running.items():
            problems += _cancel([f"--name={name}", *([] if kill else ["--signal=TERM"])], ids)
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
        """Those whose jobs may be one array, as many together as an array may have tasks."""
        together: dict[tuple[object, ...], list[T]] = {}
        for one in each:
            together.setdefault(self._alike(run_of(one)), []).append(one)
        size = self.at_once
        return [
            alike[first : first + size]
            for alike in together.values()
            for first in range(0, len(alike), size)
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
        most = self._config.launcher.max_parallel
        shape = largest(self._shape(run) for run in runs)
        after = () if most is None else after
        config = self._of_variant(runs[0])
        return sbatch_text(config, shape, name, directory, tasks, parallel=most, after=after)

    def _alike(self, run: PlannedRun) -> tuple[object, ...]:
        """What runs of one array have in common. Slurm throttles each array by itself: where
        `max_parallel` is given, runs of any length share one, and none leaves a place idle."""
        config = self._of_variant(run)
        shape = self._shape(run) if self._config.launcher.max_parallel is None else None
        return config.hardware.nodes, gpus_of_node(config), shape

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


def _cancel(options: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Call scancel for jobs of these ids; what it says of those that it could not cancel."""
    said: list[str] = []
    for first in range(0, len(ids), _AT_ONCE):
        answer = call(["scancel", *options, *grouped(ids[first : first + _AT_ONCE])])
        # Without a word it failed at others of the array, which have ended or wait: Slurm 22.05
        # tells that by its status alone.
        if answer.errors or answer.status is None:
            said += (answer.failure or "").split("; ")
    return [line for line in said if line and not any(ended in line for ended in _ENDED)]


def grouped(job_ids: Iterable[str]) -> list[str]:
    """`job_ids` with the tasks of an array in one word, as `17_[3,5]`: one request of scancel each.

    With a filter, as `--name`, scancel of Slurm 22.05 cancels all waiting tasks of the array for
    one that waits.
    """
    tasks: dict[str, list[str]] = {}
    for job_id in job_ids:
        array, _, task = job_id.partition("_")
        tasks.setdefault(array, []).append(task)
    return [f"{array}_[{','.join(own)}]" for array, own in tasks.items()]
