"""The MLflow store of a sweep, kept equal to the runs' files.

Everything sent is derived from those files, with the times written there, so a sync after a crash
finds what is already there and adds the rest. MLflow itself is imported by the first sync: it costs
seconds, and planning must not pay them.
"""

import logging
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from isosweep.config.tracking import TrackingConfig
from isosweep.difficulty.measurement import read_base_rates
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import read_metrics, read_records, read_warnings
from isosweep.store.state import RunView, view_run
from isosweep.tracking.points import (
    MLFLOW_STATUS,
    FinalStatus,
    MlflowStatus,
    Point,
    RunProgress,
    file_signature,
    held_out_points,
    run_progress,
    training_point,
)

Params = Mapping[str, str | float | int]

SWEEP_TAG = "isosweep.sweep"
RUN_TAG = "isosweep.run_id"
# mlflow.utils.mlflow_tags: what the MLflow UI nests runs by.
PARENT_TAG = "mlflow.parentRunId"

# MLflow REST API, `runs/log-batch`: limits of one request.
MAX_BATCH_METRICS = 1000
MAX_BATCH_PARAMS = 100


@dataclass
class _StoredRun:
    """What the store holds of one of our runs, as far as it was read or written here."""

    mlflow_id: str
    status: str
    end_time: int | None
    tags: dict[str, str]
    params: set[str]
    metrics: dict[str, float]
    steps: dict[str, set[int]] = field(default_factory=dict)


class MlflowTracker:
    """A parent run for the sweep and a child for each planned run, kept equal to the files.

    A step that several attempts reached is sent once, as first seen: its numbers are the same but
    for `compute/device_seconds`. Runs are looked up by their tags.
    """

    def __init__(
        self,
        paths: SweepPaths,
        plan: Plan,
        spec_params: Params,
        config: TrackingConfig,
        sweeps_dir: Path,
        stop: Collection[str],
    ) -> None:
        """`stop`: health rules that end a run."""
        self.sweeps_dir = sweeps_dir.resolve()
        self.uri = config.uri or f"sqlite:///{self.sweeps_dir / 'mlflow.db'}"
        self._paths = paths
        self._plan = plan
        self._spec_params = dict(spec_params)
        self._config = config
        self._stop = stop
        self._sweep = f"{paths.root.name}@{plan.plan_id}"
        self._client: Any = None
        self._experiment_id = ""
        self._stored: dict[str | None, _StoredRun] | None = None
        self._progress: dict[str, RunProgress] = {}

    def sync(self) -> None:
        """Bring the store up to what the files say; adds nothing where nothing is new.

        Raises whatever MLflow raises when the store cannot be used; the next sync goes on.
        """
        with self._store():
            parent, children = self._runs()
            last_change = 0.0
            for planned in self._plan.runs:
                files = self._paths.run(planned.run_id)
                # Before the records: they then hold at least what the state speaks of.
                view = view_run(files)
                self._sync_metrics(planned, files, children[planned.run_id])
                self._sync_status(planned, view, children[planned.run_id])
                last_change = max(last_change, view.state.updated if view.state else 0.0)
            self._sync_parent(parent, last_change)

    def finish(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        """Add figures (`figures/`) and report to the sweep's own run and end it as `status`.

        Raises what MLflow raises when a file cannot be stored, after ending the run all the same.
        """
        with self._store():
            parent, _ = self._runs()
            try:
                for figure in figures:
                    self._client.log_artifact(
                        parent.mlflow_id, str(figure), self._artifact_folder(figure)
                    )
                if report is not None:
                    self._client.log_artifact(parent.mlflow_id, str(report))
            finally:
                self._client.set_terminated(parent.mlflow_id, status)
                parent.status = status

    def _artifact_folder(self, figure: Path) -> str:
        """`figures`, and in it the variant of `grid.axes` where the sweep has several."""
        view = figure.parent.parent
        analysis = self._paths.analysis
        inside = view.is_relative_to(analysis) and view != analysis
        return f"figures/{view.name}" if inside else "figures"

    @contextmanager
    def _store(self) -> Iterator[None]:
        # A sync that fails is repeated anyway; MLflow's own seven retries would hold up the end
        # of a sweep for minutes.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        import mlflow

        with _quiet("mlflow", "alembic"), self._locked():
            if self._client is None:
                self._client = mlflow.MlflowClient(tracking_uri=self.uri)
            if not self._experiment_id:
                self._experiment_id = self._find_experiment()
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One isosweep process at a time in an SQLite store: making its tables races otherwise."""
        if not self._is_sqlite:
            yield
            return
        database = self.uri.partition(":///")[2].partition("?")[0]
        lock = Path(database or self.sweeps_dir / "mlflow").with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            yield

    @property
    def _is_sqlite(self) -> bool:
        return self.uri.startswith("sqlite")

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = self._config.experiment
        # A server knows where it keeps artifacts; without one they lie beside the database.
        location = (self.sweeps_dir / "mlartifacts").as_uri() if self._is_sqlite else None
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=location))
            except MlflowException:
                # Another process may have made it since.
                experiment = self._client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        return str(experiment.experiment_id)

    def _runs(self) -> tuple[_StoredRun, dict[str, _StoredRun]]:
        """The sweep's own run and its children by run id, searched for once, made if missing."""
        if self._stored is None:
            self._stored = self._search()
        stored = self._stored
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params = {"budget_unit": self._plan.budget_unit, "budgets": budgets}
        name = self._paths.root.name
        parent = self._ensure(None, name, {}, params | {"num_runs": len(self._plan.runs)}, None)
        for run in self._plan.runs:
            own: dict[str, str | float | int] = {
                "n": run.num_generations,
                "B": run.problems_per_batch,
                "T": run.num_steps,
                "seed": run.seed,
            }
            tags = {key: str(value) for key, value in own.items()}
            tags |= {RUN_TAG: run.run_id, PARENT_TAG: parent.mlflow_id}
            name = f"n{run.num_generations}-B{run.problems_per_batch}-s{run.seed}"
            own["learning_rate"] = run.learning_rate
            self._ensure(run.run_id, name, tags, own, self._paths.run(run.run_id))
        return parent, {key: value for key, value in stored.items() if key is not None}

    def _search(self) -> dict[str | None, _StoredRun]:
        # The plan's id alone, because a directory name may hold quotes that the filter cannot.
        query = f"tags.`{SWEEP_TAG}` LIKE '%@{self._plan.plan_id}'"
        runs: dict[str | None, _StoredRun] = {}
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment_id],
                query,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            for run in page:
                if run.data.tags[SWEEP_TAG] == self._sweep:
                    runs.setdefault(run.data.tags.get(RUN_TAG), _stored_run(run))
            token = page.token
            if not token:
                return runs

    def _ensure(
        self,
        run_id: str | None,
        name: str,
        tags: dict[str, str],
        params: Params,
        files: RunPaths | None,
    ) -> _StoredRun:
        assert self._stored is not None
        run = self._stored.get(run_id)
        if run is None:
            records = read_records(files.records).records if files else ()
            created = self._client.create_run(
                self._experiment_id,
                start_time=_milliseconds(records[0].unix_time) if records else None,
                tags={SWEEP_TAG: self._sweep, **tags},
                run_name=name,
            )
            run = self._stored[run_id] = _stored_run(created)
        # Params cannot change, so only those are sent that a kill kept from being set.
        wanted = {**self._spec_params, **params}
        missing = [(key, str(value)) for key, value in wanted.items() if key not in run.params]
        if missing:
            from mlflow.entities import Param

            for start in range(0, len(missing), MAX_BATCH_PARAMS):
                chunk = missing[start : start + MAX_BATCH_PARAMS]
                batch = [Param(key, value) for key, value in chunk]
                self._client.log_batch(run.mlflow_id, params=batch)
            run.params.update(wanted)
        return run

    def _sync_metrics(self, planned: PlannedRun, files: RunPaths, run: _StoredRun) -> None:
        watched = (files.records, files.metrics, files.warnings)
        signature = tuple(file_signature(path) for path in watched)
        known = self._progress.get(planned.run_id)
        if known is not None and known.signature == signature:
            return
        records = read_records(files.records).records
        stride = math.ceil(planned.num_steps / self._config.max_points)
        lines = read_metrics(files.metrics, files.records)
        rates = read_base_rates(files)
        self._send(run, held_out_points(records, rates))
        self._send(run, (training_point(line) for line in lines if line["step"] % stride == 0))
        self._progress[planned.run_id] = run_progress(
            signature,
            records,
            read_warnings(files.warnings, files.records),
            planned,
            self._plan.budget_unit,
        )

    def _sync_status(self, planned: PlannedRun, view: RunView, run: _StoredRun) -> None:
        state, standing = (
            view.state,
            run_standing(planned, view, self._plan.budget_unit, self._stop),
        )
        progress = self._progress[planned.run_id]
        reached = ",".join(f"{b:g}" for b in progress.reached)
        tags = {"status": str(standing), "budgets_reached": reached}
        if state is not None:
            texts = {"reason": view.reason, "diverged_by": state.diverged_by or ""}
            texts |= {"warnings": progress.warnings}
            # What is no longer so is emptied; what never was is not sent.
            tags |= {key: text for key, text in texts.items() if text or key in run.tags}
        self._set_tags(run, tags)
        self._set_status(
            run, MLFLOW_STATUS[standing], _milliseconds(state.updated) if state else None
        )

    def _sync_parent(self, parent: _StoredRun, last_change: float) -> None:
        self._set_status(parent, "RUNNING", None)
        progress = [self._progress[run.run_id] for run in self._plan.runs]
        rewards = [p.best_reward for p in progress if p.best_reward is not None]
        done = [
            run.run_id
            for run, p in zip(self._plan.runs, progress, strict=True)
            if run.milestones[-1] in p.reached
        ]
        values = {"sweep/done_runs": float(len(done))}
        if rewards:
            values["sweep/best_reward"] = max(rewards)
        news = {key: value for key, value in values.items() if parent.metrics.get(key) != value}
        if rewards and news:
            when = max(last_change, *(p.last_time for p in progress))
            step = sum(p.num_records for p in progress)
            self._client.log_batch(parent.mlflow_id, metrics=_metrics(Point(step, when, news)))
            parent.metrics.update(news)

    def _send(self, run: _StoredRun, points: Iterable[Point]) -> None:
        """Send the steps that the store lacks, the metrics of one step never apart."""
        batch: list[Any] = []
        steps: list[tuple[set[int], int]] = []

        def flush() -> None:
            if batch:
                self._client.log_batch(run.mlflow_id, metrics=batch)
            for logged, step in steps:
                logged.add(step)
            batch.clear()
            steps.clear()

        for point in points:
            if not point.values:
                continue
            logged = self._logged_steps(run, min(point.values))
            if point.step in logged:
                continue
            if len(batch) + len(point.values) > MAX_BATCH_METRICS:
                flush()
            batch += _metrics(point)
            steps.append((logged, point.step))
        flush()

    def _logged_steps(self, run: _StoredRun, key: str) -> set[int]:
        if key not in run.steps:
            # `metrics` is from when the run was looked up: a key that is not there has no history.
            known = key in run.metrics
            history = self._client.get_metric_history(run.mlflow_id, key) if known else []
            run.steps[key] = {metric.step for metric in history}
        return run.steps[key]

    def _set_tags(self, run: _StoredRun, tags: dict[str, str]) -> None:
        news = {key: value for key, value in tags.items() if run.tags.get(key) != value}
        if news:
            from mlflow.entities import RunTag

            batch = [RunTag(key, value) for key, value in news.items()]
            self._client.log_batch(run.mlflow_id, tags=batch)
            run.tags.update(news)

    def _set_status(self, run: _StoredRun, status: MlflowStatus, end_time: int | None) -> None:
        if status in ("RUNNING", "SCHEDULED"):
            if run.status != status:
                self._client.update_run(run.mlflow_id, status=status)
        elif (run.status, run.end_time) != (status, end_time):
            self._client.set_terminated(run.mlflow_id, status, end_time=end_time)
            run.end_time = end_time
        run.status = status


def _metrics(point: Point) -> list[Any]:
    from mlflow.entities import Metric

    when = _milliseconds(point.unix_time)
    return [Metric(key, value, when, point.step) for key, value in point.values.items()]


def _stored_run(run: Any) -> _StoredRun:
    return _StoredRun(
        mlflow_id=run.info.run_id,
        status=run.info.status,
        end_time=run.info.end_time,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        metrics=dict(run.data.metrics),
    )


def _milliseconds(unix_time: float) -> int:
    return round(unix_time * 1000)


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Only warnings of these loggers: MLflow reports every table that it makes."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.level, logging.WARNING))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
