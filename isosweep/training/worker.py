"""One attempt at one training run, from its newest checkpoint to its largest budget."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from isosweep.compute import BudgetUnit, Compute
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.config.settings import read
from isosweep.devices import keep_first
from isosweep.errors import RecordError
from isosweep.files import JsonObject, read_json
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.store.state import (
    Attempt,
    OvertakenError,
    RunStatus,
    claim_attempt,
    mark,
    read_state,
)
from isosweep.training.health import HealthMonitor
from isosweep.training.progress import ResumePoint, find_resume_point
from isosweep.training.ranks import Rank, end_with, only_rank, own_rank, run_ranks
from isosweep.training.reporter import Reporter
from isosweep.training.schedule import Schedule
from isosweep.training.session import Session
from isosweep.training.stopping import StopRequest

if TYPE_CHECKING:
    from isosweep.training.loop import TrainingLoop

OVERTAKEN: Literal["overtaken"] = "overtaken"

# Of jobs that were submitted before they said how.
_SAVING = CheckpointConfig()

Ended = RunStatus | Literal["overtaken"]


@dataclass
class TrainRun:
    """The job that a launcher submits: train `run_dir` up to the last of `milestones`.

    submitit pickles it by reference; it says only where to read, how far to go, what ends the run
    before that, and how it is saved.
    """

    run_dir: str
    milestones: tuple[float, ...]
    unit: BudgetUnit
    health: HealthConfig
    saving: CheckpointConfig = _SAVING

    def __call__(self) -> str:
        """Make an attempt; returns how it ended."""
        return run_attempt(self)

    def checkpoint(self) -> Any:
        """submitit's hook at a timeout or preemption: go on as a new attempt."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)

    @property
    def run(self) -> RunPaths:
        """The run's files."""
        return RunPaths(Path(self.run_dir))

    def to_json(self) -> JsonObject:
        """The job, for the processes that share it."""
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
        )


@contextmanager
def lean_imports() -> Iterator[None]:
    """Hides, while the training stack is imported, what it imports merely because it is there.

    TRL and transformers look for MLflow and scikit-learn, which take a second and which no worker
    uses; a task's own code finds them again afterwards.
    """
    hidden = [name for name in ("mlflow", "sklearn") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: cannot be imported
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def run_attempt(job: TrainRun) -> Ended:
    """Train until the largest milestone is reached; returns how the attempt ended.

    A run that breaks a health rule of `health.stop` has diverged: a result, recorded as such. A
    failure is recorded in the run's state and raised again. An overtaken attempt ends quietly.
    """
    spec = _spec_of(job.run)
    attempt = claim_attempt(job.run, os.environ.get("SLURM_JOB_ID"))
    start = find_resume_point(job.run, attempt.number)
    for loss in start.losses:
        sys.stderr.write(f"{job.run.run_id}: {loss}\n")
    if spec.devices > 1:
        return _lead_ranks(job, attempt, spec, start)
    return _attempt(job, attempt, spec, only_rank(), start)


def _spec_of(run: RunPaths) -> RunSpec:
    try:
        document = read_json(run.spec)
        if document is None:
            raise RecordError(f"{run.spec}: no such run")
        return RunSpec.from_json(document["spec"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{run.spec}: not the spec of a run ({error!r})") from None


def _lead_ranks(job: TrainRun, attempt: Attempt, spec: RunSpec, start: ResumePoint) -> Ended:
    """Train in one process a device; this one passes signals on and speaks for them."""
    stop = StopRequest()
    stop.install()
    place = {"attempt": attempt.number, "pid": os.getpid(), "start": start.to_json()}
    document = {"job": job.to_json(), **place}
    words = ["-m", "isosweep.training.worker", json.dumps(document)]
    statuses = run_ranks(spec.devices, words, lambda: stop.reason is not None)
    state = read_state(attempt.run)
    try:
        attempt.check()
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
        return OVERTAKEN
    if any(statuses) or state is None:
        reason = f"its processes ended with status {', '.join(map(str, statuses))}"
        if state is None or state.status == "running":
            mark(attempt.run, "failed", reason)
        raise ChildProcessError(reason)
    return state.status


def main(text: str) -> None:
    """One of the processes that `_lead_ranks` starts; `text` is its job as JSON."""
    document = json.loads(text)
    end_with(document["pid"])
    job = TrainRun.from_json(document["job"])
    attempt = Attempt(job.run, document["attempt"])
    rank, start = own_rank(document["pid"]), ResumePoint.from_json(document["start"])
    if _attempt(job, attempt, _spec_of(job.run), rank, start) == OVERTAKEN:
        # The others wait for this one: they are ended as after a failure.
        sys.exit(1)


def _attempt(
    job: TrainRun, attempt: Attempt, spec: RunSpec, rank: Rank, start: ResumePoint
) -> Ended:
    stop = StopRequest()
    stop.install()
    if spec.device == "cpu":
        # More threads than cores slow tiny models by an order of magnitude.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    session = _session(job, attempt, spec, rank, stop, start)
    reporter = session.reporter
    try:
        loop = _train(session)
        status, reason = session.outcome()
        reporter.state(status, loop.spent, reason)
        if status != "interrupted":
            loop.tidy()
    except OvertakenError as overtaken:
        sys.stderr.write(f"{overtaken}\n")
        return OVERTAKEN
    except BaseException as error:
        # A disk that is full takes no state either: what it met is what is raised.
        with suppress(OvertakenError, OSError):
            reporter.state("failed", _last_compute(job.run), f"{type(error).__name__}: {error}")
        raise
    return status


def _session(
    job: TrainRun,
    attempt: Attempt,
    spec: RunSpec,
    rank: Rank,
    stop: StopRequest,
    start: ResumePoint,
) -> Session:
    monitor = HealthMonitor(job.health, spec.problems_per_batch, start.health)
    job_id = os.environ.get("SLURM_JOB_ID")
    return Session(
        spec=spec,
        attempt=attempt,
        rank=rank,
        stop=stop,
        start=start,
        schedule=Schedule(job.milestones, job.unit, spec.evaluation.records_per_decade),
        monitor=monitor,
        reporter=Reporter(attempt, rank, monitor, job_id, start.step),
        checkpoint=job.saving,
    )


def _train(session: Session) -> "TrainingLoop":
    """Train as far as it goes; the loop that did."""
    session.reporter.state("running", _last_compute(session.attempt.run))
    if session.spec.device == "cuda":
        # More of them, as a job may be given, would make transformers split each batch over them.
        keep_first(session.spec.devices)
    directory = weights(session.spec.model)
    # The training stack is imported here, after the thread count is set.
    with lean_imports():
        from isosweep.training.assembly import make_loop

    loop = make_loop(session, str(directory))
    loop.run()
    return loop


def _last_compute(run: RunPaths) -> Compute:
    records = read_records(run.records).records
    return records[-1].compute if records else Compute()


if __name__ == "__main__":
    main(sys.argv[1])
