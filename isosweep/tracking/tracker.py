"""The view of a sweep, kept equal to the runs' files, wherever it is stored.

Everything sent is derived from those files, with the times written there: a sync after a crash, or
into an empty store, adds what is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from isosweep.config.health import HealthConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.tracking.backend import (
    Backend,
    Content,
    FinalStatus,
    Params,
    Point,
    RunStatus,
    StoredRun,
    StoredRuns,
)
from isosweep.tracking.points import SPENT, read_run, rounded, run_name, start_time

# The tag `status` of a run that is done and lost what it had gained, by the sweep's analysis.
_COLLAPSED = "collapsed"
# MLflow keeps for good when a run began: one that waits is made once it has begun.
_WAITING = (Standing.NOT_BEGUN, Standing.QUEUED)
# The icon of a run in MLflow's table: green for FINISHED alone, so that a run without a reward to
# use has another. The tag `status` has the standing itself.
MLFLOW_STATUS: dict[Standing, RunStatus] = {
    Standing.NOT_BEGUN: "SCHEDULED",
    Standing.QUEUED: "SCHEDULED",
    Standing.RUNNING: "RUNNING",
    Standing.TO_EXTEND: "SCHEDULED",
    Standing.STOPPED: "FINISHED",
    Standing.INTERRUPTED: "KILLED",
    Standing.FAILED: "FAILED",
    Standing.CANCELLED: "KILLED",
    Standing.DIVERGED: "FAILED",
    Standing.DONE: "FINISHED",
}


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What an analysis, or a search, says of the sweep's runs, by run id, and of its own by None.

    `note`: the sweep's description, in Markdown. `metrics` are as of `unix_time`. `files`: to be
    stored, each in a folder. `collapsed`: runs that lost what they had gained; None if nothing was
    analysed. `stopped`: runs of a search that has ended; None while it goes on.
    """

    note: str = ""
    tags: Mapping[str | None, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, dict[str, float]] = field(default_factory=dict)
    unix_time: float = 0.0
    files: tuple[tuple[Path, str], ...] = ()
    collapsed: frozenset[str] | None = None
    stopped: frozenset[str] | None = None


class _Synced(NamedTuple):
    """A run at its last sync; `records`: the points of these."""

    attempt: Attempt | None
    standing: Standing
    records: list[Point]

    @property
    def last_time(self) -> float:
        """Unix time of the last record, 0 without one."""
        return max((point.unix_time for point in self.records), default=0.0)


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
        params: Params,
        max_points: int,
        health: HealthConfig,
        overview: Callable[[], Overview] = Overview,
        devices: int = 1,
    ) -> None:
        """`params`: what all runs share; `max_points`: training steps to send of a run at most;
        `overview`: called at the end; `devices`: of one run."""
        self.backend = backend
        self._paths, self._plan, self._params, self._health = paths, plan, params, health
        self._max_points, self._devices = max_points, devices
        self._read_overview, self._overview = overview, Overview()
        self._stored: StoredRuns | None = None
        self._synced: dict[str, _Synced] = {}

    def sync(self) -> StoredRun | None:
        """Add to the store what the files have and it lacks; returns the sweep's own run, None
        while the runs' directory is away.

        Raises whatever the store's library raises; the next sync then goes on.
        """
        if not self._paths.runs.is_dir():
            return None
        try:
            if self._stored is None:
                self._stored = self.backend.open()
                self._synced.clear()
            return self._sync(self._stored)
        except Exception:
            # The store may have taken a part: it is asked anew for what it has.
            self._stored = None
            raise

    def finish(self, status: FinalStatus | None) -> None:
        """Sync with what was concluded, add that to the sweep's own run, and end it as `status`;
        None: as its runs stand.

        Raises as `sync`, where a file cannot be stored after ending the run all the same.
        """
        overview = self._overview = self._read_overview()
        self._synced.clear()
        if status is None and overview.stopped is not None:
            status = "FINISHED"
        try:
            if (sweep_run := self.sync()) is not None:
                self._add(sweep_run, Content(tags=overview.tags.get(None, {})))
                try:
                    self.backend.describe(sweep_run, overview.note, overview.files)
                finally:
                    self._add(sweep_run, self._ended(status or self._status()))
        finally:
            self.backend.close()

    def _sync(self, stored: StoredRuns) -> StoredRun:
        if None not in stored or stored[None].closed:
            name = f"all of {self._paths.root.name}"
            stored[None] = self.backend.create(None, name, self._began())
        for planned in self._plan.runs:
            self._sync_run(stored, planned)
        self._add(stored[None], self._sweep_content())
        return stored[None]

    def _began(self) -> float | None:
        """Return when the first of all runs began; None before that."""
        logs = (self._paths.run(run.run_id).records for run in self._plan.runs)
        times = (start_time(read_records(log).records, self._devices) for log in logs)
        return min((time for time in times if time is not None), default=None)

    def _sync_run(self, stored: StoredRuns, planned: PlannedRun) -> None:
        run_id, files = planned.run_id, self._paths.run(planned.run_id)
        # Before the records: they then hold at least what the state speaks of.
        attempt = newest(files)
        standing = run_standing(planned, attempt, self._plan.budget_unit, self._health.stop)
        # Whoever writes to a run's logs says so in its state.
        if run_id in self._synced and self._synced[run_id][:2] == (attempt, standing):
            return
        content = read_run(files, planned, self._plan, self._max_points, self._devices)
        records = [point for point in content.points if point.series == "heldout"]
        self._synced[run_id] = _Synced(attempt, standing, records)
        run = stored.get(run_id)
        begun = (attempt is not None and attempt.begun) or content.begun is not None
        if run is None and not begun and standing in _WAITING:
            return
        before = run or StoredRun()
        content = self._completed(content, planned, attempt, standing, before.tags.get("status"))
        if run is None or (run.closed and before.lacks(content)):
            name = run_name(planned, self._plan)
            run = stored[run_id] = self.backend.create(run_id, name, content.begun)
        self._add(run, content)

    def _completed(
        self,
        content: Content,
        planned: PlannedRun,
        attempt: Attempt | None,
        standing: Standing,
        before: str | None,
    ) -> Content:
        """Add params, status and what was concluded; `before`: the tag `status` of the run."""
        overview, run_id = self._overview, planned.run_id
        end = round(attempt.updated, 3) if attempt and attempt.updated else None
        if standing is Standing.TO_EXTEND and run_id in (overview.stopped or ()):
            standing, end = Standing.STOPPED, round(self._synced[run_id].last_time, 3)
        # Until the sweep is analysed again, the last analysis counts.
        fell = before == _COLLAPSED if overview.collapsed is None else run_id in overview.collapsed
        collapsed = fell and standing is Standing.DONE
        params = {
            **self._params,
            "n": planned.num_generations,
            "B": planned.problems_per_batch,
            "T": planned.num_steps,
            "seed": planned.seed,
        }
        if planned.learning_rate is not None:
            params["learning_rate"] = planned.learning_rate
        tags = {
            **content.tags,
            "status": _COLLAPSED if collapsed else str(standing),
            "reason": attempt.reason if attempt else "",
            "diverged_by": (attempt.diverged_by if attempt else None) or "",
            **overview.tags.get(run_id, {}),
        }
        verdict = Point(0, overview.unix_time, overview.metrics.get(run_id, {}))
        return replace(
            content,
            params=params,
            tags=tags,
            points=[*content.points, verdict],
            status="FAILED" if collapsed else MLFLOW_STATUS[standing],
            end_time=end,
            complete=standing.ended,
        )

    def _sweep_content(self) -> Content:
        """Return what the view shows of the sweep while it goes on."""
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params = {**self._params, "budget_unit": self._plan.budget_unit, "budgets": budgets}
        done = sum(run.standing is Standing.DONE for run in self._synced.values())
        records = [point for run in self._synced.values() for point in run.records]
        last = [run.records[-1].values for run in self._synced.values() if run.records]
        values = {}
        if records:
            values["sweep/done_runs"] = float(done)
            values["sweep/best_run_reward"] = max(p.values["heldout/avg_at_k"] for p in records)
        for name in SPENT:
            if spent := [each[name] for each in last if name in each]:
                values[name] = rounded(sum(spent))
        point = Point(len(records), self._last_time(), values)
        # Only its end says whether it failed.
        status = self._status() if self._status() in ("RUNNING", "FINISHED") else None
        return replace(self._ended(status), params=params, points=[point])

    def _status(self) -> RunStatus:
        standings = {run.standing for run in self._synced.values()}
        if standings & {Standing.RUNNING, Standing.QUEUED}:
            return "RUNNING"
        if all(standing.ended for standing in standings):
            return "FINISHED"
        return "FAILED" if Standing.FAILED in standings else "KILLED"

    def _ended(self, status: RunStatus | None) -> Content:
        return Content(status=status, end_time=round(self._last_time(), 3) or None)

    def _last_time(self) -> float:
        return max((run.last_time for run in self._synced.values()), default=0.0)

    def _add(self, run: StoredRun, content: Content) -> None:
        """Add to the store what the run lacks."""
        if news := run.lacks(content):
            self.backend.write(run, news)
            run.add(news)
