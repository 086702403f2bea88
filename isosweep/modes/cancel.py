"""`mode=cancel`: stop the runs of a sweep, wherever they are, and say what has come of it.

A request comes first: it is a file that no driver and no worker undoes. Then the launcher is asked
to stop the job, and a run counts as cancelled only once its job is seen to be gone.
"""

import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.modes.choice import choose
from isosweep.modes.directory import StoredSweep, stored_sweep
from isosweep.modes.jobs import Jobs
from isosweep.modes.look import Sight, look
from isosweep.modes.terminal import say, warn
from isosweep.plan.tally import Standing
from isosweep.store.claims import highest
from isosweep.store.drivers import living_driver, user_name
from isosweep.store.submissions import (
    SubmissionState,
    close,
    newest_submission,
    request_cancel,
    submit,
)

# Seconds between two questions: a controller is asked for a minute or so, and somebody waits.
_POLL_S = 2.0
# Seconds after a job was told to end at once until it counts as one that does not: Slurm's KillWait
# is 30 by default.
_KILL_S = 45.0


@dataclass
class _Cancelling:
    """What has come of it so far: counts by the words that are printed, what is open, what went
    wrong, and how many runs nobody would start anyway."""

    counts: Counter[str] = field(default_factory=Counter)
    open: list[tuple[SubmissionState, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unfollowed: int = 0


def cancel_sweep(config: SweepConfig, console: Console) -> int:
    """Stop the runs that `runs` chooses; 0 once all of them are gone, 1 if that is not certain."""
    sweep = stored_sweep(config)
    return cancel_runs(sweep, config.runs, Jobs(sweep.config), console)


def cancel_runs(sweep: StoredSweep, words: Sequence[str], jobs: Jobs, console: Console) -> int:
    """`cancel_sweep` of the runs of `sweep` that `words` choose."""
    choice = choose(words, sweep.plan)
    sights = [s for s in look(sweep, jobs, choice.runs) if choice.holds(s.standing)]
    by = f"mode=cancel ({user_name()} on {socket.gethostname()})"
    doing = _Cancelling()
    batch, followed = f"cancel-{secrets.token_hex(4)}", _is_followed(sweep.paths.drivers)
    for sight in sights:
        state = sight.view.submission
        if state is None and highest(sight.paths.submissions):
            doing.faults.append(f"{sight.run.run_id}: not confirmed: {sight.view.reason}")
            continue
        if state is None or not state.live:
            if sight.standing.ended or sight.standing is Standing.CANCELLED:
                continue
            if not followed:
                doing.unfollowed += 1
                continue
            state = _held_back(sight, sweep, batch, doing)
        if state is not None:
            request_cancel(state.submission, by)
            told = sight.standing if sight.standing is Standing.RUNNING else "pending"
            doing.open.append((state, str(told)))
    _stop(doing, jobs, sweep.config.launcher.stop_grace_s)
    _report(doing, console)
    return 1 if doing.open or doing.faults else 0


def _is_followed(drivers: Path) -> bool:
    """Whether somebody follows the sweep and may start runs, as far as can be told."""
    try:
        return living_driver(drivers) is not None
    except (RecordError, OSError):
        return True


def _held_back(
    sight: Sight, sweep: StoredSweep, batch: str, doing: _Cancelling
) -> SubmissionState | None:
    """Take the run's next submission, so that no driver does; the driver's, where it was faster."""
    try:
        own = submit(sight.paths, "none", {}, str(sweep.paths.root), batch)
        if own is None:
            newest = newest_submission(sight.paths)
            return newest if newest and newest.live else None
    except RecordError as error:
        doing.faults.append(str(error))
        return None
    request_cancel(own, "mode=cancel")
    before = f"it was {sight.standing}{_because(sight.view.reason)}"
    close(own, "cancelled", f"mode=cancel ({before})")
    doing.counts[str(sight.standing)] += 1
    return None


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _stop(doing: _Cancelling, jobs: Jobs, grace_s: float) -> None:
    """Stop what is open, and watch it until it is gone, or `grace_s` and a kill have not helped."""
    said = jobs.stop([state for state, _ in doing.open]) if doing.open else None
    began, killed = time.monotonic(), None
    while True:
        _settle(doing, jobs)
        if not doing.open:
            return
        now = time.monotonic()
        if killed is None and now - began >= grace_s:
            said = jobs.stop([state for state, _ in doing.open], kill=True)
            killed = now
        elif killed is not None and now - killed >= min(_KILL_S, grace_s):
            doing.faults += [said] if said else []
            return
        time.sleep(min(_POLL_S, grace_s / 10))


def _settle(doing: _Cancelling, jobs: Jobs) -> None:
    """Count those that are over: by their own word, or gone by the scheduler's."""
    still = []
    for state, told in doing.open:
        newest = newest_submission(state.submission.run)
        if newest is not None and newest.submission.number == state.submission.number:
            state = newest
        _count(doing, state, told) if state.end else still.append((state, told))
    doing.open = []
    answers = jobs.observe([state for state, _ in still]) if still else []
    for (state, told), answer in zip(still, answers, strict=True):
        if answer.status != "gone":
            doing.open.append((state, told))
            continue
        close(state.submission, "cancelled", f"mode=cancel{_because(answer.reason)}")
        over = newest_submission(state.submission.run)
        _count(doing, over or state, told)


def _count(doing: _Cancelling, state: SubmissionState, told: str) -> None:
    finished = state.end is not None and state.end.outcome == "finished"
    doing.counts["finished" if finished else told] += 1


def _report(doing: _Cancelling, console: Console) -> None:
    """Say what is so: how many are gone, and of which that is not certain, with what was said."""
    finished = doing.counts.pop("finished", 0)
    kinds = ", ".join(f"{count} {told}" for told, count in doing.counts.items())
    line = f"{doing.counts.total()} cancelled{f': {kinds}' if kinds else ''}"
    if finished:
        line += f"; {finished} had finished"
    if doing.open:
        line += f"; {len(doing.open)} not confirmed"
    say(console, line)
    if doing.unfollowed:
        are = "is" if doing.unfollowed == 1 else "are"
        line = (
            f"{doing.unfollowed} {are} not started, and no process follows the sweep to start them"
        )
        say(console, line)
    warn(console, *doing.faults)
    for state, told in doing.open:
        job = state.job.job_id if state.job else "not known"
        say(
            console,
            f"{state.submission.run.run_id}: was {told}, job {job} of "
            f"{state.submission.launcher}; the request stands: its worker leaves when it sees it",
        )
