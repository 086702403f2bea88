"""What one process of an attempt knows: its job, its run's spec, and where it starts."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

from isosweep.compute import BudgetUnit, Compute
from isosweep.config.base import load
from isosweep.config.study import CheckpointConfig, HealthConfig
from isosweep.config.trust import executed_by_run, read_checked, refused
from isosweep.errors import RecordError
from isosweep.files import JsonObject
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import Attempt, Status
from isosweep.store.checkpoints import ResumePoint
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.training.changed import changed
from isosweep.training.distributed import Rank
from isosweep.training.health import HealthMonitor
from isosweep.training.reporter import Reporter
from isosweep.training.schedule import Schedule
from isosweep.training.stopping import StopRequest

_SAVING = CheckpointConfig()


@dataclass(frozen=True)
class TrainRun:
    """What a worker is to do: train `run_dir` up to the last of `milestones`.

    It says only where to read, how far to go, what ends the run before that, and how it is saved.
    `stuck_after_s`: seconds without progress after which the run is taken for stuck. `trust`: what
    others may have written is executed.
    """

    run_dir: str
    milestones: tuple[float, ...]
    unit: BudgetUnit
    health: HealthConfig
    saving: CheckpointConfig = _SAVING
    stuck_after_s: float | None = None
    trust: bool = False

    @property
    def run(self) -> RunPaths:
        """The run's files."""
        return RunPaths(Path(self.run_dir))

    def to_json(self) -> JsonObject:
        """The job, as an attempt's file has it."""
        groups = {"health": self.health.model_dump(), "saving": self.saving.model_dump()}
        return {k: v for k, v in {**vars(self), **groups}.items() if k != "run_dir"}

    @staticmethod
    def from_json(run_dir: str, document: JsonObject) -> "TrainRun":
        """The job that `to_json` wrote, of the run in `run_dir`."""
        return TrainRun(
            run_dir,
            tuple(document["milestones"]),
            document["unit"],
            load(HealthConfig, document["health"]),
            load(CheckpointConfig, document["saving"]),
            document.get("stuck_after_s"),
            document.get("trust", False),
        )


@dataclass(frozen=True)
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

    def outcome(self) -> tuple[Status, str]:
        """How an attempt that left by itself has ended, and why."""
        ended = self.monitor.verdict
        if ended is not None:
            return Status.DIVERGED, f"{ended.rule} at step {ended.step}: {ended.message}"
        if self.stop.reason is None or self.schedule.is_over(self.reporter.spent):
            return Status.FINISHED, ""
        return self.stop.ending, self.stop.reason


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
        for setting, value in executed_by_run(spec):
            raise refused(setting, value, foreign)
    return spec
