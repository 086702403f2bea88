"""Launches sweeps and follows them to their ends: one queue, one progress, one analysis each."""

import errno
import os
import sqlite3
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.errors import SettingError, StorageError
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.display_progress import Progress
from isosweep.modes.on_finish import Ended, Finish, on_finish
from isosweep.modes.queues import Queues, Sweep
from isosweep.modes.signals import INTERRUPTED, Signals
from isosweep.modes.stored import places_of
from isosweep.modes.terminal import say, typed, warn
from isosweep.modes.track import close_tracker, track
from isosweep.modes.watching import Watching
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.study import resolve_stored
from isosweep.plan.tally import Standing, Tally
from isosweep.store.drivers import Driver
from isosweep.store.state import RunView, view_run

if TYPE_CHECKING:
    from isosweep.launchers.queue import RunQueue
    from isosweep.tracking.background import BackgroundTracker
    from isosweep.tracking.points import FinalStatus

# After a second Ctrl-C: what a killed process takes to go.
_KILLED_S = 10.0
# Between two looks at which runs of another's sweep are active, which reads all of them.
_OTHERS_S = 10.0
# Between two looks at a file system that fails: the first, doubled up to the last.
_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 60.0
# By which SQLite says that the file system fails under it.
_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")


def launch_sweeps(sweeps: list[Sweep], console: Console) -> int:
    """Submit what there is place for, and leave; returns 0.

    A sweep that another process follows is left to it.
    """
    watching, queues = Watching(sweeps, console), _queues(console)
    claimed, _ = watching.claim()
    try:
        queues.add(claimed)
        for queue in queues.at_work:
            # Each pass submits so many; the next ones take the rest.
            before = queue.waiting + 1
            while queue.waiting < before and queue.submits:
                before = queue.waiting
                queue.step()
        _print_roots(claimed, console)
        waiting = sum(queue.waiting for queue in queues.all)
        say(console, f"{len(queues.active)} runs started; follow them with mode=resume")
        if waiting:
            say(console, f"{waiting} runs wait for a free device: mode=resume starts them")
        for queue in queues.all:
            queue.leave()
    finally:
        watching.release(INTERRUPTED)
    return 0


def _queues(console: Console) -> Queues:
    def notice(line: str) -> None:
        say(console, line, style="yellow")

    return Queues(notice)


def _print_roots(sweeps: list[Sweep], console: Console) -> None:
    for sweep in sweeps:
        say(console, f"sweep: {sweep.paths.root}")


def follow_sweeps(sweeps: list[Sweep], console: Console) -> int:
    """Run and analyse all sweeps, or watch who does; the worst exit status.

    0; 1 if runs failed; INTERRUPTED if this process leaves before the end: by a signal, or since
    another one took over.
    """
    unique = list({sweep.paths.root: sweep for sweep in sweeps}.values())
    followed = _Followed(unique, console)
    try:
        return followed.run()
    finally:
        followed.watching.release(INTERRUPTED)


class _Followed:
    """What one command follows."""

    def __init__(self, sweeps: list[Sweep], console: Console) -> None:
        self._console = console
        self._sweeps = sweeps
        self.watching = Watching(sweeps, console)
        self._queues = _queues(console)
        self._trackers: dict[str, BackgroundTracker | None] = {}
        self._others_active: list[tuple[PlannedRun, RunView]] = []
        self._others_at = self._others_asked_at = 0.0
        self._worst = 0
        self._progress: Progress | None = None
        self._analysed: list[Sweep] = []
        # Sweeps that are this process's to follow or to analyse from now on.
        self._claimed: list[Sweep] = []
        self._completed: list[tuple[Sweep, Driver]] = []
        # What the file system is waited for, why, and the seconds until it is looked at again.
        self._place = ""
        self._fault: str | None = None
        self._pause_s = 0.0

    def run(self) -> int:
        with Signals() as signals:
            self._look_who()
            while self.watching.sweeps or self._completed:
                try:
                    self._round(signals)
                except (OSError, StorageError) as error:
                    if not _may_pass(error):
                        raise
                    self._wait(error, signals)
                if signals.asked:
                    return self._leave(signals)
        _over_all_budgets(self._analysed, self._console)
        return self._worst

    def _round(self, signals: Signals) -> None:
        """Follow all that is left until something is done, and analyse what is through."""
        self.watching.require_there()
        if self._claimed or self._completed:
            self._look_who()
        if not self.watching.sweeps:
            return
        self._ask()
        self._others_ask()
        followed = self.watching.sweeps
        first, self._progress = self._progress is None, self._progress_of_all()
        if first and (line := self._progress.beginning(detaches=self._detaches)) is not None:
            say(self._console, line)
        with self._progress:
            done = self._until_something_is_done(self._progress, signals)
        if signals.asked:
            return
        if done or self.watching.sweeps != followed:
            self._progress = None
        if done:
            self._finish(signals)
            self._works()

    def _wait(self, error: OSError | StorageError, signals: Signals) -> None:
        """Sleep until the file system is looked at again; say what is waited for, if it is news."""
        signals.note_from_now_on()
        kind = error.strerror if isinstance(error, OSError) else "the search"
        if kind != self._fault:
            self._place = _place(error)
            line = error.fault if isinstance(error, StorageError) else f"{self._place}: {kind}"
            # It may go to the disk that is full.
            with suppress(OSError):
                say(self._console, f"{line}; waiting until that passes, or Ctrl-C", style="yellow")
        self._fault = kind
        self._pause_s = min(max(_FIRST_LOOK_S, 2 * self._pause_s), _LAST_LOOK_S)
        signals.sleep(self._pause_s)

    def _works(self) -> None:
        """Say that the file system works, where it had failed."""
        if self._fault is not None:
            say(self._console, f"{self._place} works again")
        self._fault, self._pause_s = None, 0.0

    @property
    def _detaches(self) -> bool:
        return any(queue.launcher.detaches for queue in self._queues.all)

    def _look_who(self) -> None:
        for sweep in self.watching.overtaken():
            self._worst = max(self._worst, INTERRUPTED)
            self._queues.drop(sweep, [other for other, _ in self.watching.own.values()])
            self._trackers.pop(sweep.name, None)
        claimed, completed = self.watching.claim()
        _print_roots(claimed, self._console)
        self._claimed += claimed
        self._completed += completed
        for sweep in self._claimed:
            if sweep.name not in self._trackers:
                self._trackers[sweep.name] = track(sweep.stored, self._console)
        for sweep in self._claimed:
            if sweep.search is not None:
                sweep.search.open(sweep.left)
        self._queues.add(self._claimed)
        self._claimed = []
        while self._completed:
            sweep, driver = self._completed[0]
            self._worst = max(self._worst, _complete(sweep, driver.failed, self._console))
            self._completed.pop(0)

    def _leave(self, signals: Signals) -> int:
        """Detach from jobs that go on by themselves; let local runs write checkpoints, or end them
        when asked again."""
        staying = [queue for queue in self._queues.all if not queue.launcher.detaches]
        for queue in self._queues.all:
            if queue.launcher.detaches:
                queue.leave()
                say(self._console, "detached; the jobs continue")
        if staying:
            self._stop_runs(staying, signals)
        for sweep, _ in self.watching.own.values():
            _tell(sweep, "interrupted", len(self._queues.failed), self._console)
        for sweep in self.watching.sweeps:
            again = f"python -m isosweep mode=resume {typed('sweep_dir', sweep.paths.root)}"
            say(self._console, f"continue with: {again}")
        return INTERRUPTED

    def _stop_runs(self, staying: "list[RunQueue]", signals: Signals) -> None:
        """Wait until the runs have left, as long as they may take; a second signal ends them."""
        if sum(queue.stop() for queue in staying):
            say(self._console, "stopping: every run writes a checkpoint first")
        grace = max((s.study.config.launcher.stop_grace_s for s in self._sweeps), default=0.0)
        deadline = time.monotonic() + grace
        while any(queue.busy for queue in staying) and time.monotonic() < deadline:
            if signals.asked > 1:
                say(self._console, "ended at once; runs continue from their last checkpoints")
                deadline = time.monotonic() + _KILLED_S
                for queue in staying:
                    queue.stop(kill=True)
                signals.asked = 1
            for queue in staying:
                with suppress(OSError):
                    queue.step()
            signals.sleep(0.1, unless=1)
        signals.interrupt_from_now_on()
        if left := sum(len(queue.active) for queue in staying):
            say(self._console, f"{left} runs have not written a checkpoint yet; they end after it")
        for tracker in filter(None, self._trackers.values()):
            tracker.close("KILLED", [], None)

    def _ask(self) -> bool:
        """Queue what searches ask for now; whether they do."""
        asked = False
        for sweep, _ in self.watching.own.values():
            if run_ids := sweep.ask(self._queues.failed, self._console):
                self._queues.ask(sweep, run_ids)
                asked = True
        return asked

    def _others_ask(self) -> bool:
        """Whether another process's search has asked for more since the last look."""
        if not self.watching.others or time.monotonic() < self._others_asked_at:
            return False
        self._others_asked_at = time.monotonic() + _OTHERS_S
        searches = [sweep.search for sweep in self.watching.others if sweep.search is not None]
        # All of them look.
        return max([search.look() for search in searches], default=False)

    def _progress_of_all(self) -> Progress:
        """Of all sweeps that are left: each run once, by the sweep that wants most of it; the one
        that was shown before goes on."""
        sweeps = self.watching.sweeps
        first = sweeps[0]
        runs: dict[str, PlannedRun] = {}
        for sweep in sweeps:
            # Compute of another unit, or runs that lie elsewhere, cannot be added up.
            alike = sweep.study.plan.budget_unit == first.study.plan.budget_unit
            for run in sweep.runs if alike and sweep.paths.runs == first.paths.runs else ():
                known = runs.get(run.run_id)
                if known is None or known.milestones[-1] < run.milestones[-1]:
                    runs[run.run_id] = run
        wanted = tuple(runs.values()) or first.study.plan.runs
        plan: Plan = replace(first.study.plan, runs=wanted)
        if self._progress is not None:
            return self._progress.asked_for_more(plan)
        places, stop = places_of(first.study), first.study.config.health.stop
        steps = any(sweep.search is not None for sweep in sweeps)
        return Progress(plan, first.paths, stop, self._console, places, steps)

    def _until_something_is_done(self, progress: Progress, signals: Signals) -> bool:
        """Follow until own sweeps are through, sweeps are lost or completed, more runs are wanted,
        or a signal came. Whether own sweeps are through."""
        before = len(self.watching.sweeps)
        while not signals.asked:
            self.watching.require_there()
            done = self._pass(progress, before)
            if done is not None:
                return done
            self._works()
            signals.sleep(self._queues.pause_s)
        return False

    def _pass(self, progress: Progress, before: int) -> bool | None:
        """One look at all, of `before` sweeps; as above, None where it is to be gone on."""
        self._queues.step()
        if self.watching.due:
            self._look_who()
        if len(self.watching.sweeps) < before:
            return False
        # The last runs to end are told too.
        progress.update(self._active(), self._queues.failed)
        if self._ask() or self._others_ask():
            return False
        return True if self.watching.own and not self._queues.busy and self._settled else None

    def _active(self) -> list[tuple[PlannedRun, RunView]]:
        """The runs that are shown, with what was last read of each."""
        if self.watching.others and time.monotonic() > self._others_at:
            self._others_active = [
                pair for sweep in self.watching.others for pair in _running(sweep)
            ]
            self._others_at = time.monotonic() + _OTHERS_S
        return self._queues.views + (self._others_active if self.watching.others else [])

    @property
    def _settled(self) -> bool:
        return all(sweep.settled for sweep, _ in self.watching.own.values())

    def _finish(self, signals: Signals) -> None:
        """Analyse own sweeps, which are through, and let them go."""
        failed = self._queues.failed
        # What is on the disk stays there: an analysis is interrupted at once.
        signals.interrupt_from_now_on()
        for sweep, _ in self.watching.own.values():
            sweep.close_search()
        for name, (sweep, claim) in list(self.watching.own.items()):
            ids = sweep.run_ids
            own = {**sweep.left, **{r: why for r, why in failed.items() if r in ids}}
            status = _complete(sweep, own, self._console)
            ended: FinalStatus = "FAILED" if own else "FINISHED"
            close_tracker(self._trackers.pop(name, None), sweep.paths, ended, self._console)
            claim.release(status, own)
            _tell(sweep, "failed" if own else "finished", len(own), self._console)
            del self.watching.own[name]
            self._worst = max(self._worst, status)
            self._analysed.append(sweep)
        signals.note_from_now_on()


def _may_pass(error: OSError | StorageError) -> bool:
    """Whether it is an error of a file system, which may be well again later."""
    if isinstance(error, OSError):
        return error.errno not in (None, errno.EPIPE)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, sqlite3.OperationalError):
        cause = cause.__cause__
    return cause is not None and cause.sqlite_errorname.startswith(_SQLITE)


def _place(error: OSError | StorageError) -> str:
    """What fails: a file, or the directory of one that was about to be written."""
    if isinstance(error, StorageError) or error.filename is None:
        return "the file system"
    path = Path(os.fsdecode(error.filename))
    return str(path.parent if path.name.startswith(".") else path)


def _running(sweep: Sweep) -> list[tuple[PlannedRun, RunView]]:
    plan, stop = sweep.study.plan, sweep.study.config.health.stop
    views = ((run, view_run(sweep.paths.run(run.run_id))) for run in plan.runs)
    return [
        (run, view)
        for run, view in views
        if run_standing(run, view, plan.budget_unit, stop) is Standing.RUNNING
    ]


def _complete(sweep: Sweep, failed: dict[str, str], console: Console) -> int:
    """Say which runs `failed` or were cancelled, and analyse the sweep; 1 if any were, else 0."""
    standings = sweep.stored.standing().runs if failed else {}
    for run_id, reason in failed.items():
        word = "cancelled" if standings.get(run_id) is Standing.CANCELLED else "failed"
        say(console, f"{word}: {run_id}: {reason.removeprefix('cancelled ')}", style="red")
    analyse_sweep(sweep.stored, console)
    return 1 if failed else 0


def _tell(sweep: Sweep, status: Ended, failed: int, console: Console) -> None:
    """Do what `launcher.on_finish` asks for; what goes wrong with that is a line."""
    action = sweep.study.config.launcher.on_finish
    if action is None:
        return
    paths, runs = sweep.paths, sweep.stored.standing().runs
    ended = Finish(
        sweep_dir=str(paths.root),
        status=status,
        report=str(paths.report) if paths.report.exists() else "",
        done=Tally.of(runs).counts[Standing.DONE],
        failed=failed,
    )
    if (problem := on_finish(action, ended)) is not None:
        warn(console, problem)


def _over_all_budgets(sweeps: list[Sweep], console: Console) -> None:
    """One more analysis for sweeps that differ in nothing but budget, over all their budgets.

    Their runs are its runs, so that nothing is trained for it.
    """
    alike: dict[str, list[Sweep]] = defaultdict(list)
    for sweep in sweeps:
        question = replace(sweep.study.config, budget=(1.0,), name=None, sweep_dir=None)
        alike[repr(question)].append(sweep)
    for group in alike.values():
        if len(group) > 1:
            _analyse_together(group, console)


def _analyse_together(sweeps: list[Sweep], console: Console) -> None:
    config = sweeps[0].study.config
    budgets = tuple(sorted({budget for s in sweeps for budget in s.study.config.budgets}))
    try:
        study = resolve_stored(replace(config, budget=budgets, name=None, sweep_dir=None))
    except SettingError as error:
        say(console, f"no analysis over all budgets: {error}")
        return
    paths = sweep_paths(study)
    store_plan(study, paths)
    listed = ", ".join(f"{budget:g}" for budget in budgets)
    say(console, f"over all budgets of these sweeps ({listed}): {paths.root}")
    analyse_sweep(Sweep(study=study, paths=paths).stored, console)
