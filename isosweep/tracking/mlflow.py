"""The MLflow store of a sweep, kept equal to the runs' files.

Everything sent is derived from those files, with the times written there, so a sync after a crash,
or into a store that was removed, finds what is already there and adds the rest.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isosweep.config.health import HealthConfig
from isosweep.config.tracking import TrackingConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing, Tally
from isosweep.store.paths import SweepPaths
from isosweep.store.presence import there
from isosweep.store.records import read_records
from isosweep.store.state import RunView, view_run
from isosweep.tracking.news import News, milliseconds, send
from isosweep.tracking.overview import Overview, put_artifacts
from isosweep.tracking.points import (
    MLFLOW_STATUS,
    FinalStatus,
    MlflowStatus,
    Point,
    RunReading,
    read_run,
)
from isosweep.tracking.store import Store, is_gone
from isosweep.tracking.tags import (
    RUN_TAG,
    changing_tags,
    fixed_tags,
    own_params,
    run_name,
    sweep_run_name,
)
from isosweep.tracking.view import experiment_tags, link, sweep_filter
from isosweep.tracking.watch import RunWatch

Params = Mapping[str, str | float | int]
# Asked at the end, once the sweep is analysed.
Asked = Callable[[], Overview]

SWEEP_TAG = "isosweep.sweep"
# The last step of each series of a run's points that is there, as JSON.
SENT_TAG = "isosweep.sent"
LIVE = (Standing.RUNNING, Standing.QUEUED)


@dataclass
class _StoredRun:
    """What the store holds of one of our runs, as far as it was read or written here."""

    mlflow_id: str
    status: str
    end_time: int | None
    tags: dict[str, str]
    params: set[str]
    metrics: dict[str, float]


@dataclass
class _KnownRun:
    """What the files of a run said when they were last read."""

    watch: RunWatch
    view: RunView | None = None
    standing: Standing = Standing.NOT_BEGUN
    reading: RunReading = field(default_factory=RunReading)


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
        health: HealthConfig,
        overview: Asked = Overview,
    ) -> None:
        """`health`: by which runs are judged; `overview`: what came of the sweep."""
        self.store = Store(config.uri, config.experiment, sweeps_dir.resolve())
        self.name = self.store.name
        self._paths = paths
        self._plan = plan
        self._spec_params = dict(spec_params)
        self._max_points = config.max_points
        self._health = health
        self._overview = overview
        self._sweep = f"{paths.root.name}@{plan.plan_id}"
        self._stored: dict[str | None, _StoredRun] | None = None
        self._known = {run.run_id: _KnownRun(RunWatch(paths.run(run.run_id))) for run in plan.runs}

    def sync(self) -> None:
        """Bring the store up to what the files say; adds nothing where nothing is new.

        Raises StoreError when the store cannot be used; the next sync goes on.
        """
        if not there(self._paths.runs):
            return
        with self.store.used():
            try:
                self._sync()
            except Exception as error:
                # It may have taken a part of what failed: what it has is asked for anew.
                self._stored = None
                if not is_gone(error):
                    raise
                # Emptied since: everything is sent again.
                self.store.emptied()
                self._sync()

    def finish(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        """Add figures (`figures/`) and report to the sweep's own run and end it as `status`.

        None: as its runs stand, whoever follows them. Raises StoreError when a file cannot be
        stored, after ending the run all the same.
        """
        if not there(self._paths.runs):
            return
        with self.store.used():
            self._open()
            parent = self._parent()
            artifacts = self.store.artifacts_of(parent.mlflow_id)
            try:
                overview = self._overview()
                self._write_overview(overview)
                put_artifacts(artifacts, overview)
                for figure in figures:
                    artifacts.add(figure, self._artifact_folder(figure))
                if report is not None:
                    artifacts.add(report)
                if status is None and overview.stopped is not None:
                    status = "FINISHED"
            finally:
                self._write_status(parent, status or self._final_status())

    def link(self) -> str | None:
        """Where the store's server shows the sweep; None without one, or before it was opened."""
        if self._stored is None or not self.store.served:
            return None
        return link(self.store.name, self.store.experiment_id, self._plan)

    def _write_overview(self, overview: Overview) -> None:
        """Tag the runs, and the sweep's own, with what came of them."""
        assert self._stored is not None
        for run_id, run in self._stored.items():
            wanted = overview.metrics.get(run_id or "", {})
            values = {key: value for key, value in wanted.items() if run.metrics.get(key) != value}
            tags = overview.tags_of(run_id, run.mlflow_id)
            points = [Point(0, overview.unix_time, values)] if values else []
            news = News(points=points)
            known = self._known[run_id] if run_id else None
            ended = run_id in (overview.stopped or ())
            if known and ended and known.standing is Standing.TO_EXTEND:
                tags["status"] = str(Standing.STOPPED)
                news.status = MLFLOW_STATUS[Standing.STOPPED]
                news.end_time = milliseconds(known.reading.last_time)
            news.tags = _changed(run, tags)
            self._write(run, news)
            run.metrics.update(values)

    def _artifact_folder(self, figure: Path) -> str:
        """`figures`, and in it the variant of `grid.axes` where the sweep has several."""
        view = figure.parent.parent
        analysis = self._paths.analysis
        inside = view.is_relative_to(analysis) and view != analysis
        return f"figures/{view.name}" if inside else "figures"

    def _sync(self) -> None:
        self._open()
        parent = self._parent()
        for planned in self._plan.runs:
            self._sync_run(planned, self._known[planned.run_id], parent)
        self._sync_parent(parent)

    def _open(self) -> None:
        """Have a store whose runs are known, and that is still the one they were found in."""
        if self.store.open():
            self._stored = None
        if self._stored is not None and (parent := self._stored.get(None)):
            self.store.client.get_run(parent.mlflow_id)
            return
        self.store.show(experiment_tags(self._plan))
        self._stored = self._search()
        for known in self._known.values():
            known.watch.forget()

    def _search(self) -> dict[str | None, _StoredRun]:
        query = sweep_filter(self._plan)
        runs: dict[str | None, _StoredRun] = {}
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

    def _parent(self) -> _StoredRun:
        """The sweep's own run, made if missing."""
        assert self._stored is not None
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params = {"budget_unit": self._plan.budget_unit, "budgets": budgets}
        params["num_runs"] = str(len(self._plan.runs))
        name = sweep_run_name(self._paths.root.name)
        run = self._stored.get(None) or self._create(None, name, {}, self._begun())
        self._write(run, News(params=self._missing(run, params)))
        return run

    def _begun(self) -> float | None:
        """When the first record of any run was written; None before that."""
        logs = (self._paths.run(run.run_id).records for run in self._plan.runs)
        first = (record.unix_time for log in logs for record in read_records(log).records[:1])
        return min(first, default=None)

    def _create(
        self, run_id: str | None, name: str, tags: dict[str, str], start: float | None
    ) -> _StoredRun:
        assert self._stored is not None
        created = self.store.client.create_run(
            self.store.experiment_id,
            start_time=milliseconds(start) if start is not None else None,
            tags={SWEEP_TAG: self._sweep, **tags},
            run_name=name,
        )
        run = self._stored[run_id] = _stored_run(created)
        return run

    def _missing(self, run: _StoredRun, params: Params) -> dict[str, str]:
        """Params that the run lacks: they cannot change, so only a kill leaves any."""
        wanted = {**self._spec_params, **params}
        return {key: str(value) for key, value in wanted.items() if key not in run.params}

    def _sync_run(self, planned: PlannedRun, known: _KnownRun, parent: _StoredRun) -> None:
        assert self._stored is not None
        changed = known.watch.changed()
        if not changed and known.standing not in LIVE:
            return
        # Before the records: they then hold at least what the state speaks of. A process that
        # ends without a word changes no file.
        files, unit = known.watch.files, self._plan.budget_unit
        view = view_run(files) if changed or known.view is None else known.view
        standing = run_standing(planned, view, unit, self._health.stop)
        if not changed and standing is known.standing:
            return
        reading = read_run(files, planned, self._max_points, unit) if changed else known.reading
        tags = fixed_tags(planned, parent.mlflow_id)
        run = self._stored.get(planned.run_id)
        if run is None:
            run = self._create(planned.run_id, run_name(planned), tags, reading.first_time)
        self._write(run, self._news(planned, run, view, standing, reading))
        known.view = view if standing in LIVE else None
        known.standing, known.reading = standing, reading.without_points()

    def _news(
        self,
        planned: PlannedRun,
        run: _StoredRun,
        view: RunView,
        standing: Standing,
        reading: RunReading,
    ) -> News:
        params = own_params(planned)
        if planned.learning_rate is not None:
            params["learning_rate"] = planned.learning_rate
        status = MLFLOW_STATUS[standing]
        end = milliseconds(view.state.updated) if view.state else None
        ended = status not in ("RUNNING", "SCHEDULED")
        same = (run.status, run.end_time) == (status, end) if ended else run.status == status
        sent = json.loads(run.tags.get(SENT_TAG, "{}"))
        points = [point for point in reading.points if point.step > sent.get(point.series, -1)]
        sent |= {point.series: point.step for point in points}
        tags = changing_tags(view, standing, reading, run.tags, self._health)
        tags[SENT_TAG] = json.dumps(sent)
        return News(
            params=self._missing(run, params),
            points=points,
            tags=_changed(run, tags),
            status=None if same else status,
            end_time=end,
        )

    def _write(self, run: _StoredRun, news: News) -> None:
        if not news:
            return
        send(self.store.client, run.mlflow_id, news)
        run.params.update(news.params)
        run.tags.update(news.tags)
        if news.status is not None:
            run.status, run.end_time = news.status, news.end_time

    def _sync_parent(self, parent: _StoredRun) -> None:
        readings = [self._known[run.run_id].reading for run in self._plan.runs]
        rewards = [r.best_reward for r in readings if r.best_reward is not None]
        standings = {run_id: known.standing for run_id, known in self._known.items()}
        values = {"sweep/done_runs": float(Tally.of(standings).counts[Standing.DONE])}
        if rewards:
            values["sweep/best_run_reward"] = max(rewards)
        changed = {key: value for key, value in values.items() if parent.metrics.get(key) != value}
        if rewards and changed:
            step = sum(r.num_records for r in readings)
            self._write(parent, News(points=[Point(step, self._last_time(), changed)]))
            parent.metrics.update(changed)
        # Whether it failed is said at its end.
        if (status := self._final_status()) in ("RUNNING", "FINISHED"):
            self._write_status(parent, status)

    def _final_status(self) -> MlflowStatus:
        standings = {known.standing for known in self._known.values()}
        if standings.intersection(LIVE):
            return "RUNNING"
        if all(standing.ended for standing in standings):
            return "FINISHED"
        return "FAILED" if Standing.FAILED in standings else "KILLED"

    def _write_status(self, parent: _StoredRun, status: MlflowStatus) -> None:
        last = self._last_time()
        end = milliseconds(last) if last and status != "RUNNING" else None
        if (parent.status, parent.end_time if end else None) != (status, end):
            self._write(parent, News(status=status, end_time=end))

    def _last_time(self) -> float:
        return max(known.reading.last_time for known in self._known.values())


def _changed(run: _StoredRun, tags: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in tags.items() if run.tags.get(key) != value}


def _stored_run(run: Any) -> _StoredRun:
    return _StoredRun(
        mlflow_id=run.info.run_id,
        status=run.info.status,
        end_time=run.info.end_time,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        metrics=dict(run.data.metrics),
    )
