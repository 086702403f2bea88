"""A view of a sweep in MLflow: a run for the sweep, and one below it for each of its runs."""

import json
import logging
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from filelock import FileLock

from isosweep.config.study import TrackingConfig
from isosweep.config.trust import require_own, without_password
from isosweep.plan.cells import Plan
from isosweep.reserved import ARTIFACTS, MLFLOW
from isosweep.store.paths import COMPLETIONS, SweepPaths
from isosweep.tracking.points import Content
from isosweep.tracking.tracker import StoredRun, StoredRuns, sweep_name

_RUN_TAG, _SWEEP_TAG = "isosweep.run_id", "isosweep.sweep"
# The last step of each series of a run's points that is there, as JSON.
_SENT_TAG = "isosweep.sent"
# mlflow.utils.mlflow_tags: what pages nest runs by; a run's description, in Markdown.
_PARENT_TAG, _NOTE_TAG = "mlflow.parentRunId", "mlflow.note.content"
# mlflow.utils.mlflow_tags: the view that an experiment opens in. MLflow 3 may guess the one for
# GenAI, which shows nothing of a sweep.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
# Params that are tags too.
_COLUMNS = ("n", "B", "T", "seed")
# MLflow's limit of a tag's value.
_MAX_NOTE = 8000
# MLflow REST API: limits of `runs/log-batch` (metrics) and `runs/search` (runs).
_MAX_BATCH, _MAX_RUNS = 1000, 50_000
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
        self.served = self.uri.startswith(("http://", "https://"))
        self.link: str | None = None
        self._sweep, self._parent = sweep_name(paths, plan), ""
        # By the plan's id alone: a directory's name may hold quotes, which a filter cannot.
        self._filter = f"tags.`{_SWEEP_TAG}` LIKE '%@{plan.plan_id}'"
        scheme, _, path = self.uri.partition(":///")
        self._database = Path(path.partition("?")[0]) if scheme == "sqlite" and path else None
        # Where files lie; None: a server knows.
        folder = self._database and self._database.parent / ARTIFACTS
        self._artifacts = folder.as_uri() if folder else None

    def open(self) -> StoredRuns:
        """As `Backend`."""
        database = self._database
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        # Two processes that make MLflow's tables at once both fail.
        with FileLock(database.with_suffix(".lock"), _MAKING_S) if database else nullcontext():
            self._connect()
            name, self._experiment_id = self._experiment()
            if not self._experiment_id:
                made = self._client.create_experiment(name, self._artifacts, tags=_KIND)
                self._experiment_id = str(made)
        runs: StoredRuns = {}
        for run in self._search():
            runs.setdefault(run.data.tags.get(_RUN_TAG), _stored_run(run))
        self._parent = runs[None].key if None in runs else ""
        self.link = self.link_at(self.name) if self.served else None
        return runs

    def find(self) -> bool:
        """Return whether the store has the sweep; makes nothing."""
        if self._database is not None and not self._database.is_file():
            return False
        self._connect()
        _, self._experiment_id = self._experiment()
        return bool(self._experiment_id and self._search())

    def create(self, run_id: str | None, name: str, begun: float | None) -> StoredRun:
        """As `Backend`."""
        tags = {_SWEEP_TAG: self._sweep}
        if run_id is not None:
            tags |= {_RUN_TAG: run_id, _PARENT_TAG: self._parent}
        start = None if begun is None else _milliseconds(begun)
        run = self._client.create_run(self._experiment_id, start, tags=tags, run_name=name)
        if run_id is None:
            self._parent = run.info.run_id
        return _stored_run(run)

    def write(self, run: StoredRun, news: Content) -> None:
        """As `Backend`. MLflow drops a point that it has; the tag that says so goes last.

        Raises PermissionError if a database names a place of files that is not beside it: somebody
        else may have written that.
        """
        from mlflow.entities import Metric, Param, RunTag

        metrics = [
            Metric(name, value, _milliseconds(point.unix_time), point.step)
            for point in news.points
            for name, value in point.values.items()
        ]
        for first in range(0, len(metrics), _MAX_BATCH):
            self._client.log_batch(run.key, metrics=metrics[first : first + _MAX_BATCH])
        sent = run.sent | {point.series: point.step for point in news.points if point.series}
        tags = {name: str(news.params[name]) for name in _COLUMNS if name in news.params}
        tags |= {**news.tags, **({_NOTE_TAG: news.note[:_MAX_NOTE]} if news.note else {})}
        if sent != run.sent:
            tags[_SENT_TAG] = json.dumps(sent)
        if news.params or tags:
            params = [Param(name, str(value)) for name, value in news.params.items()]
            given = [RunTag(name, value) for name, value in tags.items()]
            self._client.log_batch(run.key, params=params, tags=given)
        if news.status in ("RUNNING", "SCHEDULED"):
            self._client.update_run(run.key, status=news.status)
        elif news.status is not None:
            end = None if news.end_time is None else _milliseconds(news.end_time)
            self._client.set_terminated(run.key, news.status, end_time=end)
        run.sent = sent
        if not news.files:
            return
        place = self._client.get_run(run.key).info.artifact_uri
        if self._artifacts and place != f"{self._artifacts}/{run.key}/artifacts":
            rule = f"artifacts: others may have written that they lie in {place}"
            raise PermissionError(f"{rule}; remove that run from the store")
        for file, folder in news.files:
            self._client.log_artifact(run.key, str(file), folder or None)
            if file.name == COMPLETIONS:
                # As `log_table` does: MLflow shows it among its tables.
                shown = json.dumps([{"path": file.name, "type": "table"}])
                self._client.set_tag(run.key, "mlflow.loggedArtifacts", shown)

    def close(self) -> None:
        """As `Backend`: every call is written at once."""

    def link_at(self, address: str, token: str = "") -> str:
        """Return the link to the sweep's runs as a table, by name, on a server at `address`;
        `token`: what it asks for."""
        view = {"searchFilter": self._filter, "orderByKey": "tags.`mlflow.runName`"}
        query = urlencode({"workflowType": "machine_learning", **view, "orderByAsc": "true"})
        login = f"?token={token}" if token else ""
        return f"{address.rstrip('/')}/{login}#/experiments/{self._experiment_id}/runs?{query}"

    def _connect(self) -> None:
        require_own(("tracking.uri", self._config.uri))
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import mlflow

        # They log at length what they also raise.
        for library in ("mlflow", "alembic", "sqlalchemy", "urllib3"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        if self._database is not None and not self._database.exists():
            self._make(self._database)
        self._client: Any = mlflow.MlflowClient(tracking_uri=self.uri)

    def _make(self, database: Path) -> None:
        """Make the database, whole or not at all: MLflow completes no half of its tables, which a
        process that is killed or a full disk would leave for every later command."""
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        half = Path(f"{database}.new")
        for left in (half, Path(f"{half}-journal")):
            left.unlink(missing_ok=True)
        # SQLite's own would be writable for one user, whatever the umask.
        half.touch()
        SqlAlchemyStore(f"sqlite:///{half}", self._artifacts).engine.dispose()
        half.replace(database)

    def _experiment(self) -> tuple[str, str]:
        """Return the experiment's name and id, "" where it is still to be made.

        The one in a copied or foreign database may have its files elsewhere, which no call of
        MLflow changes: it is left alone, and another one has this directory in its name.
        """
        name = self._config.experiment
        for each in (name, f"{name} in {self._database.parent if self._database else ''}"):
            found = self._client.get_experiment_by_name(each)
            if found is None:
                return each, ""
            if self._artifacts in (None, found.artifact_location):
                return each, str(found.experiment_id)
        return each, ""

    def _search(self) -> list[Any]:
        found = self._client.search_runs(
            [self._experiment_id],
            self._filter,
            max_results=_MAX_RUNS,
            order_by=["attributes.start_time ASC"],
        )
        return [run for run in found if run.data.tags[_SWEEP_TAG] == self._sweep]


def _stored_run(run: Any) -> StoredRun:
    return StoredRun(
        key=run.info.run_id,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=dict(run.data.metrics),
        sent=json.loads(run.data.tags.get(_SENT_TAG, "{}")),
        status=run.info.status,
        end_time=run.info.end_time / 1000 if run.info.end_time else None,
    )


def _milliseconds(unix_time: float) -> int:
    """Return MLflow's unit of time."""
    return round(unix_time * 1000)
