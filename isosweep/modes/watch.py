"""`mode=watch`: one page of a sweep in a browser, on this machine, while its runs train.

It reads files and asks schedulers, and writes nothing into the sweep.
"""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from rich.console import Console

from isosweep import words
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError, RecordError
from isosweep.files import JsonObject
from isosweep.modes.dashboard import show_link
from isosweep.modes.directory import StoredSweep, never_launched, stored_sweep
from isosweep.modes.display_progress import Estimate
from isosweep.modes.display_search import as_asked, stored_search
from isosweep.modes.jobs import Asked, Jobs
from isosweep.modes.look import Sight, look, of_planned
from isosweep.modes.signals import Signals
from isosweep.modes.status import device_hours, driver_of
from isosweep.modes.terminal import say, typed
from isosweep.modes.watch_server import Page, PageServer
from isosweep.modes.watching import COMPLETE
from isosweep.plan.cells import predicted
from isosweep.plan.standing import compute_behind
from isosweep.plan.tally import Standing, Tally
from isosweep.store.drivers import newest_driver
from isosweep.store.records import log_files
from isosweep.words.numbers import UNITS

if TYPE_CHECKING:
    from jinja2 import Template

# Planned: never launched. Analysing: nothing is left to train, and who follows the sweep is still
# there. Idle: begun, and nobody is at it. Ended: nothing is left to do.
State = Literal["planned", "running", "analysing", "idle", "ended"]
# Between two looks at the runs: of processes of this machine, and of a scheduler's jobs; and how
# much longer than a look takes. Seconds.
_LOOK_S: Final = 2.0
_SCHEDULER_S: Final = 15.0
_SHARE: Final = 10
# Between two analyses, and how much longer than the last one took: it is one of many guests of a
# login node. Seconds.
_ANALYSIS_S: Final = 20.0
_ANALYSIS_SHARE: Final = 5
# A page that nobody has open is not waited for. Seconds.
_LAST_S: Final = 60.0
# Rows of the table; of more runs those that nothing happens to are counted.
_MANY_ROWS: Final = 300
_QUIET: Final = (Standing.DONE, Standing.NOT_BEGUN)
_ACTIVE: Final = (Standing.QUEUED, Standing.RUNNING)


def watch_sweep(config: SweepConfig, console: Console) -> int:
    """Serve the page until Ctrl-C, or until the sweep has ended and the page has said so; 0.

    A sweep that had ended before is shown until Ctrl-C.
    """
    sweep = stored_sweep(config)
    sweep.require_own("mode=watch")
    server = PageServer(config.watch.port)
    watched = Watched(sweep, Jobs(sweep.config), server.nonce)
    with (
        Signals() as signals,
        tempfile.TemporaryDirectory(prefix="isosweep-") as own,
        server.serving(),
        watched,
    ):
        server.page = watched.page()
        shown_all_along = server.page.last
        show_link("watch", server.link, config, console, Path(own))
        say(console, *words.lines("watch", "until", server.port, socket.gethostname()))
        console.file.flush()
        deadline = math.inf
        while not signals.asked:
            server.page = watched.page()
            if server.page.last and not shown_all_along:
                deadline = min(deadline, time.monotonic() + _LAST_S)
                if server.seen_last.is_set() or time.monotonic() > deadline:
                    say(console, *words.lines("watch", "ended", watched.document))
                    break
            signals.sleep(watched.pause_s)
    return 0


class Watched:
    """A sweep as its files and its jobs are, and as the newest analysis has it."""

    def __init__(self, sweep: StoredSweep, jobs: Asked, nonce: str = "") -> None:
        self.sweep, self.document = sweep, JsonObject()
        self._jobs, self._nonce = jobs, nonce
        self._analysis = _Analysis(sweep)
        self._behind: dict[str, float] = {}
        self._estimate: Estimate | None = None
        self._took_s = 0.0
        self._fault: str | None = None

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._analysis.close()

    @property
    def pause_s(self) -> float:
        """Seconds until the next look."""
        asks = self.sweep.config.launcher.name not in ("local", "inline")
        return max(_SCHEDULER_S if asks else _LOOK_S, _SHARE * self._took_s)

    def page(self) -> Page:
        """The page of this moment; with the last one nothing is left to come."""
        began = time.monotonic()
        try:
            self.document, self._fault = self._seen(), None
        except (OSError, IsosweepError) as error:
            # A file system that is away for a while, or a file that is being replaced.
            self._fault = str(error)
        ended = self.document.get("state") == "ended" and self._fault is None
        analysis = self._analysis
        analysis.step(self._records(), last=ended)
        self._took_s = time.monotonic() - began
        html = _rendered(
            sweep=self.sweep.name,
            nonce=self._nonce,
            seen=self.document or None,
            fault=self._fault,
            analysis=analysis.document,
            analysed=analysis.moment,
            tunes=self.sweep.config.search.kind == "tune",
            last=ended and analysis.settled,
        )
        return Page(html.encode(), last=ended and analysis.settled)

    def _seen(self) -> JsonObject:
        sweep = self.sweep
        search = stored_search(sweep)
        sights = [as_asked(each, search) for each in look(sweep, self._jobs, clock=_own_clock)]
        collapsed = self._analysis.collapsed or sweep.collapsed()
        tally = Tally.of({sight.run.run_id: sight.standing for sight in sights}, collapsed)
        behind = {sight.run.run_id: self._compute_behind(sight) for sight in sights}
        running = sum(sight.standing is Standing.RUNNING for sight in sights)
        driver = driver_of(sweep.paths.drivers, _own_clock)
        state = self._state(sights, followed=driver is not None)
        total = math.fsum(run.milestones[-1] for run in sweep.plan.runs)
        planned_s = math.fsum(predicted(run.seconds) for run in sweep.plan.runs)
        left_s = self._seconds_left(behind, running)
        return {
            "state": state,
            "counts": {each.value: count for each, count in tally.counts.items()},
            "collapsed": tally.collapsed,
            "budget_unit": sweep.plan.budget_unit,
            "share": math.fsum(behind.values()) / total if total else 1.0,
            # How far a search goes is not known before.
            "seconds_left": left_s if state == "running" and search is None else None,
            "searches": search is not None,
            # Evaluation as the newest analysis has it: nobody reads all records at every look.
            "device_hours": math.fsum(map(device_hours, sights)) + self._analysis.evaluation_hours,
            "planned_device_hours": planned_s * sweep.config.devices_taken / 3600,
            "pricing": asdict(sweep.plan.pricing),
            "driver": None if driver is None else {"user": driver.user, "host": driver.by.host},
            "resume": f"python -m isosweep mode=resume {typed('sweep_dir', sweep.paths.root)}",
            "report": str(sweep.paths.report) if sweep.paths.report.exists() else None,
            "axes": sorted({name for run in sweep.plan.runs for name in run.axes}),
            **_rows(sights, behind, collapsed),
        }

    def _compute_behind(self, sight: Sight) -> float:
        unit, stop = self.sweep.plan.budget_unit, self.sweep.config.health.stop
        return compute_behind(sight.run, sight.paths, sight.view, unit, stop)

    def _state(self, sights: Sequence[Sight], *, followed: bool) -> State:
        ended = all(sight.standing.ended for sight in sights)
        if followed or any(sight.standing in _ACTIVE for sight in sights):
            return "analysing" if ended else "running"
        if ended or self._left_nothing():
            return "ended"
        return "planned" if never_launched(self.sweep.paths.root) else "idle"

    def _left_nothing(self) -> bool:
        """Whether who followed the sweep last has left it complete: a search may leave runs."""
        try:
            last = newest_driver(self.sweep.paths.drivers)
        except (RecordError, OSError):
            return False
        return last is not None and last.left in COMPLETE

    def _seconds_left(self, behind: dict[str, float], running: int) -> float | None:
        """Until the last run's end, by what was predicted and how runs have come forward since the
        page was opened, if as many train at once as have been seen to."""
        most = self.sweep.config.launcher.max_parallel
        plan = {run.run_id: run for run in self.sweep.plan.runs}
        share = {name: done / plan[name].milestones[-1] for name, done in behind.items()}
        if self._estimate is None:
            self._estimate = Estimate(self.sweep.plan.runs, share, most or max(1, running))
        for name, done in share.items():
            change = done - self._behind.get(name, done)
            if change > 0:
                self._estimate.came_forward(plan[name], change)
        self._behind = share
        self._estimate.places = most or max(self._estimate.places, running)
        now = time.monotonic()
        self._estimate.step(now, running)
        return self._estimate.seconds_left(now)

    def _records(self) -> tuple[Any, ...]:
        """Changes with the records of any run."""
        found = []
        for run in self.sweep.plan.runs:
            for path in log_files(self.sweep.paths.run(run.run_id).records).values():
                try:
                    stat = path.stat()
                except OSError:
                    continue
                found.append((path.parent.parent.name, path.name, stat.st_size, stat.st_mtime_ns))
        return tuple(found)


def _own_clock(_: Path) -> float:
    """This machine's time: that of the file system takes a file in the sweep."""
    return time.time()


def _rows(
    sights: Sequence[Sight], behind: dict[str, float], collapsed: Collection[str]
) -> JsonObject:
    """The table's rows, and how many runs it leaves out."""
    shown = list(sights)
    if len(shown) > _MANY_ROWS:
        shown = [sight for sight in sights if sight.standing not in _QUIET][:_MANY_ROWS]
    rows = [_row(sight, behind[sight.run.run_id], collapsed) for sight in shown]
    return {"rows": rows, "rows_left_out": len(sights) - len(shown)}


def _row(sight: Sight, behind: float, collapsed: Collection[str]) -> JsonObject:
    run, state = sight.run, sight.state
    fell = sight.standing is Standing.DONE and run.run_id in collapsed
    return {
        "n": run.num_generations,
        "B": run.problems_per_batch,
        "seed": run.seed,
        "axes": run.axes,
        "standing": "collapsed" if fell else sight.standing.value,
        "share": min(1.0, behind / run.milestones[-1]),
        "steps": of_planned(state.step if state else 0, run.num_steps),
        "reward": state.reward if state else None,
        "note": sight.note,
        "job": sight.job_id if sight.observed is not None else None,
    }


class _Analysis:
    """The newest analysis of the records, in a process of its own: `watch_analysis`."""

    def __init__(self, sweep: StoredSweep) -> None:
        self.document: JsonObject | None = None
        self.moment: float | None = None
        self._root = sweep.paths.root
        # What `search=tune` finds has a report of its own, at its end.
        self._never = sweep.config.search.kind == "tune"
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._wanted: tuple[Any, ...] = ()
        self._of: tuple[Any, ...] = ()
        self._began = self._next = self._as_of = 0.0

    @property
    def collapsed(self) -> Collection[str]:
        """Runs that the newest analysis found to have collapsed."""
        return () if self.document is None else self.document["collapsed"]

    @property
    def evaluation_hours(self) -> float:
        """Device-hours of all evaluations that it has read."""
        variants = [] if self.document is None else self.document["variants"]
        return math.fsum(each["answer"]["spent"].get("evaluation_hours") or 0 for each in variants)

    @property
    def settled(self) -> bool:
        """Whether all records are analysed."""
        return self._process is None and (self._never or self._of == self._wanted)

    def step(self, records: tuple[Any, ...], *, last: bool) -> None:
        """Take what has come of the process, and start it again where `records` are others and it
        is time; of the `last` records it is always time."""
        self._wanted = records
        if self._process is not None and self._process.poll() is not None:
            self._take(self._process.returncode)
        now = time.monotonic()
        waits = self._never or self._process is not None or (now < self._next and not last)
        if not waits and records != self._of:
            self._start(records, now)

    def _start(self, records: tuple[Any, ...], now: float) -> None:
        command = [sys.executable, "-P", "-m", "isosweep.modes.watch_analysis", str(self._root)]
        # Files, and no pipes, which a long document would fill while nobody reads.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._errors,
            cwd="/",
            # Its threads would take every core of a login node.
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._of, self._began, self._as_of = records, now, time.time()

    def _take(self, status: int) -> None:
        """The document, or the last line of what went wrong beside the document of before."""
        assert self._out is not None
        assert self._errors is not None
        self._out.seek(0)
        self._errors.seek(0)
        if status == 0:
            document = json.loads(self._out.read())
        else:
            lines = self._errors.read().decode(errors="replace").split("\n")
            said = [line for line in lines if line.strip()]
            document = {"fault": said[-1] if said else f"it ended with status {status}"}
        self.document = {"collapsed": [], "variants": [], **(self.document or {}), **document}
        self.moment = self._as_of
        took = time.monotonic() - self._began
        self._next = self._began + max(_ANALYSIS_S, _ANALYSIS_SHARE * took)
        self.close()

    def close(self) -> None:
        """End the process, whose document is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for file in (self._out, self._errors):
            if file is not None:
                file.close()
        self._process = self._out = self._errors = None


def _rendered(**values: Any) -> str:
    return _template().render(**values)


@cache
def _template() -> "Template":
    from markupsafe import Markup

    environment = words.environment(autoescape=True)
    # The report's.
    style = (resources.files("isosweep.analysis.pages") / "page.css").read_text(encoding="utf-8")
    return environment.get_template("watch.html", globals={"style": Markup(style), "units": UNITS})
