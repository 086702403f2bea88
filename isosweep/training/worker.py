"""One attempt at one training run, from its newest checkpoint to its largest budget."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
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
from isosweep.devices import beyond, keep_first, showing
from isosweep.errors import RecordError, RefusedError, SettingError
from isosweep.files import JsonObject
from isosweep.job import Place
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
from isosweep.store.attempts import (
    read as read_attempt,
)
from isosweep.store.checkpoints import ResumePoint, find_resume_point, keep_only
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.training.changed import changed
from isosweep.training.health import HealthMonitor
from isosweep.training.heartbeat import Heartbeat, Watch
from isosweep.training.nodes import NodeGoneError, Nodes, NodesError, reachable
from isosweep.training.ranks import Group, Rank, Ranks, end_with
from isosweep.training.reporter import Reporter
from isosweep.training.schedule import Schedule
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.training.beside import Beside
    from isosweep.training.loop import TrainingLoop

# By which the first process of several says so, and any that a try would not mend what it met.
OVERTAKEN_STATUS = 3
REFUSED_STATUS = SettingError.exit_status

_SAVING = CheckpointConfig()
_ALONE = Place()


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
        return run_attempt(claim(self.run), self)

    @property
    def run(self) -> RunPaths:
        """The run's files."""
        return RunPaths(Path(self.run_dir))

    def to_json(self) -> JsonObject:
        """The job, for the processes that share it; without `run_dir` it is an attempt's."""
        return asdict(self)

    @staticmethod
    def from_json(document: JsonObject) -> "TrainRun":
        """The job that `to_json` wrote."""
        return TrainRun(
            document["run_dir"],
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
        reporter = Reporter(
            self.attempt,
            self.rank,
            self.monitor,
            self.start.step,
            leave=lambda: self.stop.reason is not None,
        )
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
    attempt: Attempt,
    job: TrainRun,
    stop: StopRequest | None = None,
    place: Place = _ALONE,
    start: str = "",
) -> Status | None:
    """Train until the largest milestone is reached; returns how the attempt ended, None where a
    later one owns the run.

    `place`: of the first node of the job, and `start`: which start of the job it is. A run that
    breaks a health rule of `health.stop` has diverged: a result, recorded as such. A failure is
    recorded, and raised again.
    """
    began, stop = time.monotonic(), stop or StopRequest()
    stop.requeues = job.requeue
    stop.install()
    spec = spec_of(job.run, trust=job.trust)
    point = find_resume_point(job.run, attempt.number)
    if point.checkpoint is not None and spec.sharding != "ddp" and not job.trust:
        require_unpickled(point.checkpoint)
    for loss in point.losses:
        sys.stderr.write(f"{job.run.run_id}: {loss}\n")
    if point.checkpoint is not None and job.saving.keep != "all":
        # What kills left half written would add up.
        keep_only(job.run, attempt.number, [point.checkpoint])
    session = Session(
        job=job, attempt=attempt, spec=spec, start=point, rank=Rank(), stop=stop, began=began
    )
    # A command starts its own processes.
    shared = spec.devices > 1 and spec.trainer.name == "trl"
    return _lead_ranks(session, place, start) if shared else _attempt(session)


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


def _lead_ranks(session: Session, place: Place, start: str) -> Status | None:
    """Train in one process a device, with those of other nodes; this one passes signals on and
    speaks for all."""
    attempt, stop = session.attempt, session.stop
    require_even(session.spec, place)
    work = {
        "job": session.job.to_json(),
        "attempt": attempt.number,
        "start": session.start.to_json(),
        "scheduled": stop.scheduled,
    }
    nodes = Nodes.open(attempt, place, start, work)
    ranks = ranks_of(nodes, session.spec.devices, trust=session.job.trust)
    stop.last_words.append(lambda reason: _say(attempt, stop.left, reason))
    stop.last_words.append(lambda _: nodes.say(ended=(0,)))
    stop.last_words.append(lambda _: ranks.kill())
    if place.nodes > 1:
        _say(attempt, Status.RUNNING, activity=MEETING)
    statuses, reason, gone = _together(session, nodes, ranks)
    nodes.say(ended=tuple(statuses))
    try:
        attempt.check()
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
        return None
    if statuses[0] == OVERTAKEN_STATUS:
        return None
    if gone:
        # Slurm will see that it is down, and start the job again on others.
        how = Status.QUEUED if stop.scheduled else Status.INTERRUPTED
        _say(attempt, how, reason)
        return how
    last = read_attempt(attempt.run, attempt.number)
    if any(statuses) or last.status is Status.RUNNING:
        if last.status in (Status.FAILED, Status.REFUSED):
            reason = f"{last.reason} ({reason})" if place.nodes > 1 else last.reason or reason
        else:
            _say(attempt, Status.FAILED, reason)
        raise (RefusedError if REFUSED_STATUS in statuses else ChildProcessError)(reason)
    return last.status


def _together(session: Session, nodes: Nodes, ranks: Ranks) -> tuple[list[int], str, bool]:
    """Run this node's processes with those of the others: their exit statuses, why the attempt has
    ended, and whether a node is gone."""
    stop, attempt = session.stop, session.attempt
    try:
        if not nodes.wait_for_all(Watch(attempt, stop).look, stop):
            _say(attempt, stop.left, stop.reason or "")
            return [0], "", False
        statuses = ranks.run(lambda: nodes.asked(stop))
    except NodesError as lost:
        return [1], str(lost), isinstance(lost, NodeGoneError)
    except OvertakenError:
        return [OVERTAKEN_STATUS], "", False
    reason = f"its processes ended with status {', '.join(map(str, statuses))}"
    if nodes.place.nodes > 1:
        reason = f"node 0 ({nodes.said.host}): {reason}"
    if not any(statuses) or OVERTAKEN_STATUS in statuses:
        return statuses, reason, False
    gone, failed = nodes.why_failed()
    return statuses, gone or f"{reason}{failed}", gone is not None


def require_even(spec: RunSpec, place: Place) -> None:
    """Raise RecordError where the job has another number of nodes than the run can have."""
    devices, nodes = spec.devices, place.nodes
    if devices % nodes:
        raise RecordError(f"{spec.run_id} has {devices} devices, and its job {nodes} nodes")


def ranks_of(nodes: Nodes, devices: int, *, trust: bool) -> Ranks:
    """This node's processes of a run that has so many `devices`; `trust`: as in `spec_of`."""
    first, place = nodes.first, nodes.place
    count = devices // place.nodes
    group = Group(
        count=count,
        world=devices,
        first=place.node * count,
        address=reachable(first),
        port=first.port,
    )
    document = json.dumps({**first.work, "pid": os.getpid(), "trust": trust})
    return Ranks(group, ["-P", "-m", "isosweep.training.worker", document])


def _say(attempt: Attempt, status: Status, reason: str = "", activity: str = "") -> None:
    """Write how the attempt is, in place of its processes, which are not there."""
    last = read_attempt(attempt.run, attempt.number)
    replace(last, status=status, reason=reason, activity=activity).write()


# By which `Ranks` tells a process its place.
_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def main(text: str) -> None:
    """One of the processes that `ranks_of` gives; `text` is its job as JSON."""
    # The one that started it decides what a second signal means.
    began, stop = time.monotonic(), StopRequest(patient=True)
    stop.install()
    document = json.loads(text)
    end_with(document["pid"])
    number, count, local = (int(os.environ[name]) for name in _NUMBERS)
    job = TrainRun.from_json(document["job"])
    stop.requeues, stop.scheduled = job.requeue, document["scheduled"]
    session = Session(
        job=job,
        attempt=read_attempt(job.run, document["attempt"]),
        spec=spec_of(job.run, trust=document["trust"]),
        start=ResumePoint.from_json(document["start"]),
        rank=Rank(number, count, local, document["pid"]),
        stop=stop,
        began=began,
    )
    try:
        ended = _attempt(session)
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(REFUSED_STATUS)
    if ended is None:
        # The others wait for this one: they are ended as after a failure.
        sys.exit(OVERTAKEN_STATUS)


def _attempt(session: Session) -> Status | None:
    if session.spec.device == "cpu":
        # More threads than cores slow tiny models by an order of magnitude.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    watch, stop = Watch(session.attempt, session.stop), session.stop
    reporter, leads = session.reporter, session.rank.leads
    stop.last_words.append(lambda reason: reporter.state(stop.left, reason))
    try:
        with Heartbeat(reporter, watch) if leads else nullcontext():
            loop = _train(session)
            if leads:
                # A cancelled job is sent a signal as well, and may have seen that first.
                watch.look()
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
            if isinstance(error, SettingError | RefusedError):
                reporter.state(Status.REFUSED, str(error))
            else:
                reporter.state(Status.FAILED, f"{type(error).__name__}: {error}")
        except OvertakenError as overtaken:
            # A later attempt may have removed what this one was writing.
            sys.stderr.write(f"{overtaken}\n")
            return None
        except OSError:
            # A disk that is full takes no state either: what it met is what is raised.
            pass
        raise
    return status


def _train(session: Session) -> "TrainingLoop | None":
    """Train as far as it goes; the loop that did, None where there was none: a stop came before it
    was made, or a command trains."""
    reporter = session.reporter
    reporter.doing(LOADING)
    reporter.state(Status.RUNNING)
    if session.spec.trainer.name == "command":
        from isosweep.training.command import CommandTrainer

        CommandTrainer(session).run()
        return None
    directory = str(weights(session.spec.model))
    if not session.spec.generation.overlap:
        return _trained(session, directory, None)
    with closing(_generator(session, directory)) as generator:
        return _trained(session, directory, generator)


def _generator(session: Session, directory: str) -> "Beside":
    """The process that samples for the run, on the device after those that train."""
    from isosweep.training.beside import LOADING_S, Beside

    job, devices = session.job, session.spec.devices
    environment = showing(beyond(devices, 1)) if session.spec.device == "cuda" else {}
    work = {"run_dir": job.run_dir, "directory": directory, "trust": job.trust}
    # Who follows the run would end it after twice that time, and not say why.
    patience = LOADING_S if job.stuck_after_s is None else job.stuck_after_s / 2
    return Beside(session.rank, work, environment, patience)


def _trained(session: Session, directory: str, beside: "Beside | None") -> "TrainingLoop | None":
    reporter = session.reporter
    if session.spec.device == "cuda":
        # More of them, as a job may be given, would make transformers split each batch over them.
        keep_first(session.rank.local)
    # The training stack is imported here, after the thread count is set.
    with lean_imports():
        from isosweep.training.assembly import make_loop

    # Several processes can only leave together: they agree on it when training begins.
    if session.rank.count == 1 and session.stop.at_once:
        return None
    loop = make_loop(session, directory, beside)
    reporter.doing(BEGINNING)
    loop.run()
    return loop


if __name__ == "__main__":
    main(sys.argv[1])
