"""`mode=cancel`: stop the runs of a sweep, wherever they are, and say what has come of it.

Each run gets a request first, a file that no driver and no worker undoes. Then its launcher is
asked to stop the job, and the run counts as cancelled only once its job is seen to be gone.
"""

import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.files import JsonObject
from isosweep.modes.observed import Jobs, ObservedRun, choose_runs, observe_runs
from isosweep.modes.sweeps import StoredSweep, stored_sweep
from isosweep.modes.terminal import say, show_json, typed, warn
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Status, create_attempt, newest
from isosweep.store.drivers import living_driver, user_name

# Raised when a field of the document goes or changes its meaning; fields may be added.
VERSION: Final = 1
# Seconds between two questions to the scheduler.
_POLL_S = 2.0
# Seconds after a job was killed until it counts as one that does not end: Slurm's KillWait is 30 by
# default.
_KILL_S = 45.0


@dataclass
class _Cancelling:
    """What has come of the runs so far. `open`: attempts whose jobs are to go, with what each run
    was; `cancelled`: what each run was that is over, by run id; `finished`: those that ended by
    themselves meanwhile; `idle`: how many stand how that nobody would start; `others`: the sweeps
    that runs are trained for, by run id."""

    by: str
    open: list[tuple[Attempt, str]] = field(default_factory=list)
    cancelled: dict[str, str] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    idle: Counter[str] = field(default_factory=Counter)
    others: dict[str, str] = field(default_factory=dict)


def cancel_sweep(config: SweepConfig, console: Console) -> int:
    """Stop the runs that `runs` chooses; 0 once all of them are gone, 1 if that is not certain."""
    sweep = stored_sweep(config)
    document = cancel_runs(sweep, config.runs, Jobs(sweep.config))
    if config.format == "json":
        show_json(console, document)
    else:
        _show(document, console)
    return 1 if document["unconfirmed"] or document["faults"] else 0


def cancel_runs(sweep: StoredSweep, chosen: Sequence[str], jobs: Jobs) -> JsonObject:
    """Stop the runs of `sweep` that the words `chosen` choose, and return what came of them."""
    doing = _Cancelling(f"mode=cancel ({user_name()} on {socket.gethostname()})")
    followed = _is_followed(sweep.paths.drivers)
    for seen in choose_runs(chosen, observe_runs(sweep, jobs)):
        attempt = seen.attempt
        if attempt is not None and attempt.by is None and attempt.status is Status.FAILED:
            # Its file cannot be read: a worker may be at it.
            doing.faults.append(f"{seen.run.run_id}: not confirmed: {attempt.reason}")
        elif attempt is not None and attempt.live and _is_of_another(attempt, sweep):
            doing.others[seen.run.run_id] = attempt.sweep
        elif attempt is not None and attempt.live:
            was = "running" if seen.standing is Standing.RUNNING else "pending"
            doing.open.append((attempt, was))
        elif seen.standing.ended or seen.standing is Standing.CANCELLED:
            continue
        elif followed:
            _hold_back(seen, sweep, doing)
        else:
            doing.idle[str(seen.standing)] += 1
    _stop(doing, jobs, sweep.config.launcher.stop_grace_s)
    return {
        "version": VERSION,
        "sweep": sweep.name,
        "sweep_dir": str(sweep.paths.root),
        "cancelled": doing.cancelled,
        "finished": doing.finished,
        "idle": dict(doing.idle),
        "others": doing.others,
        "unconfirmed": {
            each.run.run_id: {"was": was, "job_id": each.job_id, "launcher": each.launcher}
            for each, was in doing.open
        },
        "faults": doing.faults,
    }


def _is_followed(drivers: Path) -> bool:
    """Whether somebody follows the sweep and may start runs, as far as can be told."""
    try:
        return living_driver(drivers) is not None
    except (RecordError, OSError):
        return True


def _is_of_another(attempt: Attempt, sweep: StoredSweep) -> bool:
    """Whether another sweep that is still there has submitted the attempt."""
    submitted = Path(attempt.sweep)
    return (submitted / "plan.json").exists() and not submitted.samefile(sweep.paths.root)


def _hold_back(seen: ObservedRun, sweep: StoredSweep, doing: _Cancelling) -> None:
    """Take the run's next attempt so that no driver does; stop the driver's if it was faster."""
    seen.paths.root.mkdir(exist_ok=True)
    batch = f"cancel-{secrets.token_hex(4)}"
    held = create_attempt(seen.paths, "none", str(sweep.paths.root), {}, batch)
    if held is not None:
        held.request_cancel(doing.by)
        held.end(Status.CANCELLED, f"mode=cancel (it was {seen.standing})")
        doing.cancelled[seen.run.run_id] = str(seen.standing)
    elif (faster := newest(seen.paths)) is not None and faster.live:
        doing.open.append((faster, "pending"))


def _stop(doing: _Cancelling, jobs: Jobs, grace_s: float) -> None:
    """Stop what is open and wait until it is gone: for `grace_s`, and again after a kill."""
    for attempt, _ in doing.open:
        attempt.request_cancel(doing.by)
    for kill, wait_s in ((False, grace_s), (True, min(_KILL_S, grace_s))):
        if doing.open:
            fault = jobs.stop([attempt for attempt, _ in doing.open], kill=kill)
            deadline = time.monotonic() + wait_s
            while _settle(doing, jobs) and time.monotonic() < deadline:
                time.sleep(min(_POLL_S, grace_s / 10))
            if kill and doing.open and fault:
                doing.faults.append(fault)


def _settle(doing: _Cancelling, jobs: Jobs) -> bool:
    """Take note of runs that are over, by their files or their schedulers; whether any is not."""
    attempts = [(newest(each.run) or each, each, was) for each, was in doing.open]
    answers = jobs.observe([attempt for attempt, _, _ in attempts])
    doing.open = []
    for (attempt, before, was), answer in zip(attempts, answers, strict=True):
        if attempt.live and answer.status == "gone":
            attempt.end(Status.CANCELLED, f"mode=cancel: {answer.reason}".removesuffix(": "))
            attempt = newest(attempt.run) or attempt
        # Of another batch: somebody has submitted the run anew since.
        if attempt.live and attempt.batch == before.batch:
            if attempt.number > before.number:
                # Its job has started again meanwhile.
                attempt.request_cancel(doing.by)
            doing.open.append((attempt, was))
        elif attempt.status in (Status.FINISHED, Status.DIVERGED):
            doing.finished.append(attempt.run.run_id)
        else:
            doing.cancelled[attempt.run.run_id] = was
    return bool(doing.open)


def _show(document: JsonObject, console: Console) -> None:
    """Print how many runs are cancelled, and which of them are not confirmed yet."""
    counts, unconfirmed = Counter(document["cancelled"].values()), document["unconfirmed"]
    kinds = ", ".join(f"{count} {was}" for was, count in counts.items())
    parts = [f"{counts.total()} cancelled{f': {kinds}' if kinds else ''}"]
    if document["finished"]:
        parts.append(f"{len(document['finished'])} had finished")
    if unconfirmed:
        parts.append(f"{len(unconfirmed)} not confirmed")
    say(console, "; ".join(parts))
    if idle := document["idle"]:
        kinds = ", ".join(f"{count} {standing}" for standing, count in idle.items())
        say(console, f"nothing to stop: {kinds} (no process follows the sweep)")
    for run, other in document["others"].items():
        rule = f"is trained for another sweep: mode=cancel {typed('sweep', other)}"
        say(console, f"{run}: {rule}")
    warn(console, *document["faults"])
    for run, job in unconfirmed.items():
        where = f"job {job['job_id'] or 'not known'} of {job['launcher']}"
        rule = "the request stands: its worker leaves when it sees it"
        say(console, f"{run}: was {job['was']}, {where}; {rule}")
