"""One attempt at one training run, from its newest checkpoint to its largest budget."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from isosweep.compute import BudgetUnit, Compute
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.config.settings import read
from isosweep.config.trust import executed_by_run, read_checked, require_unpickled
from isosweep.devices import device_after, keep_first, showing
from isosweep.errors import RecordError, RefusedError, SettingError
from isosweep.files import JsonObject
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import (
    BEGINNING,
    LOADING,
    MEETING,
    Attempt,
    OvertakenError,
    Status,
    claim,
)
from isosweep.store.attempts import read as read_attempt
from isosweep.store.checkpoints import ResumePoint, find_resume_point, keep_only
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.training.changed import changed
from isosweep.training.distributed import Rank, join, run_ranks
from isosweep.training.health import HealthMonitor
from isosweep.training.reporter import Reporter
from isosweep.training.schedule import Schedule
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.training.generator import Generator
    from isosweep.training.loop import TrainingLoop

_SAVING = CheckpointConfig()
_ALONE = Rank()


class RanksError(Exception):
    """The processes of an attempt have failed, and have said how."""


@dataclass(frozen=True)
class TrainRun:
    """What a worker is to do: train `run_dir` up to the last of `milestones`.

    It says only where to read, how far to go, what ends the run before that, and how it is saved.
    `requeue`: when its scheduler warns of a time limit or a preemption the worker has its job start
    again. `stuck_after_s`: seconds without progress after which the run is taken for stuck.
    `trust`: what others may have written is executed.
    """

    run_dir: str
    milestones: tuple[float, ...]
    unit: BudgetUnit
    health: HealthConfig
    saving: CheckpointConfig = _SAVING
    requeue: bool = False
    stuck_after_s: float | None = None
    trust: bool = False

    def __call__(self) -> Status | None:
        """Make an attempt that nobody submitted; returns how it ended."""
        own = replace(claim(self.run), job=self.to_json())
        own.write()
        return run_attempt(own, self)

    @property
    def run(self) -> RunPaths:
        """The run's files."""
        return RunPaths(Path(self.run_dir))

    def to_json(self) -> JsonObject:
        """The job, as an attempt's file has it."""
        document = asdict(self)
        del document["run_dir"]
        return document

    @staticmethod
    def from_json(run_dir: str, document: JsonObject) -> "TrainRun":
        """The job that `to_json` wrote, of the run in `run_dir`."""
        return TrainRun(
            run_dir,
            tuple(document["milestones"]),
            document["unit"],
            read(HealthConfig, document["health"]),
            read(CheckpointConfig, document["saving"]),
            document.get("requeue", False),
            document.get("stuck_after_s"),
            document.get("trust", False),
        )


@dataclass(frozen=True, kw_only=True)
class Session:
    """One process's part in an attempt: which run, from where, how far, and what may end it.

    `began`: when the attempt did, by the monotonic clock.
    """

    job: TrainRun
    attempt: Attempt
    spec: RunSpec
    start: ResumePoint
    rank: Rank
    stop: StopRequest
    began: float

    @cached_property
    def schedule(self) -> Schedule:
        """How far the run goes, and when it is recorded."""
        per_decade = self.spec.evaluation.records_per_decade
        return Schedule(self.job.milestones, self.job.unit, per_decade)

    @cached_property
    def monitor(self) -> HealthMonitor:
        """The run's health, as it was where the attempt starts."""
        return HealthMonitor(
            self.job.health, self.spec.problems_per_batch, self.start.progress.get("health")
        )

    @cached_property
    def reporter(self) -> Reporter:
        """What writes the run's files; it begins with what earlier attempts have spent."""
        reporter = Reporter(self.attempt, self.rank, self.monitor, self.start.step)
        records = read_records(self.job.run.records).records
        reporter.spent = records[-1].compute if records else Compute()
        return reporter

    def outcome(self, spent: Compute) -> tuple[Status, str]:
        """How an attempt that left by itself has ended with `spent` behind it, and why."""
        ended = self.monitor.verdict
        if ended is not None:
            return Status.DIVERGED, f"{ended.rule} at step {ended.step}: {ended.message}"
        if self.stop.reason is None or self.schedule.is_over(spent):
            return Status.FINISHED, ""
        return self.stop.left, self.stop.reason


@contextmanager
def lean_imports() -> Iterator[None]:
    """Hides, while the training stack is imported, what it imports merely because it is there.

    TRL and transformers look for MLflow and scikit-learn, which take a second and which no worker
    uses; a task's own code finds them again afterwards. Not wandb: TRL looks for it again as it
    saves, and then uses what it would have imported. Both read the metadata of every installed
    package, which is done once here.
    """
    hidden = [name for name in ("mlflow", "sklearn") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: cannot be imported
    try:
        with changed(metadata, packages_distributions=cache(metadata.packages_distributions)):
            yield
    finally:
        for name in hidden:
            del sys.modules[name]


def run_attempt(
    attempt: Attempt, job: TrainRun, stop: StopRequest | None = None, rank: Rank = _ALONE
) -> Status | None:
    """Train until the largest milestone is reached; returns how the attempt ended, None where a
    later one owns the run.

    `rank`: 0, where a scheduler has started the others too. A run that breaks a health rule of
    `health.stop` has diverged: a result, recorded as such. A failure is recorded, and raised again.
    """
    began, stop = time.monotonic(), stop or StopRequest()
    stop.requeues = job.requeue
    stop.install()
    spec = spec_of(job.run, trust=job.trust)
    # A command starts its own processes.
    ranks = spec.devices if spec.trainer.name == "trl" else 1
    if rank.count == 1 < ranks:
        return _start_ranks(attempt, ranks, stop)
    if rank.count != ranks:
        raise RecordError(f"{spec.run_id} has {ranks} processes, and its job {rank.count} tasks")
    point = find_resume_point(job.run, attempt.number)
    if point.checkpoint is not None and spec.sharding != "ddp" and not job.trust:
        require_unpickled(point.checkpoint)
    for loss in point.losses:
        sys.stderr.write(f"{job.run.run_id}: {loss}\n")
    if point.checkpoint is not None and job.saving.keep != "all":
        # What kills left half written would add up.
        keep_only(job.run, attempt.number, [point.checkpoint])
    return _attempt(
        Session(job=job, attempt=attempt, spec=spec, start=point, rank=rank, stop=stop, began=began)
    )


def _attempt(session: Session) -> Status | None:
    """The attempt, as rank 0 makes it."""
    attempt, stop, reporter = session.attempt, session.stop, session.reporter
    stop.last_words = lambda reason: reporter.state(stop.left, reason)
    if session.rank.count > 1:
        # Who started the ranks then ends the others.
        stop.status = 1
    try:
        with reporter.beating(stop):
            loop = _train(session)
            # A cancelled job is sent a signal as well, and may have seen that first.
            stop.look(attempt)
        status, reason = session.outcome(reporter.spent)
        reporter.state(status, reason)
        if loop is not None and status in (Status.FINISHED, Status.DIVERGED):
            loop.tidy()
            reporter.tidied()
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
        return None
    except BaseException as error:
        try:
            # What another rank has said came first.
            if read_attempt(attempt.run, attempt.number).live:
                reporter.state(*failure(error))
        except OvertakenError as overtaken:
            # A later attempt may have removed what this one was writing.
            sys.stderr.write(f"{overtaken}\n")
            return None
        except (OSError, RecordError):
            # A disk that is full takes no state either: what it met is what is raised.
            pass
        raise
    return status


def take_part(job: TrainRun, rank: Rank, stop: StopRequest) -> None:
    """Take part in the attempt of rank 0, as another rank."""
    began = time.monotonic()
    # Rank 0 decides what a second signal means.
    stop.patient = True
    spec = spec_of(job.run, trust=job.trust)
    _import_stack(spec, rank)
    join(rank, spec.device)
    number, start = rank.agree((0, ResumePoint(0, None, None)))
    session = Session(
        job=job,
        attempt=read_attempt(job.run, number),
        spec=spec,
        start=start,
        rank=rank,
        stop=stop,
        began=began,
    )
    try:
        _train(session)
    except BaseException as error:
        status, reason = failure(error)
        with suppress(OSError):
            session.attempt.end(status, f"rank {rank.number} ({socket.gethostname()}): {reason}")
        raise


def _train(session: Session) -> "TrainingLoop | None":
    """Train as far as it goes; the loop that did, None where there was none: a stop came before it
    was made, or a command trains."""
    reporter, spec, rank = session.reporter, session.spec, session.rank
    reporter.doing(LOADING)
    reporter.state(Status.RUNNING)
    if spec.trainer.name == "command":
        from isosweep.training.command import CommandTrainer

        CommandTrainer(session).run()
        return None
    directory = str(weights(spec.model))
    with _generator(session, directory) as generator:
        make_loop = _import_stack(spec, rank)
        if rank.count > 1 and rank.leads:
            reporter.doing(MEETING)
            join(rank, spec.device)
            rank.agree((session.attempt.number, session.start))
            reporter.doing(LOADING)
        # Several processes can only leave together: they agree on it when training begins.
        if rank.count == 1 and session.stop.at_once:
            return None
        loop = make_loop(session, directory, generator)
        reporter.doing(BEGINNING)
        loop.run()
        return loop


def _import_stack(spec: RunSpec, rank: Rank) -> "Callable[..., TrainingLoop]":
    """Import what trains, once its threads and devices are said; what makes a loop."""
    if spec.device == "cpu":
        # More threads than cores slow tiny models by an order of magnitude.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        # More of them, as a job may be given, would make transformers split each batch over them.
        keep_first(rank.per_node)
    with lean_imports():
        from isosweep.training.assembly import make_loop
    return make_loop


def _generator(session: Session, directory: str) -> "AbstractContextManager[Generator | None]":
    """The process that samples for the run, on the device after those that train, if one does."""
    job, spec, rank = session.job, session.spec, session.rank
    if not spec.generation.overlap:
        return nullcontext()
    from isosweep.training.generator import LOADING_S, Generator

    shown = spec.device == "cuda" and rank.leads
    environment = showing([device_after(spec.devices)]) if shown else {}
    work = {"run_dir": job.run_dir, "directory": directory, "trust": job.trust}
    # Who follows the run would end it after twice that time, and not say why.
    patience = LOADING_S if job.stuck_after_s is None else job.stuck_after_s / 2
    return closing(Generator(rank, work, environment, patience))


def failure(error: BaseException) -> tuple[Status, str]:
    """How an attempt ends that met `error`, and why."""
    if isinstance(error, SettingError | RefusedError):
        return Status.REFUSED, str(error)
    return Status.FAILED, f"{type(error).__name__}: {error}"


def _start_ranks(attempt: Attempt, count: int, stop: StopRequest) -> Status | None:
    """Make the attempt in `count` processes of this machine; this one passes signals on, and speaks
    for those that ended without a word. Raises RanksError where they fail."""
    # Rank 0 decides what a second signal means.
    stop.patient = True
    words = ["-u", "-P", "-m", "isosweep.training", str(attempt.path)]
    statuses = run_ranks(count, words, stop.signals)
    stop.look(attempt)
    if stop.overtaken is not None:
        return None
    last = read_attempt(attempt.run, attempt.number)
    if last.status is Status.RUNNING:
        reason = f"its processes ended with status {', '.join(map(str, statuses))}"
        how = (stop.left, stop.reason) if stop.reason else (Status.FAILED, reason)
        last = replace(last, status=how[0], reason=how[1])
        sys.stderr.write(f"isosweep: {last.status}: {last.reason}\n")
        last.write()
    if last.status in (Status.FAILED, Status.REFUSED):
        raise RanksError(last.reason)
    return last.status


def trusts(attempt: Attempt) -> bool:
    """Whether who submitted it has said `trust=true`, in a file that nobody else may write."""
    document, foreign = read_checked(attempt.path)
    return document is not None and foreign is None and document["job"].get("trust") is True


def spec_of(run: RunPaths, *, trust: bool = False) -> RunSpec:
    """The stored spec of a run. Raises RecordError where it is none, or another run's, SettingError
    where others may have written what it would execute, without `trust`."""
    try:
        document, foreign = read_checked(run.spec)
        if document is None:
            raise RecordError(f"{run.spec}: no such run")
        spec = RunSpec.from_json(document["spec"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{run.spec}: not the spec of a run ({error!r})") from None
    if spec.run_id != run.run_id:
        raise RecordError(
            f"{run.spec}: holds the spec of {spec.run_id}, and this run is {run.run_id}; "
            "mode=resume of its sweep writes its own spec again"
        )
    if foreign is not None and not trust:
        for each in executed_by_run(spec):
            raise each.refused(foreign)
    return spec
