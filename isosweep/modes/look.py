"""How every run of a sweep stands at this moment: by its files, and by the scheduler itself."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from isosweep.config.health import HealthConfig
from isosweep.files import file_system_time
from isosweep.launchers.launcher import JobState
from isosweep.machine import garbage_collection_paused
from isosweep.modes.directory import StoredSweep
from isosweep.modes.jobs import Jobs
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Status, newest
from isosweep.store.paths import RunPaths
from isosweep.words.numbers import duration

# A heartbeat older than this is told: several of store.attempts.HEARTBEAT_S.
_SILENT_S = 30.0
# Where a run is whose job has left, as its scheduler says, while its files say that it is at work.
_GONE = {
    Status.CANCELLED: Standing.CANCELLED,
    Status.FAILED: Standing.FAILED,
    Status.LOST: Standing.INTERRUPTED,
    Status.INTERRUPTED: Standing.INTERRUPTED,
}


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A run as it is. `attempt`: its newest. `standing` never contradicts the scheduler where that
    has answered; `note` says why it is so, or what it does. `observed`: what the scheduler says of
    its live attempt, which is where it says why that is not known.

    `heartbeat_s`: seconds since its worker last wrote, `progress_s`: since it last came forward;
    None where no worker is at it.
    """

    run: PlannedRun
    paths: RunPaths
    attempt: Attempt | None
    standing: Standing
    note: str
    observed: JobState | None = None
    heartbeat_s: float | None = None
    progress_s: float | None = None

    @property
    def job_id(self) -> str | None:
        """The scheduler's id of its newest attempt's job, where it is known."""
        own = self.attempt.job_id if self.attempt else None
        return own or (self.observed.job_id if self.observed else None)


@garbage_collection_paused()
def look(
    sweep: StoredSweep,
    jobs: Jobs,
    runs: Iterable[PlannedRun] | None = None,
) -> list[Sight]:
    """Every run of the sweep, or those of `runs`: their files, then one question for the jobs of
    those whose attempt is live."""
    chosen = list(sweep.plan.runs if runs is None else runs)
    unit, health = sweep.plan.budget_unit, sweep.config.health
    files = [sweep.paths.run(run.run_id) for run in chosen]
    attempts = [newest(paths) for paths in files]
    asked = {place: each for place, each in enumerate(attempts) if each and each.live}
    answers = jobs.observe(list(asked.values())) if asked else []
    observed = dict(zip(asked, answers, strict=True))
    now = file_now(sweep.paths.root) if asked else 0.0
    sights = []
    for place, (run, paths) in enumerate(zip(chosen, files, strict=True)):
        answer, attempt = observed.get(place), attempts[place]
        if answer is not None and answer.status == "gone":
            # Its worker may have said its last word since the files were read.
            attempt = newest(paths)
        standing = run_standing(run, attempt, unit, health.stop)
        note = attempt.reason if attempt and not attempt.live else ""
        sight = Sight(run=run, paths=paths, attempt=attempt, standing=standing, note=note)
        if answer is None or attempt is None or not attempt.live:
            sights.append(_settled(sight, health))
        else:
            sights.append(_live(sight, attempt, answer, now))
    return sights


def file_now(directory: Path) -> float:
    """The time by the clock of what workers write; this machine's where nothing may be written."""
    try:
        return file_system_time(directory)
    except OSError:
        return time.time()


def _settled(sight: Sight, health: HealthConfig) -> Sight:
    note, attempt = sight.note, sight.attempt
    if sight.standing is Standing.INTERRUPTED and not note:
        note = "its process ended without a word"
    if not note and attempt and attempt.warnings:
        note = ", ".join(attempt.warnings)
    judged = attempt is None or health.judges(attempt.compute.generations)
    if not note and sight.standing.ended and not judged:
        note = f"health not judged: fewer than {health.window} steps"
    return replace(sight, note=note)


def _live(sight: Sight, attempt: Attempt, answer: JobState, now: float) -> Sight:
    """A run whose attempt is live, as the scheduler answers."""
    standing = sight.standing
    at_work = attempt.status is Status.RUNNING
    ages = _ages(attempt, now) if at_work else None
    activity = _activity(attempt, ages)
    note = answer.reason
    match answer.status:
        case "pending":
            standing = Standing.QUEUED
            note = f"requeued{': ' if note else ''}{note}" if attempt.worker else note
            ages = None
        case "running":
            standing = Standing.RUNNING
            note = activity
        case "gone":
            if standing in (Standing.QUEUED, Standing.RUNNING):
                standing = _GONE[answer.outcome]
            note = f"its job is gone{': ' if note else ''}{note}"
            ages = None
        case "unknown":
            told = activity if at_work else standing
            note = f"{told} by its files"
        case _:
            assert_never(answer.status)
    if attempt.cancel and answer.status != "gone":
        note = f"to be cancelled; {note}"
    return replace(
        sight,
        standing=standing,
        note=note,
        observed=answer,
        heartbeat_s=ages[0] if ages else None,
        progress_s=ages[1] if ages else None,
    )


def _ages(attempt: Attempt, now: float) -> tuple[float, float] | None:
    """Seconds since the worker wrote, and since it came forward, by the file system's clock."""
    try:
        written = attempt.path.stat().st_mtime
    except OSError:
        return None
    heartbeat = max(0.0, now - written)
    return heartbeat, heartbeat + max(0.0, attempt.updated - attempt.progressed)


def _activity(attempt: Attempt, ages: tuple[float, float] | None) -> str:
    """What a running job's run does, since when, and what it is warned of."""
    if attempt.worker is None:
        return "starting"
    if ages is None:
        return attempt.activity
    heartbeat, progress = ages
    parts = [f"{attempt.activity or 'training'} for {duration(progress)}"]
    if heartbeat > _SILENT_S:
        parts.append(f"silent for {duration(heartbeat)}")
    return "; ".join([*parts, *attempt.warnings])


def of_planned(step: int, planned: int) -> str:
    """Steps done of those planned: 40/63; a run ends by measured compute, so that it may take a few
    more: 64 (63 planned)."""
    return f"{step:,}/{planned:,}" if step <= planned else f"{step:,} ({planned:,} planned)"
