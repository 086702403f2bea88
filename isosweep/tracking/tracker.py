"""The view of a sweep, kept equal to the runs' files, wherever it is kept.

Everything sent is derived from those files, with the times written there, so a sync after a crash,
or into a backend that was emptied, finds what is already there and adds the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from isosweep.config.health import HealthConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing, Tally
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.store.state import RunView, view_run
from isosweep.tracking.backend import Backend, StoredRun, StoredRuns
from isosweep.tracking.news import News, milliseconds
from isosweep.tracking.overview import Overview
from isosweep.tracking.points import (
    MLFLOW_STATUS,
    FinalStatus,
    MlflowStatus,
    Point,
    RunReading,
    Shape,
    begun_at,
    read_run,
)
from isosweep.tracking.tags import (
    COLLAPSED,
    changing_tags,
    fixed_tags,
    own_params,
    run_name,
    sweep_run_name,
)
from isosweep.tracking.watch import RunWatch

Params = Mapping[str, str | float | int]
# Asked at the end, once the sweep is analysed.
Asked = Callable[[], Overview]

LIVE = (Standing.RUNNING, Standing.QUEUED)
# MLflow keeps for good when a run began: one that waits is made once it has begun.
_WAITING = (Standing.NOT_BEGUN, Standing.QUEUED)


@dataclass
class _KnownRun:
    """What the files of a run said when they were last read."""

    watch: RunWatch
    view: RunView | None = None
    standing: Standing = Standing.NOT_BEGUN
    reading: RunReading = field(default_factory=RunReading)


class Tracker:
    """A parent run for the sweep and a child for each run that has begun, kept equal to the files.

    A step that several attempts reached is sent once, as first seen: its numbers are the same but
    for `compute/device_seconds`.
    """

    def __init__(
        self,
        backend: Backend,
        paths: SweepPaths,
        plan: Plan,
        spec_params: Params,
        max_points: int,
        health: HealthConfig,
        overview: Asked = Overview,
        devices: int = 1,
    ) -> None:
        """`max_points`: steps of a run's training, at most; `health`: by which runs are judged;
        `overview`: what came of the sweep; `devices`: what one run takes."""
        self.backend = backend
        self.name = backend.name
        self._paths = paths
        self._plan = plan
        self._spec_params = dict(spec_params)
        self._shape = Shape(plan=plan, max_points=max_points, devices=devices)
        self._health = health
        self._overview = overview
        self._told = Overview()
        self._stored: StoredRuns | None = None
        self._known = {run.run_id: _KnownRun(RunWatch(paths.run(run.run_id))) for run in plan.runs}

    def sync(self) -> None:
        """Bring the store up to what the files say; adds nothing where nothing is new.

        Raises StoreError when the store cannot be used; the next sync goes on.
        """
        if not self._paths.runs.is_dir():
            return
        with self.backend.used():
            try:
                self._sync()
            except Exception as error:
                # It may have taken a part of what failed: what it has is asked for anew.
                self._stored = None
                if not self.backend.emptied(error):
                    raise
                self._sync()

    def finish(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        """Add figures (`figures/`) and report to the sweep's own run and end it as `status`.

        None: as its runs stand, whoever follows them. Raises StoreError when a file cannot be
        stored, after ending the run all the same.
        """
        if not self._paths.runs.is_dir():
            return
        with self.backend.used():
            try:
                self._open()
                parent = self._parent()
                try:
                    self._told = self._overview()
                    self._tell(parent)
                    placed = [(figure, self._artifact_folder(figure)) for figure in figures]
                    placed += [(report, "")] if report is not None else []
                    self.backend.put(parent, self._told, placed)
                    if status is None and self._told.stopped is not None:
                        status = "FINISHED"
                finally:
                    self._write_status(parent, status or self._final_status())
            finally:
                self.backend.close()

    def link(self) -> str | None:
        """Where a server shows the sweep; None without one, or before it was opened."""
        return self.backend.link()

    def _tell(self, parent: StoredRun) -> None:
        """Write what came of the sweep to its runs, and to its own."""
        assert self._stored is not None
        for planned in self._plan.runs:
            run, known = self._stored.get(planned.run_id), self._known[planned.run_id]
            if run is not None and (
                self._said(planned.run_id, run)
                or self._stopped(planned, known)
                or self._collapsed(planned.run_id, run, known.standing) != _is_collapsed(run)
            ):
                self._sync_run(planned, known, told=True)
        self._write(parent, self._said(None, parent))

    def _stopped(self, planned: PlannedRun, known: _KnownRun) -> bool:
        ended = self._told.stopped or ()
        return planned.run_id in ended and known.standing is Standing.TO_EXTEND

    def _said(self, run_id: str | None, run: StoredRun) -> News:
        """What came of the sweep and the run has not."""
        wanted = self._told.metrics.get(run_id or "", {})
        values = {key: value for key, value in wanted.items() if run.metrics.get(key) != value}
        points = [Point(0, self._told.unix_time, values)] if values else []
        return News(points=points, tags=_changed(run, self.backend.tags(self._told, run_id, run)))

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
            self._sync_run(planned, self._known[planned.run_id])
        self._sync_parent(parent)

    def _open(self) -> None:
        """Have a backend whose runs are known."""
        found = self.backend.open(self._stored)
        if found is None:
            return
        self._stored = found
        for known in self._known.values():
            known.watch.forget()

    def _parent(self) -> StoredRun:
        """The sweep's own run, made if missing."""
        assert self._stored is not None
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params = {"budget_unit": self._plan.budget_unit, "budgets": budgets}
        params["num_runs"] = str(len(self._plan.runs))
        name = sweep_run_name(self._paths.root.name)
        run = self._stored.get(None)
        if run is None or run.closed:
            run = self._create(None, name, {}, self._begun())
        self._write(run, News(params=self._missing(run, params)))
        return run

    def _begun(self) -> float | None:
        """When the first of all runs began; None before that."""
        logs = (self._paths.run(run.run_id).records for run in self._plan.runs)
        begun = (begun_at(read_records(log).records, self._shape.devices) for log in logs)
        return min((time for time in begun if time is not None), default=None)

    def _create(
        self, run_id: str | None, name: str, tags: dict[str, str], begun: float | None
    ) -> StoredRun:
        assert self._stored is not None
        run = self._stored[run_id] = self.backend.create(run_id, name, tags, begun)
        return run

    def _missing(self, run: StoredRun, params: Params) -> Params:
        """Params that the run lacks: they cannot change, so only a kill leaves any."""
        wanted = {**self._spec_params, **params}
        return {key: value for key, value in wanted.items() if key not in run.params}

    def _sync_run(self, planned: PlannedRun, known: _KnownRun, *, told: bool = False) -> None:
        """Write what is new of a run; `told`: also of what came of the sweep."""
        assert self._stored is not None
        changed = known.watch.changed()
        if not (changed or told or known.standing in LIVE):
            return
        # Before the records: they then hold at least what the state speaks of. A process that
        # ends without a word changes no file.
        files, unit = known.watch.files, self._plan.budget_unit
        view = view_run(files) if changed or known.view is None else known.view
        standing = run_standing(planned, view, unit, self._health.stop)
        if not (changed or told) and standing is known.standing:
            return
        run, reading = self._stored.get(planned.run_id), known.reading
        if changed or run is None:
            reading = read_run(files, planned, self._shape)
        begun = view.state is not None or reading.begun is not None
        if run is None and not begun and standing in _WAITING:
            known.view, known.standing = None, standing
            return
        news = self._news(planned, run, view, standing, reading) if run else None
        if run is None or (run.closed and news):
            if not changed:
                reading = read_run(files, planned, self._shape)
            name, tags = run_name(planned, self._plan), fixed_tags(planned)
            run = self._create(planned.run_id, name, tags, reading.begun)
            news = self._news(planned, run, view, standing, reading)
        if news:
            self._write(run, news)
        known.view = view if standing in LIVE else None
        known.standing, known.reading = standing, reading.without_points()

    def _news(
        self,
        planned: PlannedRun,
        run: StoredRun,
        view: RunView,
        standing: Standing,
        reading: RunReading,
    ) -> News:
        params = own_params(planned)
        if planned.learning_rate is not None:
            params["learning_rate"] = planned.learning_rate
        end = milliseconds(view.state.updated) if view.state else None
        if standing is Standing.TO_EXTEND and planned.run_id in (self._told.stopped or ()):
            standing, end = Standing.STOPPED, milliseconds(reading.last_time)
        collapsed = self._collapsed(planned.run_id, run, standing)
        status = "FAILED" if collapsed else MLFLOW_STATUS[standing]
        ended = status not in ("RUNNING", "SCHEDULED")
        same = (run.status, run.end_time) == (status, end) if ended else run.status == status
        points = [p for p in reading.points if p.step > run.sent.get(p.series, -1)]
        said = self._said(planned.run_id, run)
        tags = changing_tags(view, standing, reading, run.tags, self._health, collapsed=collapsed)
        return News(
            params=self._missing(run, params),
            points=[*points, *said.points],
            tags=_changed(run, tags) | dict(said.tags),
            status=None if same else status,
            end_time=end,
            complete=standing.ended,
        )

    def _collapsed(self, run_id: str, run: StoredRun, standing: Standing) -> bool:
        """Whether a run that is done has collapsed: as the sweep's analysis says, or, before it is
        asked, as it said last."""
        if standing is not Standing.DONE:
            return False
        told = self._told.collapsed
        return _is_collapsed(run) if told is None else run_id in told

    def _write(self, run: StoredRun, news: News) -> None:
        if not news:
            return
        self.backend.write(run, news)
        run.params.update(news.params)
        run.tags.update(news.tags)
        for point in news.points:
            run.metrics.update(point.values)
        if news.status is not None:
            run.status, run.end_time = news.status, news.end_time

    def _sync_parent(self, parent: StoredRun) -> None:
        readings = [self._known[run.run_id].reading for run in self._plan.runs]
        rewards = [r.best_reward for r in readings if r.best_reward is not None]
        standings = {run_id: known.standing for run_id, known in self._known.items()}
        values = {"sweep/done_runs": float(Tally.of(standings).counts[Standing.DONE])}
        if rewards:
            values["sweep/best_run_reward"] = max(rewards)
        for name in {name for reading in readings for name in reading.taken}:
            total = sum(reading.taken.get(name, 0.0) for reading in readings)
            values[name] = float(f"{total:.4g}")
        changed = {key: value for key, value in values.items() if parent.metrics.get(key) != value}
        if rewards and changed:
            step = sum(r.num_records for r in readings)
            self._write(parent, News(points=[Point(step, self._last_time(), changed)]))
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

    def _write_status(self, parent: StoredRun, status: MlflowStatus) -> None:
        last = self._last_time()
        end = milliseconds(last) if last and status != "RUNNING" else None
        if (parent.status, parent.end_time if end else None) != (status, end):
            self._write(parent, News(status=status, end_time=end))

    def _last_time(self) -> float:
        return max(known.reading.last_time for known in self._known.values())


def _is_collapsed(run: StoredRun) -> bool:
    return run.tags.get("status") == COLLAPSED


def _changed(run: StoredRun, tags: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in tags.items() if run.tags.get(key) != value}
