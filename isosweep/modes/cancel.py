"""`mode=cancel`: stop the runs of a sweep, wherever they are, and say what has come of it.

Each run gets a request first, a file that no driver and no worker undoes. Then its launcher is
asked to stop the job, and the run counts as cancelled only once its job is seen to be gone.
"""

import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
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
_Going = tuple[Attempt, str]
# Seconds between two questions to the scheduler.
_POLL_S = 2.0
# Seconds after a job was killed until it counts as one that does not end: Slurm's KillWait is 30 by
# default.
_KILL_S = 45.0


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
    """Stop the runs of `sweep` that the words `chosen` choose, and return what came of them: the
    document whose fields docs/json.md has."""
    by = f"mode=cancel ({user_name()} on {socket.gethostname()})"
    said: JsonObject = {
        **{"version": VERSION, "sweep": sweep.name, "sweep_dir": str(sweep.paths.root)},
        **{"cancelled": {}, "finished": [], "idle": Counter(), "others": {}, "faults": []},
    }
    # Attempts whose jobs are to go, with what each run was.
    going: list[_Going] = []
    followed = _is_followed(sweep.paths.drivers)
    for seen in choose_runs(chosen, observe_runs(sweep, jobs)):
        attempt, standing = seen.attempt, seen.standing
        if attempt is not None and attempt.by is None and attempt.status is Status.FAILED:
            # Its file cannot be read: a worker may be at it.
            said["faults"].append(f"{seen.run.run_id}: not confirmed: {attempt.reason}")
        elif attempt is not None and attempt.live and attempt.is_of_another(sweep.paths.root):
            said["others"][seen.run.run_id] = attempt.sweep
        elif attempt is not None and attempt.live:
            was = "running" if standing is Standing.RUNNING else "pending"
            going.append((attempt, was))
        elif standing.ended or standing is Standing.CANCELLED:
            continue
        elif not followed:
            said["idle"][standing.value] += 1
        elif _hold_back(seen, sweep, by):
            said["cancelled"][seen.run.run_id] = standing.value
        elif (faster := newest(seen.paths)) is not None and faster.live:
            going.append((faster, "pending"))
    going = _stop(going, jobs, by, sweep.config.launcher.stop_grace_s, said)
    said["unconfirmed"] = {
        each.run.run_id: {"was": was, "job_id": each.job_id, "launcher": each.launcher}
        for each, was in going
    }
    return said


def _is_followed(drivers: Path) -> bool:
    """Whether somebody follows the sweep and may start runs, as far as can be told."""
    try:
        return living_driver(drivers) is not None
    except (RecordError, OSError):
        return True


def _hold_back(seen: ObservedRun, sweep: StoredSweep, by: str) -> bool:
    """Whether the run's next attempt was taken, so that no driver takes it."""
    seen.paths.root.mkdir(exist_ok=True)
    batch = f"cancel-{secrets.token_hex(4)}"
    held = create_attempt(seen.paths, "none", str(sweep.paths.root), {}, batch)
    if held is not None:
        held.request_cancel(by)
        held.end(Status.CANCELLED, f"mode=cancel (it was {seen.standing})")
    return held is not None


def _stop(
    going: list[_Going], jobs: Jobs, by: str, grace_s: float, said: JsonObject
) -> list[_Going]:
    """Stop the jobs and wait until they are gone: for `grace_s`, and again after a kill; return
    those that are not."""
    for attempt, _ in going:
        attempt.request_cancel(by)
    for kill, wait_s in ((False, grace_s), (True, min(_KILL_S, grace_s))):
        fault = jobs.stop([attempt for attempt, _ in going], kill=kill) if going else None
        deadline = time.monotonic() + wait_s
        while (going := _settle(going, jobs, by, said)) and time.monotonic() < deadline:
            time.sleep(min(_POLL_S, grace_s / 10))
        if kill and going and fault:
            said["faults"].append(fault)
    return going


def _settle(going: list[_Going], jobs: Jobs, by: str, said: JsonObject) -> list[_Going]:
    """The attempts that are not over, by their files or their schedulers; `said` takes the rest."""
    attempts = [newest(each.run) or each for each, _ in going]
    answers = jobs.observe(attempts) if attempts else []
    left = []
    for (before, was), attempt, answer in zip(going, attempts, answers, strict=True):
        if attempt.live and answer.status == "gone":
            attempt.end(Status.CANCELLED, f"mode=cancel: {answer.reason}".removesuffix(": "))
            attempt = newest(attempt.run) or attempt
        # Of another batch: somebody has submitted the run anew since.
        if attempt.live and attempt.batch == before.batch:
            if attempt.number > before.number:
                # Its job has started again meanwhile.
                attempt.request_cancel(by)
            left.append((attempt, was))
        elif attempt.status in (Status.FINISHED, Status.DIVERGED):
            said["finished"].append(attempt.run.run_id)
        else:
            said["cancelled"][attempt.run.run_id] = was
    return left


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
