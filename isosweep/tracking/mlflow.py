"""A view of a sweep in MLflow: a run for the sweep and one for each of its runs, by their tags."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isosweep.config.tracking import TrackingConfig
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths
from isosweep.tracking.backend import StoredRun, StoredRuns
from isosweep.tracking.news import News, milliseconds, send
from isosweep.tracking.overview import Overview, put_artifacts
from isosweep.tracking.store import Store, is_gone
from isosweep.tracking.tags import PARENT_TAG, RUN_TAG, sweep_name
from isosweep.tracking.view import experiment_tags, link, sweep_filter

SWEEP_TAG = "isosweep.sweep"
# ExperimentTracking of MLflow's pages: the colour that a user gave a run.
_COLOR_TAG = "mlflow.runColor"
# The last step of each series of a run's points that is there, as JSON.
SENT_TAG = "isosweep.sent"


class MlflowBackend:
    """The store of `config`, with the sweep's runs."""

    def __init__(
        self,
        config: TrackingConfig,
        paths: SweepPaths,
        plan: Plan,
        colors: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """`colors`: of the charts' lines by n, as #rrggbb; MLflow's own, by run, without them."""
        self._colors = {run.run_id: colors.get(run.num_generations) for run in plan.runs}
        self.store = Store(config.uri, config.experiment, paths.runs.parent.resolve())
        self.name = self.store.name
        self._plan = plan
        self._sweep = sweep_name(paths, plan)
        self._parent: StoredRun | None = None

    def used(self) -> AbstractContextManager[None]:
        """As `Backend`."""
        return self.store.used()

    def open(self, known: StoredRuns | None) -> StoredRuns | None:
        """As `Backend`: of another store, or of one whose own run of the sweep is gone."""
        if self.store.open():
            known = None
        if known is not None and (parent := known.get(None)):
            self.store.client.get_run(parent.key)
            return None
        self.store.show(experiment_tags(self._plan))
        found = self._search()
        self._parent = found.get(None)
        return found

    def emptied(self, error: BaseException) -> bool:
        """As `Backend`."""
        gone = is_gone(error)
        if gone:
            self.store.emptied()
        return gone

    def create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        """As `Backend`."""
        own = {SWEEP_TAG: self._sweep, **tags}
        if run_id is not None:
            assert self._parent is not None
            own |= {RUN_TAG: run_id, PARENT_TAG: self._parent.key}
            if color := self._colors.get(run_id):
                own[_COLOR_TAG] = color
        start = milliseconds(begun) if begun is not None else None
        created = self.store.client.create_run(
            self.store.experiment_id, start_time=start, tags=own, run_name=name
        )
        run = _stored_run(created)
        if run_id is None:
            self._parent = run
        return run

    def write(self, run: StoredRun, news: News) -> None:
        """As `Backend`."""
        sent = run.sent | {point.series: point.step for point in news.points if point.series}
        if sent != run.sent:
            news.tags = {**news.tags, SENT_TAG: json.dumps(sent)}
        send(self.store.client, run.key, news)
        run.sent = sent

    def tags(self, overview: Overview, run_id: str | None, run: StoredRun) -> dict[str, str]:
        """As `Backend`: the sweep's own run says more, in MLflow's tags."""
        return overview.tags_of(run_id, run.key)

    def put(self, run: StoredRun, overview: Overview, files: Sequence[tuple[Path, str]]) -> None:
        """As `Backend`: MLflow's artifacts."""
        artifacts = self.store.artifacts_of(run.key)
        put_artifacts(artifacts, overview)
        for file, folder in files:
            artifacts.add(file, folder)

    def close(self) -> None:
        """As `Backend`: every call of MLflow's is written at once."""

    def link(self) -> str | None:
        """As `Backend`."""
        if self._parent is None or not self.store.served:
            return None
        return link(self.store.name, self.store.experiment_id, self._plan)

    def _search(self) -> StoredRuns:
        query = sweep_filter(self._plan)
        runs: StoredRuns = {}
        token = None
        while True:
            page = self.store.client.search_runs(
                [self.store.experiment_id],
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


def _stored_run(run: Any) -> StoredRun:
    return StoredRun(
        key=run.info.run_id,
        status=run.info.status,
        end_time=run.info.end_time,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        metrics=dict(run.data.metrics),
        sent=json.loads(run.data.tags.get(SENT_TAG, "{}")),
    )
