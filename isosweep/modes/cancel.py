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
from isosweep.store.attempts import Attempt, Status, create_attempt, newest
from isosweep.store.drivers import living_driver, user_name

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
    open: list[tuple[Attempt, str]] = field(default_factory=list)
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
        attempt = sight.attempt
        if attempt is not None and attempt.by is None and attempt.status is Status.FAILED:
            # Its file cannot be read: a worker may be at it.
            doing.faults.append(f"{sight.run.run_id}: not confirmed: {attempt.reason}")
            continue
        if attempt is None or not attempt.live:
            if sight.standing.ended or sight.standing is Standing.CANCELLED:
                continue
            if not followed:
                doing.unfollowed += 1
                continue
            attempt = _held_back(sight, sweep, batch, by, doing)
        if attempt is not None:
            attempt.request_cancel(by)
            told = sight.standing if sight.standing is Standing.RUNNING else "pending"
            doing.open.append((attempt, str(told)))
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
    sight: Sight, sweep: StoredSweep, batch: str, by: str, doing: _Cancelling
) -> Attempt | None:
    """Take the run's next attempt, so that no driver does; the driver's, where it was faster."""
    sight.paths.root.mkdir(exist_ok=True)
    own = create_attempt(sight.paths, "none", str(sweep.paths.root), {}, batch)
    if own is None:
        faster = newest(sight.paths)
        return faster if faster and faster.live else None
    own.request_cancel(by)
    own.end(Status.CANCELLED, f"mode=cancel (it was {sight.standing}{_because(sight.note)})")
    doing.counts[str(sight.standing)] += 1
    return None


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _stop(doing: _Cancelling, jobs: Jobs, grace_s: float) -> None:
    """Stop what is open, and watch it until it is gone, or `grace_s` and a kill have not helped."""
    said = jobs.stop([attempt for attempt, _ in doing.open]) if doing.open else None
    began, killed = time.monotonic(), None
    while True:
        _settle(doing, jobs)
        if not doing.open:
            return
        now = time.monotonic()
        if killed is None and now - began >= grace_s:
            said = jobs.stop([attempt for attempt, _ in doing.open], kill=True)
            killed = now
        elif killed is not None and now - killed >= min(_KILL_S, grace_s):
            doing.faults += [said] if said else []
            return
        time.sleep(min(_POLL_S, grace_s / 10))


def _settle(doing: _Cancelling, jobs: Jobs) -> None:
    """Count those that are over: by their own word, or gone by the scheduler's."""
    still = []
    for asked, told in doing.open:
        attempt = newest(asked.run) or asked
        if attempt.number > asked.number and attempt.batch == asked.batch:
            # Its job has started again meanwhile.
            attempt.request_cancel(asked.cancel or "mode=cancel")
        elif attempt.number > asked.number:
            attempt = asked
        still.append((attempt, told)) if attempt.live else _count(doing, attempt, told)
    doing.open = []
    answers = jobs.observe([attempt for attempt, _ in still]) if still else []
    for (attempt, told), answer in zip(still, answers, strict=True):
        if answer.status != "gone":
            doing.open.append((attempt, told))
            continue
        attempt.end(Status.CANCELLED, f"mode=cancel{_because(answer.reason)}")
        _count(doing, newest(attempt.run) or attempt, told)


def _count(doing: _Cancelling, attempt: Attempt, told: str) -> None:
    ended = attempt.status in (Status.FINISHED, Status.DIVERGED)
    doing.counts["finished" if ended else told] += 1


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
    for attempt, told in doing.open:
        job = attempt.job_id or "not known"
        say(
            console,
            f"{attempt.run.run_id}: was {told}, job {job} of {attempt.launcher}; the request "
            "stands: its worker leaves when it sees it",
        )
