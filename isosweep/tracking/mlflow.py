"""A view of a sweep in MLflow: a run for the sweep, and one below it for each of its runs."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from filelock import FileLock

from isosweep.config.secrets import without_password
from isosweep.config.tracking import TrackingConfig
from isosweep.config.trust import require_own
from isosweep.plan.cells import Plan
from isosweep.reserved import ARTIFACTS, MLFLOW
from isosweep.store.paths import SweepPaths
from isosweep.tracking.backend import News, StoredRun, StoredRuns, sweep_name
from isosweep.tracking.points import Point

RUN_TAG, SWEEP_TAG = "isosweep.run_id", "isosweep.sweep"
# The last step of each series of a run's points that is there, as JSON.
SENT_TAG = "isosweep.sent"
# mlflow.utils.mlflow_tags: what pages nest runs by; a run's description, in Markdown.
PARENT_TAG, NOTE_TAG = "mlflow.parentRunId", "mlflow.note.content"
# mlflow.utils.mlflow_tags: the view that an experiment opens in. MLflow 3 may guess the one for
# GenAI, which shows nothing of a sweep.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
# MLflow's limit of a tag's value.
_MAX_NOTE = 8000
# MLflow REST API, `runs/log-batch`: limit of metrics, params and tags of one request.
_MAX_BATCH = 1000
# MLflow's defaults, 7 retries of 120 s, would hold up the end of a sweep for a quarter of an hour.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "25",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    # A line for every run that ends.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# Seconds to wait for another process that makes MLflow's tables.
_MAKING_S = 45


class MlflowBackend:
    """The store of `config`: `uri`, or SQLite beside the runs. Files lie beside the database."""

    def __init__(self, config: TrackingConfig, paths: SweepPaths, plan: Plan) -> None:
        self._config, self._plan = config, plan
        self.uri = config.uri or f"sqlite:///{paths.runs.parent.resolve() / MLFLOW}"
        self.name = without_password(self.uri)
        self._sweep = sweep_name(paths, plan)
        self._parent = ""
        self.experiment_id = ""
        scheme, _, path = self.uri.partition(":///")
        self._database = Path(path.partition("?")[0]) if scheme == "sqlite" and path else None

    @property
    def served(self) -> bool:
        """Whether a server answers for the store, and shows its pages."""
        return self.uri.startswith(("http://", "https://"))

    def open(self) -> StoredRuns:
        """As `Backend`."""
        database = self._database
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        # Two processes that make MLflow's tables at once both fail.
        with FileLock(database.with_suffix(".lock"), _MAKING_S) if database else nullcontext():
            self._connect()
            experiment = self._experiment()
            if experiment is None:
                name, location = self._names()[-1], self._artifacts
                experiment = self._client.create_experiment(name, location, tags=_KIND)
        self.experiment_id = str(experiment)
        runs: StoredRuns = {}
        for run in self._search():
            runs.setdefault(run.data.tags.get(RUN_TAG), _stored_run(run))
        if None in runs:
            self._parent = runs[None].key
        return runs

    def find(self) -> bool:
        """Whether the store has the sweep; makes nothing."""
        if self._database is not None and not self._database.is_file():
            return False
        self._connect()
        self.experiment_id = self._experiment() or ""
        return bool(self.experiment_id) and next(self._search(), None) is not None

    def create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        """As `Backend`."""
        own = {SWEEP_TAG: self._sweep, **tags}
        if run_id is not None:
            own |= {RUN_TAG: run_id, PARENT_TAG: self._parent}
        start = None if begun is None else _milliseconds(begun)
        run = self._client.create_run(self.experiment_id, start, tags=own, run_name=name)
        if run_id is None:
            self._parent = run.info.run_id
        return _stored_run(run)

    def write(self, run: StoredRun, news: News) -> None:
        """As `Backend`. MLflow drops a point that it has; the tag that says so goes last."""
        from mlflow.entities import Param, RunTag

        sent = run.sent | {point.series: point.step for point in news.points if point.series}
        tags = dict(news.tags) | ({SENT_TAG: json.dumps(sent)} if sent != run.sent else {})
        for batch in _batches(news.points):
            self._client.log_batch(run.key, metrics=batch)
        params = [Param(key, str(value)) for key, value in news.params.items()]
        given = [RunTag(key, value) for key, value in tags.items()]
        if params or given:
            self._client.log_batch(run.key, params=params, tags=given)
        if news.status in ("RUNNING", "SCHEDULED"):
            self._client.update_run(run.key, status=news.status)
        elif news.status is not None:
            end = None if news.end_time is None else _milliseconds(news.end_time)
            self._client.set_terminated(run.key, news.status, end_time=end)
        run.sent = sent

    def describe(self, run: StoredRun, note: str, files: Sequence[tuple[Path, str]]) -> None:
        """As `Backend`. Raises PermissionError if a database names a place of files that is not
        beside it: somebody else may have written that."""
        if note and run.tags.get(NOTE_TAG) != note[:_MAX_NOTE]:
            self._client.set_tag(run.key, NOTE_TAG, note[:_MAX_NOTE])
        place = self._client.get_run(run.key).info.artifact_uri
        if self._artifacts and place != f"{self._artifacts}/{run.key}/artifacts":
            said = f"artifacts: others may have written that they lie in {place}"
            raise PermissionError(f"{said}; remove that run from the store")
        for file, folder in files:
            self._client.log_artifact(run.key, str(file), folder or None)

    def close(self) -> None:
        """As `Backend`: every call is written at once."""

    def link(self) -> str | None:
        """As `Backend`."""
        return self.link_at(self.name) if self.served and self._parent else None

    def link_at(self, address: str, token: str = "") -> str:
        """Where a server at `address` shows the sweep's runs as a table, by name; `token`: what it
        asks for."""
        view = {"searchFilter": self._filter, "orderByKey": "tags.`mlflow.runName`"}
        query = urlencode({"workflowType": "machine_learning", **view, "orderByAsc": "true"})
        asked = f"?token={token}" if token else ""
        return f"{address.rstrip('/')}/{asked}#/experiments/{self.experiment_id}/runs?{query}"

    @property
    def _artifacts(self) -> str | None:
        """Where files lie; None: a server knows."""
        return None if self._database is None else (self._database.parent / ARTIFACTS).as_uri()

    @property
    def _filter(self) -> str:
        """By the plan's id alone: a directory's name may hold quotes, which a filter cannot."""
        return f"tags.`{SWEEP_TAG}` LIKE '%@{self._plan.plan_id}'"

    def _connect(self) -> None:
        require_own({"tracking.uri": self._config.uri})
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import mlflow

        # They log at length what they also raise.
        for library in ("mlflow", "alembic", "sqlalchemy", "urllib3"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._client: Any = mlflow.MlflowClient(tracking_uri=self.uri)

    def _names(self) -> tuple[str, ...]:
        """The experiment, and what a copy of the database calls its own: that of the original keeps
        its files where it was made, which no call of MLflow changes."""
        name = self._config.experiment
        if self._database is None or self._client.get_experiment_by_name(name) is None:
            return (name,)
        return name, f"{name} in {self._database.parent}"

    def _experiment(self) -> str | None:
        for name in self._names():
            found = self._client.get_experiment_by_name(name)
            if found and self._artifacts in (None, found.artifact_location):
                return str(found.experiment_id)
        return None

    def _search(self) -> Iterator[Any]:
        token = None
        while True:
            page = self._client.search_runs(
                [self.experiment_id],
                self._filter,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            yield from (run for run in page if run.data.tags[SWEEP_TAG] == self._sweep)
            if not (token := page.token):
                return


def _stored_run(run: Any) -> StoredRun:
    return StoredRun(
        key=run.info.run_id,
        status=run.info.status,
        end_time=run.info.end_time / 1000 if run.info.end_time else None,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        metrics=dict(run.data.metrics),
        sent=json.loads(run.data.tags.get(SENT_TAG, "{}")),
    )


def _batches(points: Sequence[Point]) -> Iterator[list[Any]]:
    from mlflow.entities import Metric

    batch: list[Any] = []
    for point in points:
        if batch and len(batch) + len(point.values) > _MAX_BATCH:
            yield batch
            batch = []
        when = _milliseconds(point.unix_time)
        batch += [Metric(key, value, when, point.step) for key, value in point.values.items()]
    if batch:
        yield batch


def _milliseconds(unix_time: float) -> int:
    """MLflow's unit of time."""
    return round(unix_time * 1000)
