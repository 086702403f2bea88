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

from isosweep.config.base import replaced
from isosweep.errors import SettingError, StorageError
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.modes.display_progress import Progress
from isosweep.modes.on_finish import Ended, Finish, on_finish
from isosweep.modes.queues import Queues, Sweep
from isosweep.modes.signals import INTERRUPTED, Signals
from isosweep.modes.status import who
from isosweep.modes.stored import places_of
from isosweep.modes.terminal import say, typed, warn
from isosweep.modes.track import close_tracker, track
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.study import resolve_stored
from isosweep.plan.tally import Standing, Tally
from isosweep.store.drivers import Claim, drive

if TYPE_CHECKING:
    from isosweep.launchers.queue import RunQueue
    from isosweep.tracking.points import RunStatus
    from isosweep.tracking.tracker import BackgroundTracker

# After a second Ctrl-C: what a killed process takes to go.
_KILLED_S = 10.0
# Between two looks at a file system that fails: the first, doubled up to the last.
_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 60.0
# By which SQLite says that the file system fails under it.
_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")


def launch_sweeps(sweeps: list[Sweep], console: Console) -> int:
    """Submit what there is place for, and leave; returns 0."""
    driven, queues = Driven(sweeps, console), _queues(console)
    try:
        queues.add(driven.sweeps)
        for queue in queues.at_work:
            # Each pass submits so many; the next ones take the rest.
            before = queue.waiting + 1
            while queue.waiting < before and queue.submits:
                before = queue.waiting
                queue.step()
        waiting = sum(queue.waiting for queue in queues.all)
        if driven.sweeps:
            say(console, f"{len(queues.active)} runs started; follow them with mode=resume")
        if waiting:
            say(console, f"{waiting} runs wait for a free device: mode=resume starts them")
        for queue in queues.all:
            queue.detach()
    finally:
        driven.release(INTERRUPTED)
    return 0


def _queues(console: Console) -> Queues:
    def notice(line: str) -> None:
        say(console, line, style="yellow")

    return Queues(notice)


def follow_sweeps(sweeps: list[Sweep], console: Console) -> int:
    """Run and analyse all sweeps that no other process drives; the worst exit status.

    0; 1 if runs failed; INTERRUPTED if this process leaves before the end, by a signal.
    """
    driven = Driven(sweeps, console)
    followed = _Followed(driven, console)
    try:
        return followed.run()
    finally:
        followed.hide_progress()
        driven.release(INTERRUPTED)


class Driven:
    """The sweeps of a command that this process drives from now on. Others are named with the
    process that drives them, and left to it."""

    def __init__(self, sweeps: list[Sweep], console: Console) -> None:
        self.claims: dict[Path, tuple[Sweep, Claim]] = {}
        for root, sweep in {sweep.paths.root: sweep for sweep in sweeps}.items():
            claim = drive(sweep.paths.drivers)
            if isinstance(claim, Claim):
                self.claims[root] = (sweep, claim)
                say(console, f"sweep: {root}")
            else:
                shown = f"mode=status {typed('sweep_dir', root)}"
                line = f"{sweep.name} is driven by {who(claim)}, and left to it; {shown} shows it"
                say(console, line)

    @property
    def sweeps(self) -> list[Sweep]:
        """The sweeps that are left to be followed."""
        return [sweep for sweep, _ in self.claims.values()]

    def require_there(self) -> None:
        """Raise OSError where a sweep's files cannot be seen at present."""
        for sweep in self.sweeps:
            sweep.paths.runs.stat()
            sweep.paths.plan.stat()

    def release(self, status: int) -> None:
        """Leave all sweeps with an exit status."""
        for _, claim in self.claims.values():
            claim.release(status)
        self.claims.clear()


class _Followed:
    """What one command follows."""

    def __init__(self, driven: Driven, console: Console) -> None:
        self._console, self._driven = console, driven
        self._queues = _queues(console)
        self._trackers: dict[Path, BackgroundTracker | None] = {}
        self._worst = 0
        # What searches have asked for and no queue has yet, by sweep.
        self._asked: dict[Path, set[str]] = defaultdict(set)
        self._progress: Progress | None = None
        self._analysed: list[Sweep] = []
        # What of the file system fails, and why; the seconds until it is looked at again.
        self._fault: tuple[str, str] | None = None
        self._pause_s = 0.0

    def run(self) -> int:
        with Signals() as signals:
            for root, sweep in zip(self._driven.claims, self._driven.sweeps, strict=True):
                self._trackers[root] = track(sweep.stored, self._console)
                if sweep.search is not None:
                    sweep.search.open(sweep.left)
            self._queues.add(self._driven.sweeps)
            while self._driven.sweeps and not signals.asked:
                try:
                    if self._pass() and not signals.asked:
                        self.hide_progress()
                        self._finish(signals)
                    self._works()
                    signals.sleep(self._queues.pause_s if self._driven.sweeps else 0.0)
                except (OSError, StorageError) as error:
                    if not _may_pass(error):
                        raise
                    self._wait(error, signals)
            if self._driven.sweeps:
                self.hide_progress()
                return self._leave(signals)
        _over_all_budgets(self._analysed, self._console)
        return self._worst

    def _pass(self) -> bool:
        """Ask searches, start runs, collect those that are over, and show it; whether all are."""
        self._driven.require_there()
        for sweep in self._driven.sweeps:
            asked = self._asked[sweep.paths.root]
            asked |= sweep.ask(self._queues.failed, self._console)
            if asked:
                self._queues.ask(sweep, asked)
                asked.clear()
        progress = self._shown()
        self._queues.step()
        # The last runs to end are told too.
        progress.update(self._queues.attempts, self._queues.failed)
        return not self._queues.busy and all(sweep.settled for sweep in self._driven.sweeps)

    def _shown(self) -> Progress:
        """The progress of all sweeps: each run once, by the sweep that wants most of it."""
        sweeps = self._driven.sweeps
        first = sweeps[0]
        runs: dict[str, PlannedRun] = {}
        for sweep in sweeps:
            # Compute of another unit, or runs that lie elsewhere, cannot be added up.
            alike = sweep.study.plan.budget_unit == first.study.plan.budget_unit
            for run in sweep.runs if alike and sweep.paths.runs == first.paths.runs else ():
                known = runs.get(run.run_id)
                if known is None or known.milestones[-1] < run.milestones[-1]:
                    runs[run.run_id] = run
        if self._progress is not None:
            self._progress.extend(runs.values())
            return self._progress
        plan: Plan = replace(first.study.plan, runs=tuple(runs.values()) or first.study.plan.runs)
        places, stop = places_of(first.study), first.study.config.health.stop
        steps = any(sweep.search is not None for sweep in sweeps)
        self._progress = Progress(plan, first.paths, stop, self._console, places, steps)
        if (line := self._progress.beginning(detaches=self._detaches)) is not None:
            say(self._console, line)
        return self._progress

    def hide_progress(self) -> None:
        """Leave the terminal to lines."""
        if self._progress is not None:
            self._progress.stop()

    def _wait(self, error: OSError | StorageError, signals: Signals) -> None:
        """Sleep until the file system is looked at again; say what is waited for, if it is news."""
        signals.note_from_now_on()
        self.hide_progress()
        kind = error.strerror if isinstance(error, OSError) else "the search"
        if self._fault is None or kind != self._fault[1]:
            self._fault = _place(error), str(kind)
            line = error.fault if isinstance(error, StorageError) else ": ".join(self._fault)
            # It may go to the disk that is full.
            with suppress(OSError):
                say(self._console, f"{line}; waiting until that passes, or Ctrl-C", style="yellow")
        self._pause_s = min(max(_FIRST_LOOK_S, 2 * self._pause_s), _LAST_LOOK_S)
        signals.sleep(self._pause_s)

    def _works(self) -> None:
        """Say that the file system works, where it had failed."""
        if self._fault is not None:
            say(self._console, f"{self._fault[0]} works again")
        self._fault, self._pause_s = None, 0.0

    @property
    def _detaches(self) -> bool:
        return any(queue.launcher.detaches for queue in self._queues.all)

    def _leave(self, signals: Signals) -> int:
        """Detach from jobs that go on by themselves; let local runs write checkpoints, or end them
        when asked again."""
        staying = [queue for queue in self._queues.all if not queue.launcher.detaches]
        for queue in self._queues.all:
            if queue.launcher.detaches:
                queue.detach()
                say(self._console, "detached; the jobs continue")
        if staying:
            self._stop_runs(staying, signals)
        for sweep in self._driven.sweeps:
            _tell(sweep, "interrupted", len(self._queues.failed), self._console)
            again = f"python -m isosweep mode=resume {typed('sweep_dir', sweep.paths.root)}"
            say(self._console, f"continue with: {again}")
        return INTERRUPTED

    def _stop_runs(self, staying: "list[RunQueue]", signals: Signals) -> None:
        """Wait until the runs have left, as long as they may take; a second signal ends them."""
        if sum(queue.stop() for queue in staying):
            say(self._console, "stopping: every run writes a checkpoint first")
        grace = max(sweep.study.config.launcher.stop_grace_s for sweep in self._driven.sweeps)
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
            tracker.close("KILLED")

    def _finish(self, signals: Signals) -> None:
        """Analyse the sweeps, whose runs are done, and let them go."""
        failed = self._queues.failed
        # What is on the disk stays there: an analysis is interrupted at once.
        signals.interrupt_from_now_on()
        for sweep in self._driven.sweeps:
            sweep.close_search()
        for root, (sweep, claim) in list(self._driven.claims.items()):
            ids = sweep.run_ids
            own = {**sweep.left, **{r: why for r, why in failed.items() if r in ids}}
            status = _complete(sweep, own, self._console)
            ended: RunStatus = "FAILED" if own else "FINISHED"
            close_tracker(self._trackers.pop(root, None), sweep.stored, ended, self._console)
            claim.release(status)
            _tell(sweep, "failed" if own else "finished", len(own), self._console)
            del self._driven.claims[root]
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
        question = replaced(sweep.study.config, budget=(1.0,), name=None, sweep_dir=None)
        alike[repr(question)].append(sweep)
    for group in alike.values():
        if len(group) > 1:
            _analyse_together(group, console)


def _analyse_together(sweeps: list[Sweep], console: Console) -> None:
    config = sweeps[0].study.config
    budgets = tuple(sorted({budget for s in sweeps for budget in s.study.config.budgets}))
    try:
        study = resolve_stored(replaced(config, budget=budgets, name=None, sweep_dir=None))
    except SettingError as error:
        say(console, f"no analysis over all budgets: {error}")
        return
    paths = sweep_paths(study)
    store_plan(study, paths)
    listed = ", ".join(f"{budget:g}" for budget in budgets)
    say(console, f"over all budgets of these sweeps ({listed}): {paths.root}")
    analyse_sweep(Sweep(study=study, paths=paths).stored, console)
