"""The view of a sweep, kept equal to the runs' files by one thread of one process.

Everything sent is derived from those files, with the times written there: a sync after a crash, or
into an empty store, adds what is missing. A store that fails stops nothing.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from isosweep.config.study import HealthConfig
from isosweep.config.trust import hidden
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.tracking.points import (
    SPENT,
    Content,
    Files,
    Params,
    Point,
    RunStatus,
    read_run,
    rounded,
    run_name,
    start_time,
)

# The tag `status` of a run that is done and lost what it had gained, by the sweep's analysis.
_COLLAPSED = "collapsed"
# MLflow keeps for good when a run began: one that waits is made once it has begun.
_WAITING = (Standing.NOT_BEGUN, Standing.QUEUED)
# The icon of a run in MLflow's table, SCHEDULED for all others: green for FINISHED alone, so that a
# run without a reward to use has another. The tag `status` has the standing itself.
_STATUS: dict[Standing, RunStatus] = {
    Standing.RUNNING: "RUNNING",
    Standing.STOPPED: "FINISHED",
    Standing.DONE: "FINISHED",
    Standing.FAILED: "FAILED",
    Standing.DIVERGED: "FAILED",
    Standing.INTERRUPTED: "KILLED",
    Standing.CANCELLED: "KILLED",
}
# Longest text of a library that a line of the terminal carries.
_MAX_FAULT = 200


@dataclass(kw_only=True)
class StoredRun:
    """What a store has of a run. `key`: its id there; `sent`: the last step of each series;
    `closed`: nothing can be added, unless it is created again."""

    key: str = ""
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    status: str = ""
    end_time: float | None = None
    closed: bool = False
    handle: Any = None

    def lacks(self, content: Content) -> Content | None:
        """Return the part of `content` that is not stored, if any. An empty tag only replaces
        another."""
        points = []
        for point in content.points:
            if not point.series:
                new = {k: v for k, v in point.values.items() if self.metrics.get(k) != v}
                points += [replace(point, values=new)] if new else []
            elif point.step > self.sent.get(point.series, -1):
                points.append(point)
        ended = content.end_time is not None and content.status not in ("SCHEDULED", "RUNNING")
        same = self.status == content.status and not (ended and self.end_time != content.end_time)
        news = replace(
            content,
            params={k: v for k, v in content.params.items() if k not in self.params},
            tags={k: v for k, v in content.tags.items() if self.tags.get(k, "") != v},
            points=points,
            status=None if same else content.status,
        )
        parts = (news.params, news.tags, news.points, news.status, news.note, news.files)
        return news if any(parts) else None

    def add(self, news: Content) -> None:
        """Note what is about to be stored; `Backend.write` notes which points are."""
        self.params.update(news.params)
        self.tags.update(news.tags)
        for point in news.points:
            self.metrics.update(point.values)
        if news.status is not None:
            self.status, self.end_time = news.status, news.end_time


# By run id; the sweep's own run by None.
StoredRuns = dict[str | None, StoredRun]


class Backend(Protocol):
    """Where a view is stored. Methods raise whatever the store's library raises.

    `name`: for people; `link`: where a server shows the sweep, None without one, or before `open`.
    """

    name: str
    link: str | None

    def open(self) -> StoredRuns:
        """Connect, make what is missing, and return the sweep's runs that are there."""

    def create(self, run_id: str | None, name: str, begun: float | None) -> StoredRun:
        """Make a run that began at `begun` (Unix time); None: the sweep's own run."""

    def write(self, run: StoredRun, news: Content) -> None:
        """Add `news` to the run, its files last, and note in `run.sent` which points it has."""

    def close(self) -> None:
        """Write out everything: nothing follows for now."""


def sweep_name(paths: SweepPaths, plan: Plan) -> str:
    """Return what distinguishes a sweep from others in one store."""
    return f"{paths.root.name}@{plan.plan_id}"


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What an analysis, or a search, says of the sweep's runs, by run id, and of its own by None.

    `note`: the sweep's description, in Markdown. `metrics` are as of `unix_time`. `collapsed`: runs
    that lost what they had gained; None if nothing was analysed. `stopped`: runs of a search that
    has ended; None while it goes on.
    """

    note: str = ""
    tags: Mapping[str | None, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, dict[str, float]] = field(default_factory=dict)
    unix_time: float = 0.0
    files: Files = ()
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

    def sync(self) -> StoredRun:
        """Add to the store what the files have and it lacks; returns the sweep's own run.

        Raises FileNotFoundError where the runs' directory is away, and whatever the store's library
        raises; the next sync then goes on.
        """
        self._paths.runs.stat()
        try:
            if self._stored is None:
                self._stored = self.backend.open()
                self._synced.clear()
            stored = self._stored
            if None not in stored:
                name = f"all of {self._paths.root.name}"
                stored[None] = self.backend.create(None, name, self._began())
            for planned in self._plan.runs:
                self._sync_run(stored, planned)
            self._add(stored[None], self._sweep_content())
            return stored[None]
        except Exception:
            # The store may have taken a part: it is asked anew for what it has.
            self._stored = None
            raise

    def finish(self, status: RunStatus | None) -> None:
        """Sync with what was concluded, and end the sweep's own run as `status`; None: as its runs
        stand. Raises as `sync`, where a file cannot be stored after ending the run all the same."""
        overview = self._overview = self._read_overview()
        self._synced.clear()
        if status is None and overview.stopped is not None:
            status = "FINISHED"
        try:
            sweep_run = self.sync()
            content = replace(
                self._sweep_content(),
                tags=overview.tags.get(None, {}),
                note=overview.note,
                files=overview.files,
                status=status or self._status(),
            )
            self._add(sweep_run, content)
        finally:
            self.backend.close()

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
        synced = self._synced[run_id] = _Synced(attempt, standing, records)
        run = stored.get(run_id)
        begun = (attempt is not None and attempt.begun) or content.begun is not None
        if run is None and not begun and standing in _WAITING:
            return
        before = run or StoredRun()
        content = self._concluded(content, planned, synced, before)
        if run is None or (run.closed and before.lacks(content)):
            name = run_name(planned, self._plan)
            run = stored[run_id] = self.backend.create(run_id, name, content.begun)
        self._add(run, content)

    def _concluded(
        self, content: Content, planned: PlannedRun, synced: _Synced, before: StoredRun
    ) -> Content:
        """Add params, status and what was concluded of a run; `before`: what is stored of it."""
        overview, run_id = self._overview, planned.run_id
        attempt, standing, _ = synced
        end = round(attempt.updated, 3) if attempt and attempt.updated else None
        if standing is Standing.TO_EXTEND and run_id in (overview.stopped or ()):
            standing, end = Standing.STOPPED, round(synced.last_time, 3)
        # Until the sweep is analysed again, the last analysis counts.
        fell = before.tags.get("status") == _COLLAPSED
        if overview.collapsed is not None:
            fell = run_id in overview.collapsed
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
            status="FAILED" if collapsed else _STATUS.get(standing, "SCHEDULED"),
            end_time=end,
            complete=standing.ended,
        )

    def _sweep_content(self) -> Content:
        """Return what the view shows of the sweep while it goes on."""
        budgets = ",".join(f"{budget:g}" for budget in self._plan.budgets)
        params = {**self._params, "budget_unit": self._plan.budget_unit, "budgets": budgets}
        runs = self._synced.values()
        records = [point for run in runs for point in run.records]
        last = [run.records[-1].values for run in runs if run.records]
        last_time = max((run.last_time for run in runs), default=0.0)
        values = {}
        if records:
            values["sweep/done_runs"] = float(sum(run.standing is Standing.DONE for run in runs))
            values["sweep/best_run_reward"] = max(p.values["heldout/avg_at_k"] for p in records)
        for name in SPENT:
            if spent := [each[name] for each in last if name in each]:
                values[name] = rounded(sum(spent))
        # Only its end says whether it failed.
        status = self._status()
        return Content(
            params=params,
            points=[Point(len(records), last_time, values)],
            status=status if status in ("RUNNING", "FINISHED") else None,
            end_time=round(last_time, 3) or None,
        )

    def _status(self) -> RunStatus:
        standings = {run.standing for run in self._synced.values()}
        if standings & {Standing.RUNNING, Standing.QUEUED}:
            return "RUNNING"
        if all(standing.ended for standing in standings):
            return "FINISHED"
        return "FAILED" if Standing.FAILED in standings else "KILLED"

    def _add(self, run: StoredRun, content: Content) -> None:
        """Add to the store what the run lacks."""
        if (news := run.lacks(content)) is not None:
            run.add(news)
            self.backend.write(run, news)


class BackgroundTracker:
    """Syncs a tracker every `interval_s` from a daemon thread.

    `say` is given a line when the store fails, one when it works again, and one at the end if the
    store lacks something, with `remedy`.
    """

    def __init__(
        self,
        tracker: Tracker,
        interval_s: float,
        say: Callable[[str], None],
        remedy: str = "mode=analyse",
        join_s: float = 60.0,
    ) -> None:
        """`join_s`: how long `close` waits at most."""
        self._tracker, self._interval_s, self._join_s = tracker, interval_s, join_s
        self._say, self._remedy = say, remedy
        self._stop = threading.Event()
        # What is wrong with the store at present.
        self._fault = ""
        self._status: RunStatus | None = None
        self._thread = threading.Thread(target=self._work, name="isosweep-tracking", daemon=True)
        self._thread.start()

    def link(self) -> str | None:
        """Return where a server shows the sweep, once it has taken everything; else None."""
        done = not (self._thread.is_alive() or self._fault)
        return self._tracker.backend.link if done else None

    def close(self, status: RunStatus | None) -> None:
        """Finish as `Tracker.finish`; returns after `join_s` at the latest."""
        self._status = status
        self._stop.set()
        self._thread.join(self._join_s)
        # A thread that is left behind says nothing from here on.
        self._say, say = (lambda line: None), self._say
        fault = self._fault
        if self._thread.is_alive():
            fault = f"{self._tracker.backend.name}: still not up to date after {self._join_s:.0f} s"
        if fault:
            say(f"tracking: {fault}; the view is incomplete, {self._remedy} completes it")

    def _work(self) -> None:
        while not self._stop.is_set():
            before = self._fault
            self._try(self._tracker.sync)
            if self._fault and not before:
                self._say(f"tracking: {self._fault}; the runs go on, and the view catches up later")
            self._stop.wait(self._interval_s)
        # `close` says what fails here.
        self._try(lambda: self._tracker.finish(self._status))

    def _try(self, step: Callable[[], object]) -> None:
        name, before, self._fault = self._tracker.backend.name, self._fault, ""
        try:
            step()
        except Exception as error:
            self._fault = f"{name}: {fault(error)}"
        if before and not self._fault:
            self._say(f"tracking: {name}: it works again and is up to date")


def fault(error: BaseException) -> str:
    """Return the first line of the error's root cause, without passwords."""
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    lines = str(error).strip().splitlines() or [""]
    return hidden(lines[0])[:_MAX_FAULT] or type(error).__name__
