"""Following a sweep: its runs are started, shown, waited for, and analysed when all are over."""

import errno
import os
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.commands import run_command
from isosweep.config.trust import require_own
from isosweep.launchers.launcher import QueueItem
from isosweep.launchers.make import make_launcher
from isosweep.launchers.queue import RunQueue
from isosweep.modes.analyse import analyse_sweep
from isosweep.modes.display_search import described_step
from isosweep.modes.live_report import LiveReport
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
    from isosweep.search.candidates import Step
    from isosweep.tracking.points import RunStatus

# Seconds of `launcher.on_finish`: a message takes one or two, and nobody waits for the sweep's end.
_ON_FINISH_S = 60.0
# After a second Ctrl-C: what a killed process takes to go.
_KILLED_S = 10.0
# Pauses after an error of a file system: the first, doubled up to the last.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 60.0


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
        return self.search.next({**self.given_up, **failed})

    @property
    def stopped(self) -> str | None:
        """Why the search chooses no more; None while it may, "" where all runs are wanted."""
        return "" if self.search is None else self.search.stop

    def close_search(self) -> None:
        """Close the trials of a search that has stopped."""
        if self.search is not None:
            self.search.close()


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
    status, failed = INTERRUPTED, dict[str, str]()
    with Signals() as signals:
        try:
            tracker = track(sweep.stored, console)
            if sweep.search is not None:
                sweep.search.open(sweep.given_up)
            queue = make_queue(sweep, console)
            over = _follow(sweep, queue, console, signals)
            failed = {**sweep.given_up, **queue.failed}
            if over:
                status = _finish(sweep, failed, console, signals)
            if status != INTERRUPTED:
                ended: RunStatus = "FAILED" if failed else "FINISHED"
                close_tracker(tracker, sweep.stored, ended, console)
                signals.note_from_now_on()
            elif queue.launcher.detaches:
                queue.detach()
                say(console, "detached; the jobs continue")
            else:
                _stop_runs(sweep, queue, console, signals)
                if tracker is not None:
                    tracker.close("KILLED")
        finally:
            claim.release(status)
        _notify(sweep, status, len(failed), console)
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


def _follow(sweep: DrivenSweep, queue: RunQueue, console: Console, signals: Signals) -> bool:
    """Choose, start, show and collect runs until all that are wanted are over; False where a signal
    asks this process to leave before.

    What fails by the file system is tried again, after a pause, until that works.
    """
    plan, paths, places = sweep.study.plan, sweep.paths, places_of(sweep.study)
    stop = sweep.study.config.health.stop
    report = LiveReport(sweep.stored, lambda line: say(console, line))
    progress: Progress | None = None
    # Runs that the search has chosen and the queue has not been given yet.
    chosen = set[str]()
    fault = _Fault(console, signals)
    try:
        while not signals.asked:
            try:
                _require_there(paths)
                steps = sweep.next_steps(queue.failed)
                chosen |= {step.run_id for step in steps}
                if progress is None:
                    shown = replace(plan, runs=tuple(sweep.runs))
                    progress = Progress(shown, paths, stop, console, places)
                    if line := progress.beginning(detaches=queue.launcher.detaches):
                        say(console, line)
                if chosen:
                    # Each of these may fail by the file system, and is then done in the next pass.
                    progress.extend(sweep.runs)
                    queue.add(sweep.items(chosen))
                    chosen.clear()
                for step in steps:
                    say(console, f"search: {described_step(vars(step), plan)}")
                queue.step()
                progress.update(queue.attempts, queue.failed)
                report.update()
                # What is said may go to the disk that is full.
                over = not queue.busy and sweep.stopped is not None
                if over and sweep.stopped:
                    say(console, f"search: stopped: {sweep.stopped}")
                fault.passed()
                if over:
                    return not signals.asked
            except OSError as error:
                if progress is not None:
                    progress.stop()
                fault.wait(error)
                continue
            signals.sleep(queue.pause_s)
        return False
    finally:
        report.stop()
        if progress is not None:
            progress.stop()


def _require_there(paths: SweepPaths) -> None:
    """Raise OSError for a directory that is away: it must not look like one without runs."""
    paths.runs.stat()
    paths.plan.stat()


class _Fault:
    """An error of the file system that is waited out; said when it comes and when it passes."""

    def __init__(self, console: Console, signals: Signals) -> None:
        self._console, self._signals = console, signals
        self._place, self._pause_s = "", 0.0

    def wait(self, error: OSError) -> None:
        """Sleep until the next try: each time twice as long. Raises an error that stays."""
        if error.errno in (None, errno.EPIPE):
            raise error
        if not self._place:
            self._place = os.fsdecode(error.filename or b"the file system")
            line = f"{self._place}: {error.strerror}; waiting until that passes, or Ctrl-C"
            # It may go to the disk that is full.
            with suppress(OSError):
                say(self._console, line, style="yellow")
        self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LAST_PAUSE_S)
        self._signals.sleep(self._pause_s)

    def passed(self) -> None:
        """The file system works, again or still; raises OSError where that cannot be said."""
        if self._place:
            say(self._console, f"{self._place} works again")
        self._place, self._pause_s = "", 0.0


def _finish(
    sweep: DrivenSweep, failed: Mapping[str, str], console: Console, signals: Signals
) -> int:
    """Conclude the sweep as `_conclude`, in as many tries as the file system takes; INTERRUPTED
    where a signal asks this process to leave before."""
    fault = _Fault(console, signals)
    while not signals.asked:
        try:
            _require_there(sweep.paths)
            status = _conclude(sweep, failed, console, signals)
            fault.passed()
            return status
        except OSError as error:
            signals.note_from_now_on()
            fault.wait(error)
    return INTERRUPTED


def _conclude(
    sweep: DrivenSweep, failed: Mapping[str, str], console: Console, signals: Signals
) -> int:
    """Analyse the sweep, all of whose runs are over; returns 1 if runs failed, else 0."""
    # All is on the disk: an analysis is interrupted at once.
    signals.interrupt_from_now_on()
    sweep.close_search()
    standings = sweep.stored.standing().runs if failed else {}
    for run_id, reason in failed.items():
        word = "cancelled" if standings.get(run_id) is Standing.CANCELLED else "failed"
        say(console, f"{word}: {run_id}: {reason.removeprefix('cancelled ')}", style="red")
    analyse_sweep(sweep.stored, console)
    return 1 if failed else 0


def _stop_runs(sweep: DrivenSweep, queue: RunQueue, console: Console, signals: Signals) -> None:
    """Have local runs write checkpoints and leave, in the grace time; a second signal ends them."""
    if queue.stop():
        say(console, "stopping: every run writes a checkpoint first")
    deadline = time.monotonic() + sweep.study.config.launcher.stop_grace_s
    while queue.busy and time.monotonic() < deadline:
        if signals.asked > 1:
            say(console, "ended at once; runs continue from their last checkpoints")
            deadline = time.monotonic() + _KILLED_S
            queue.stop(kill=True)
            signals.asked = 1
        with suppress(OSError):
            queue.step()
        signals.sleep(0.1, unless=1)
    signals.interrupt_from_now_on()
    if left := len(queue.active):
        say(console, f"{left} runs have not written a checkpoint yet; they end after it")


def _notify(sweep: DrivenSweep, status: int, failed: int, console: Console) -> None:
    """Run the command of `launcher.on_finish`; what goes wrong with that is a line."""
    if (command := sweep.study.config.launcher.on_finish) is None:
        return
    paths, runs = sweep.paths, sweep.stored.standing().runs
    facts = {
        "sweep_dir": paths.root,
        "status": {0: "finished", 1: "failed", INTERRUPTED: "interrupted"}[status],
        "report": paths.report if paths.report.exists() else "",
        "done": Tally.of(runs).counts[Standing.DONE],
        "failed": failed,
    }
    if (problem := run_on_finish(command, facts)) is not None:
        warn(console, f"launcher.on_finish: {problem}")


def run_on_finish(
    command: str, facts: Mapping[str, object], timeout_s: float = _ON_FINISH_S
) -> str | None:
    """Run the command with each fact as a variable (`ISOSWEEP_STATUS`) of its environment; return
    what went wrong, or None. Raises SettingError for a command that others may have written."""
    require_own(("launcher.on_finish", command))
    variables = {f"ISOSWEEP_{name.upper()}": str(value) for name, value in facts.items()}
    try:
        return run_command(shlex.split(command), os.environ | variables, timeout_s).failure
    except (OSError, ValueError) as error:
        return str(error)
