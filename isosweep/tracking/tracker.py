"""The view of a sweep, kept equal to the runs' files, wherever it is kept.

Everything sent is derived from those files, with the times written there: a sync after a crash, or
into an empty store, adds what is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from isosweep.config.health import HealthConfig
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing, Tally
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.tracking.backend import (
    Backend,
    News,
    Params,
    StoredRun,
    StoredRuns,
    StoreError,
    fault,
)
from isosweep.tracking.points import (
    MLFLOW_STATUS,
    FinalStatus,
    MlflowStatus,
    Point,
    RunReading,
    Shape,
    begun_at,
    read_run,
    varies_in_batch,
)

# The tag `status` of a run that is done and lost what it had gained, by the sweep's analysis.
COLLAPSED = "collapsed"
_LIVE = (Standing.RUNNING, Standing.QUEUED)
# MLflow keeps for good when a run began: one that waits is made once it has begun.
_WAITING = (Standing.NOT_BEGUN, Standing.QUEUED)
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What an analysis, or a search, says of the sweep's runs, by run id, and of its own by None.

    `note`: the sweep's description, in Markdown. `metrics` are as of `unix_time`. `files`: what is
    kept beside figures and report. `collapsed`: runs that lost what they had gained; None if
    nothing was analysed. `stopped`: runs of a search that has ended; None while it goes on.
    """

    note: str = ""
    tags: Mapping[str | None, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unix_time: float = 0.0
    files: tuple[Path, ...] = ()
    collapsed: frozenset[str] | None = None
    stopped: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class _ReadRun:
    """What the files of a run said when they were last read."""

    attempt: Attempt | None
    standing: Standing
    reading: RunReading


class Tracker:
    """A run for the sweep and one for each of its runs that has begun, kept equal to the files.

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
        overview: Callable[[], Overview] = Overview,
        devices: int = 1,
    ) -> None:
        """`max_points`: most steps of a run's training; `health`: rules that judge runs;
        `overview`: what was concluded, asked at the end; `devices`: of one run."""
        self.backend = backend
        self._paths, self._plan, self._health = paths, plan, health
        self._spec_params = dict(spec_params)
        self._shape = Shape(plan=plan, max_points=max_points, devices=devices)
        self._ask_overview, self._overview = overview, Overview()
        self._stored: StoredRuns | None = None
        self._read: dict[str, _ReadRun] = {}

    def sync(self) -> None:
        """Bring the store up to what the files say; adds nothing if nothing is new.

        Raises StoreError if the store cannot be used; the next sync then goes on.
        """
        self._use(self._sync)

    def finish(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        """Sync with what was concluded, add figures (`figures/`) and report to the sweep's own run,
        and end that as `status`; None: as its runs stand.

        Raises StoreError, if a file cannot be stored after ending the run all the same.
        """
        self._use(lambda: self._finish(status, figures, report))

    def _use(self, work: Callable[[], object]) -> None:
        # While the runs' directory is away there is nothing to say, and none is made in its place.
        if not self._paths.runs.is_dir():
            return
        try:
            work()
        except Exception as error:
            # The store may have taken a part: it is asked anew for what it has.
            self._stored = None
            own = isinstance(error, SettingError)
            raise StoreError(
                str(error) if own else f"{self.backend.name}: {fault(error)}"
            ) from error

    def _finish(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        overview = self._overview = self._ask_overview()
        self._read.clear()
        try:
            parent = self._sync()
            try:
                self._write(parent, News(tags=_changed(overview.tags.get(None, {}), parent.tags)))
                files = [(figure, self._folder(figure)) for figure in figures]
                files += [(file, "") for file in (*overview.files, *([report] if report else []))]
                self.backend.describe(parent, overview.note, files)
            finally:
                if status is None and overview.stopped is not None:
                    status = "FINISHED"
                self._write_status(parent, status or self._final_status())
        finally:
            self.backend.close()

    def _folder(self, figure: Path) -> str:
        """`figures`, and in it the variant of `grid.axes` if the sweep has several."""
        view, analysis = figure.parent.parent, self._paths.analysis
        inside = view.is_relative_to(analysis) and view != analysis
        return f"figures/{view.name}" if inside else "figures"

    def _sync(self) -> StoredRun:
        if self._stored is None:
            self._stored = self.backend.open()
            self._read.clear()
        parent = self._parent(self._stored)
        for planned in self._plan.runs:
            self._sync_run(self._stored, planned)
        self._sync_parent(parent)
        return parent

    def _parent(self, stored: StoredRuns) -> StoredRun:
        """The sweep's own run, made if missing."""
        run = stored.get(None)
        if run is None or run.closed:
            name = f"all of {self._paths.root.name}"
            run = stored[None] = self.backend.create(None, name, {}, self._begun())
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params: Params = {"budget_unit": self._plan.budget_unit, "budgets": budgets}
        self._write(run, News(params=self._lacking(run, params)))
        return run

    def _begun(self) -> float | None:
        """When the first of all runs began; None before that."""
        logs = (self._paths.run(run.run_id).records for run in self._plan.runs)
        begun = (begun_at(read_records(log).records, self._shape.devices) for log in logs)
        return min((time for time in begun if time is not None), default=None)

    def _lacking(self, run: StoredRun, params: Params) -> Params:
        """Params that the run lacks: they cannot change, so only a kill leaves any."""
        wanted = {**self._spec_params, **params}
        return {key: value for key, value in wanted.items() if key not in run.params}

    def _sync_run(self, stored: StoredRuns, planned: PlannedRun) -> None:
        files, before = self._paths.run(planned.run_id), self._read.get(planned.run_id)
        # Before the records: they then hold at least what the state speaks of.
        attempt = newest(files)
        standing = run_standing(planned, attempt, self._plan.budget_unit, self._health.stop)
        # Whoever writes to a run's logs says so in its state.
        if before is not None and (before.attempt, before.standing) == (attempt, standing):
            return
        reading = read_run(files, planned, self._shape)
        self._read[planned.run_id] = _ReadRun(
            attempt=attempt, standing=standing, reading=replace(reading, points=())
        )
        run = stored.get(planned.run_id)
        begun = (attempt is not None and attempt.begun) or reading.begun is not None
        if run is None and not begun and standing in _WAITING:
            return
        news = self._news(planned, run or StoredRun(), attempt, standing, reading)
        if run is None or (run.closed and news):
            name = run_name(planned, self._plan)
            tags = {key: str(value) for key, value in _own_params(planned).items()}
            run = self.backend.create(planned.run_id, name, tags, reading.begun)
            stored[planned.run_id] = run
            news = self._news(planned, run, attempt, standing, reading)
        self._write(run, news)

    def _news(
        self,
        planned: PlannedRun,
        run: StoredRun,
        attempt: Attempt | None,
        standing: Standing,
        reading: RunReading,
    ) -> News:
        overview, run_id = self._overview, planned.run_id
        params = _own_params(planned)
        if planned.learning_rate is not None:
            params["learning_rate"] = planned.learning_rate
        end = round(attempt.updated, 3) if attempt and attempt.updated else None
        if standing is Standing.TO_EXTEND and run_id in (overview.stopped or ()):
            standing, end = Standing.STOPPED, round(reading.last_time, 3)
        # As the analysis says, or, before it is asked, as it said last.
        fell = overview.collapsed
        collapsed = standing is Standing.DONE and (
            run.tags.get("status") == COLLAPSED if fell is None else run_id in fell
        )
        tags = _changing_tags(attempt, standing, reading, run.tags)
        tags |= {"status": COLLAPSED} if collapsed else {}
        status = "FAILED" if collapsed else MLFLOW_STATUS[standing]
        points = [p for p in reading.points if p.step > run.sent.get(p.series, -1)]
        wanted = overview.metrics.get(run_id, {})
        if values := _changed(wanted, run.metrics):
            points.append(Point(0, overview.unix_time, values))
        return News(
            params=self._lacking(run, params),
            points=points,
            tags=_changed(tags | dict(overview.tags.get(run_id, {})), run.tags),
            status=_new_status(run, status, end),
            end_time=end,
            complete=standing.ended,
        )

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
        readings = [known.reading for known in self._read.values()]
        rewards = [each.best_reward for each in readings if each.best_reward is not None]
        tally = Tally.of({run_id: known.standing for run_id, known in self._read.items()})
        values = {"sweep/done_runs": float(tally.counts[Standing.DONE])}
        if rewards:
            values["sweep/best_run_reward"] = max(rewards)
        for name in {name for reading in readings for name in reading.taken}:
            total = sum(reading.taken.get(name, 0.0) for reading in readings)
            values[name] = float(f"{total:.4g}")
        changed = _changed(values, parent.metrics)
        if rewards and changed:
            step = sum(each.num_records for each in readings)
            self._write(parent, News(points=[Point(step, self._last_time(), changed)]))
        # Whether it failed is said at its end.
        if (status := self._final_status()) in ("RUNNING", "FINISHED"):
            self._write_status(parent, status)

    def _final_status(self) -> MlflowStatus:
        standings = {known.standing for known in self._read.values()}
        if standings.intersection(_LIVE):
            return "RUNNING"
        if all(standing.ended for standing in standings):
            return "FINISHED"
        return "FAILED" if Standing.FAILED in standings else "KILLED"

    def _write_status(self, parent: StoredRun, status: MlflowStatus) -> None:
        end = round(self._last_time(), 3) or None
        self._write(parent, News(status=_new_status(parent, status, end), end_time=end))

    def _last_time(self) -> float:
        return max((known.reading.last_time for known in self._read.values()), default=0.0)


def run_name(planned: PlannedRun, plan: Plan) -> str:
    """n, B if the plan has several, seed and values of `grid.axes`: n=008 B=64 seed=0.

    Numbers are as wide as the plan's largest, so that names sorted as text are sorted by them.
    """
    shown = {"n": "num_generations", "B": "problems_per_batch", "seed": "seed"}
    if not varies_in_batch(plan):
        del shown["B"]
    largest = {name: max(getattr(run, name) for run in plan.runs) for name in shown.values()}
    numbers = [
        f"{key}={getattr(planned, name):0{len(str(largest[name]))}d}" for key, name in shown.items()
    ]
    return " ".join([*numbers, *filter(None, [variant_label(planned.axes)])])


def _own_params(planned: PlannedRun) -> dict[str, str | float | int]:
    """What sets the run apart from the sweep's others."""
    return {
        "n": planned.num_generations,
        "B": planned.problems_per_batch,
        "T": planned.num_steps,
        "seed": planned.seed,
    }


def _changing_tags(
    attempt: Attempt | None, standing: Standing, reading: RunReading, known: Mapping[str, str]
) -> dict[str, str]:
    """Tags that say how far the run is; `known`: those that it has."""
    texts = {"warnings": reading.warnings, "unreadable": reading.fault}
    texts["reason"] = attempt.reason if attempt else ""
    texts["diverged_by"] = (attempt.diverged_by if attempt else None) or ""
    reached = ",".join(f"{budget:g}" for budget in reading.reached)
    # What is no longer so is emptied; what never was is not sent.
    said = {key: text for key, text in texts.items() if text or key in known}
    return {"status": str(standing), "budgets_reached": reached, **said}


def _new_status(run: StoredRun, status: MlflowStatus, end: float | None) -> MlflowStatus | None:
    """None if the run has the status, and the end, already."""
    open_ended = status in ("RUNNING", "SCHEDULED") or end is None
    return None if run.status == status and (open_ended or run.end_time == end) else status


def _changed(wanted: Mapping[str, _T], known: Mapping[str, _T]) -> dict[str, _T]:
    return {key: value for key, value in wanted.items() if known.get(key) != value}
