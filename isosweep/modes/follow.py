"""Following a sweep: its runs are started, shown, waited for, and analysed when all are over."""

import errno
import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.trust import hidden
from isosweep.errors import StorageError
from isosweep.launchers.launcher import QueueItem
from isosweep.launchers.make import make_launcher
from isosweep.launchers.queue import RunQueue
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.display_search import described_step
from isosweep.modes.live_report import LiveReport
from isosweep.modes.on_finish import run_on_finish
from isosweep.modes.progress import Progress
from isosweep.modes.run_files import store_runs
from isosweep.modes.signals import INTERRUPTED, Signals
from isosweep.modes.sweeps import StoredSweep, places_of
from isosweep.modes.terminal import say, typed, warn
from isosweep.modes.tracking import close_tracker, track
from isosweep.plan.cells import PlannedRun
from isosweep.plan.patience import stuck_after
from isosweep.plan.study import Study
from isosweep.plan.tally import Standing, Tally
from isosweep.store.drivers import Claim, drive
from isosweep.store.paths import SweepPaths
from isosweep.words.status import driver

if TYPE_CHECKING:
    from isosweep.search.asking import Search
    from isosweep.search.steps import Step
    from isosweep.tracking.points import RunStatus

# After a second Ctrl-C: what a killed process takes to go.
_KILLED_S = 10.0
# Pauses after an error of a file system: the first, doubled up to the last.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 60.0
# Names of SQLite's errors that say that the file system fails under it.
_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")


@dataclass(frozen=True, kw_only=True)
class DrivenSweep:
    """A sweep that a process launches. `given_up`: runs that are left as they are, with the reason;
    `search`: what chooses the runs, None where all of the plan are wanted."""

    study: Study
    paths: SweepPaths
    given_up: Mapping[str, str] = field(default_factory=dict)
    search: "Search | None" = None

    @property
    def stored(self) -> StoredSweep:
        """What the sweep's directory holds."""
        return StoredSweep(config=self.study.config, plan=self.study.plan, paths=self.paths)

    @property
    def resume_command(self) -> str:
        """The command that goes on with the sweep."""
        return f"python -m isosweep mode=resume {typed('sweep', self.paths.root)}"

    @property
    def runs(self) -> Sequence[PlannedRun]:
        """The runs of the plan, or those that the search has chosen, with their last milestones."""
        return self.study.plan.runs if self.search is None else self.search.runs

    def items(self, only: Collection[str] | None = None) -> list[QueueItem]:
        """What a queue is given for the wanted runs, or for those whose ids are in `only`."""
        config, patience = self.study.config, stuck_after(self.study)
        return [
            QueueItem(
                run=run,
                paths=self.paths.run(run.run_id),
                sweep=str(self.paths.root),
                unit=self.study.plan.budget_unit,
                health=config.health,
                saving=config.checkpoint,
                stuck_after_s=patience[run.run_id],
                requeue=config.launcher.name == "slurm" and config.launcher.slurm.requeue,
                trust=config.trust,
            )
            for run in self.runs
            if (only is None or run.run_id in only) and run.run_id not in self.given_up
        ]

    def next_steps(self, failed: Mapping[str, str]) -> "Sequence[Step]":
        """What the search chooses now; `failed`: runs given up, with the reason."""
        if self.search is None:
            return ()
        with self._storage():
            return self.search.next({**self.given_up, **failed})

    @property
    def stopped(self) -> str | None:
        """Why the search chooses no more; None while it may, "" where all runs are wanted."""
        return "" if self.search is None else self.search.stop

    def close_search(self) -> None:
        """Close the trials of a search that has stopped."""
        if self.search is not None:
            with self._storage():
                self.search.close()

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """Raise a StorageError where the search's storage fails."""
        from optuna.exceptions import OptunaError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (OptunaError, SQLAlchemyError) as error:
            from isosweep.search.study import shown_storage

            where = shown_storage(self.paths, self.study.config.search)
            fault = hidden(" ".join(str(error).split())[:300])
            raise StorageError(where, fault, self.resume_command) from error


def make_queue(sweep: DrivenSweep, console: Console) -> RunQueue:
    """Write what the workers of the sweep's runs read, and queue the runs."""
    store_runs(sweep.study, sweep.paths)
    config = sweep.study.config
    return RunQueue(
        sweep.items(),
        make_launcher(config),
        max_parallel=places_of(sweep.study) or len(sweep.study.plan.runs),
        max_retries=config.launcher.max_retries,
        notice=lambda line: say(console, line, style="yellow"),
    )


def launch_sweep(sweep: DrivenSweep, console: Console) -> int:
    """Submit the runs that there is place for, and leave; returns 0."""
    if (claim := _claim(sweep, console)) is None:
        return 0
    try:
        queue = make_queue(sweep, console)
        # Each pass submits as many as one call of the scheduler takes.
        before = queue.waiting + 1
        while queue.waiting < before and queue.submits:
            before = queue.waiting
            queue.step()
        say(console, f"{len(queue.active)} runs started; follow them with mode=resume")
        if queue.waiting:
            say(console, f"{queue.waiting} runs wait for a free device: mode=resume starts them")
        queue.detach()
    finally:
        claim.release(INTERRUPTED)
    return 0


def follow_sweep(sweep: DrivenSweep, console: Console) -> int:
    """Run and analyse the sweep; returns 0, 1 if runs failed, or INTERRUPTED after a signal.

    A sweep that another process drives is left to that process.
    """
    if (claim := _claim(sweep, console)) is None:
        return 0
    status = INTERRUPTED
    with Signals() as signals:
        try:
            followed = _Followed(sweep, console, signals)
            status = followed.run()
        finally:
            claim.release(status)
        ended = {0: "finished", 1: "failed", INTERRUPTED: "interrupted"}[status]
        _notify(sweep, ended, len(followed.failed), console)
    if status == INTERRUPTED:
        say(console, f"continue with: {sweep.resume_command}")
    return status


def _claim(sweep: DrivenSweep, console: Console) -> Claim | None:
    """The claim that this process drives the sweep; None, and a line, where another one does."""
    claim = drive(sweep.paths.drivers)
    if isinstance(claim, Claim):
        say(console, f"sweep: {sweep.paths.root}")
        return claim
    root = sweep.paths.root
    shown = f"mode=status {typed('sweep', root)}"
    say(console, f"{root.name} is driven by {driver(claim)}, and left to it; {shown} shows it")
    return None


class _Followed:
    """A sweep whose runs this process starts and waits for."""

    def __init__(self, sweep: DrivenSweep, console: Console, signals: Signals) -> None:
        self._sweep, self._console, self._signals = sweep, console, signals
        self._tracker = track(sweep.stored, console)
        if sweep.search is not None:
            sweep.search.open(sweep.given_up)
        self._queue = make_queue(sweep, console)
        self._progress: Progress | None = None
        self._report = LiveReport(sweep.paths, lambda line: say(console, line))
        # Runs that the search has chosen and the queue has not been given yet.
        self._chosen: set[str] = set()
        self._said_stopped = sweep.stopped is not None
        # What of the file system fails, and how; the pause until the next try.
        self._fault: tuple[str, str] | None = None
        self._pause_s = 0.0

    def _make_progress(self) -> Progress:
        sweep = self._sweep
        plan = replace(sweep.study.plan, runs=tuple(sweep.runs))
        places, stop = places_of(sweep.study), sweep.study.config.health.stop
        progress = Progress(plan, sweep.paths, stop, self._console, places)
        if (line := progress.beginning(detaches=self._queue.launcher.detaches)) is not None:
            say(self._console, line)
        self._progress = progress
        return progress

    def _hide_progress(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def failed(self) -> dict[str, str]:
        """Runs that were given up, with the reason."""
        return {**self._sweep.given_up, **self._queue.failed}

    def run(self) -> int:
        """Follow the sweep to its end, or until a signal asks this process to leave."""
        try:
            while not self._signals.asked:
                try:
                    if self._step() and not self._signals.asked:
                        return self._finish()
                    self._say_works_again()
                    self._signals.sleep(self._queue.pause_s)
                except (OSError, StorageError) as error:
                    if not _may_pass(error):
                        raise
                    self._wait(error)
            return self._leave()
        finally:
            self._hide_progress()
            self._report.stop()

    def _step(self) -> bool:
        """Choose, start and collect runs once, and show it; whether all that are wanted are
        over."""
        sweep, queue = self._sweep, self._queue
        # A directory that is away must not look like one without runs.
        sweep.paths.runs.stat()
        sweep.paths.plan.stat()
        steps = sweep.next_steps(queue.failed)
        self._chosen |= {step.run_id for step in steps}
        progress = self._progress or self._make_progress()
        if self._chosen:
            # Each of these may fail by the file system, and is then done in the next pass.
            progress.extend(sweep.runs)
            queue.add(sweep.items(self._chosen))
            self._chosen.clear()
        for step in steps:
            say(self._console, f"search: {described_step(vars(step), sweep.study.plan)}")
        if sweep.stopped is not None and not self._said_stopped:
            self._said_stopped = True
            say(self._console, f"search: stopped: {sweep.stopped}")
        queue.step()
        progress.update(queue.attempts, queue.failed)
        self._report.update()
        return not queue.busy and sweep.stopped is not None

    def _wait(self, error: OSError | StorageError) -> None:
        """Sleep until the next try; say what is waited for, if that is news."""
        self._signals.note_from_now_on()
        self._hide_progress()
        kind = error.strerror if isinstance(error, OSError) else "the search"
        if self._fault is None or kind != self._fault[1]:
            self._fault = _place(error), str(kind)
            line = error.fault if isinstance(error, StorageError) else ": ".join(self._fault)
            # It may go to the disk that is full.
            with suppress(OSError):
                say(self._console, f"{line}; waiting until that passes, or Ctrl-C", style="yellow")
        self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LAST_PAUSE_S)
        self._signals.sleep(self._pause_s)

    def _say_works_again(self) -> None:
        if self._fault is not None:
            say(self._console, f"{self._fault[0]} works again")
        self._fault, self._pause_s = None, 0.0

    def _finish(self) -> int:
        """Analyse the sweep, all of whose runs are over; returns 1 if runs failed, else 0."""
        self._hide_progress()
        # All is on the disk: an analysis is interrupted at once.
        self._signals.interrupt_from_now_on()
        self._report.stop()
        self._sweep.close_search()
        failed = self.failed
        standings = self._sweep.stored.standing().runs if failed else {}
        for run_id, reason in failed.items():
            word = "cancelled" if standings.get(run_id) is Standing.CANCELLED else "failed"
            reason = reason.removeprefix("cancelled ")
            say(self._console, f"{word}: {run_id}: {reason}", style="red")
        analyse_sweep(self._sweep.stored, self._console)
        ended: RunStatus = "FAILED" if failed else "FINISHED"
        close_tracker(self._tracker, self._sweep.stored, ended, self._console)
        self._signals.note_from_now_on()
        return 1 if failed else 0

    def _leave(self) -> int:
        """Detach from jobs that go on by themselves; have local runs write checkpoints and end."""
        self._hide_progress()
        if self._queue.launcher.detaches:
            self._queue.detach()
            say(self._console, "detached; the jobs continue")
        else:
            self._stop_runs()
        return INTERRUPTED

    def _stop_runs(self) -> None:
        """Wait until the runs have left, at most the grace time; a second signal ends them."""
        queue, signals = self._queue, self._signals
        if queue.stop():
            say(self._console, "stopping: every run writes a checkpoint first")
        deadline = time.monotonic() + self._sweep.study.config.launcher.stop_grace_s
        while queue.busy and time.monotonic() < deadline:
            if signals.asked > 1:
                say(self._console, "ended at once; runs continue from their last checkpoints")
                deadline = time.monotonic() + _KILLED_S
                queue.stop(kill=True)
                signals.asked = 1
            with suppress(OSError):
                queue.step()
            signals.sleep(0.1, unless=1)
        signals.interrupt_from_now_on()
        if left := len(queue.active):
            say(self._console, f"{left} runs have not written a checkpoint yet; they end after it")
        if self._tracker is not None:
            self._tracker.close("KILLED")


def _may_pass(error: OSError | StorageError) -> bool:
    """Whether it is an error of a file system, which may work again later."""
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


def _notify(sweep: DrivenSweep, status: str, failed: int, console: Console) -> None:
    """Run the command of `launcher.on_finish`; what goes wrong with that is a line."""
    if (command := sweep.study.config.launcher.on_finish) is None:
        return
    paths, runs = sweep.paths, sweep.stored.standing().runs
    facts = {
        "sweep_dir": paths.root,
        "status": status,
        "report": paths.report if paths.report.exists() else "",
        "done": Tally.of(runs).counts[Standing.DONE],
        "failed": failed,
    }
    if (problem := run_on_finish(command, facts)) is not None:
        warn(console, problem)
