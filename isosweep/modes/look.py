"""How every run of a sweep stands at this moment: by its files, and by the scheduler itself."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from isosweep.config.health import HealthConfig
from isosweep.files import file_system_time
from isosweep.launchers.launcher import Observed
from isosweep.machine import keeping_all
from isosweep.modes.directory import StoredSweep
from isosweep.modes.jobs import Jobs
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunView, view_run
from isosweep.store.submissions import Outcome
from isosweep.words.numbers import duration

# A heartbeat older than this is told: several of store.state.HEARTBEAT_S.
_SILENT_S = 30.0
# Where a run is whose job has left, as its scheduler says, while its files say that it is at work.
_GONE: dict[Outcome, Standing] = {
    "cancelled": Standing.CANCELLED,
    **dict.fromkeys(("failed", "refused", "stuck"), Standing.FAILED),
    **dict.fromkeys(("finished", "interrupted", "lost"), Standing.INTERRUPTED),
}


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A run as it is. `standing` never contradicts the scheduler where that has answered; `note`
    says why it is so, or what it does. `observed`: what the scheduler says of its live submission,
    which is where it says why that is not known.

    `heartbeat_s`: seconds since its worker last wrote, `progress_s`: since it last came forward;
    None where no worker is at it.
    """

    run: PlannedRun
    paths: RunPaths
    view: RunView
    standing: Standing
    note: str
    observed: Observed | None = None
    heartbeat_s: float | None = None
    progress_s: float | None = None

    @property
    def state(self) -> RunState | None:
        """What its newest attempt said last."""
        return self.view.state

    @property
    def job_id(self) -> str | None:
        """The scheduler's id of its newest submission's job, where it is known."""
        submission = self.view.submission
        job = (submission.job if submission else None) or (self.observed and self.observed.job)
        return job.job_id if job else None


@keeping_all()
def look(
    sweep: StoredSweep,
    jobs: Jobs,
    runs: Iterable[PlannedRun] | None = None,
) -> list[Sight]:
    """Every run of the sweep, or those of `runs`: their files, then one question for the jobs of
    those whose submission is live."""
    chosen = list(sweep.plan.runs if runs is None else runs)
    unit, health = sweep.plan.budget_unit, sweep.config.health
    files = [sweep.paths.run(run.run_id) for run in chosen]
    views = [view_run(paths) for paths in files]
    live = [place for place, view in enumerate(views) if view.submission and view.submission.live]
    asked = [view.submission for view in (views[place] for place in live) if view.submission]
    observed = dict(zip(live, jobs.observe(asked) if asked else [], strict=True))
    now = file_now(sweep.paths.root) if live else 0.0
    sights = []
    for place, (run, paths) in enumerate(zip(chosen, files, strict=True)):
        answer = observed.get(place)
        if answer is not None and answer.status == "gone":
            # Its worker may have said its last word since the files were read.
            views[place] = view_run(paths)
        view = views[place]
        standing = run_standing(run, view, unit, health.stop)
        sight = Sight(run=run, paths=paths, view=view, standing=standing, note=view.reason)
        if answer is None or view.submission is None or not view.submission.live:
            sights.append(_settled(sight, health))
        else:
            sights.append(_live(sight, answer, now))
    return sights


def file_now(directory: Path) -> float:
    """The time by the clock of what workers write; this machine's where nothing may be written."""
    try:
        return file_system_time(directory)
    except OSError:
        return time.time()


def _settled(sight: Sight, health: HealthConfig) -> Sight:
    note, state = sight.note, sight.state
    if sight.standing is Standing.INTERRUPTED and not note:
        note = "its process ended without a word"
    if not note and state and state.warnings:
        note = ", ".join(state.warnings)
    if not note and sight.standing.ended and state and not health.judges(state.compute.generations):
        note = f"health not judged: fewer than {health.window} steps"
    return replace(sight, note=note)


def _live(sight: Sight, answer: Observed, now: float) -> Sight:
    """A run whose submission is live, as the scheduler answers."""
    view, standing = sight.view, sight.standing
    state = view.current
    at_work = standing is Standing.RUNNING
    ages = _ages(sight.paths, state, now) if state is not None and at_work else None
    activity = _activity(state, ages, at_work=at_work)
    note = answer.reason
    match answer.status:
        case "pending":
            requeued = state is not None
            standing = Standing.QUEUED
            note = f"requeued{': ' if note else ''}{note}" if requeued else note
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
    if view.submission and view.submission.cancel and answer.status != "gone":
        note = f"to be cancelled; {note}"
    return replace(
        sight,
        standing=standing,
        note=note,
        observed=answer,
        heartbeat_s=ages[0] if ages else None,
        progress_s=ages[1] if ages else None,
    )


def _ages(paths: RunPaths, state: RunState, now: float) -> tuple[float, float] | None:
    """Seconds since the worker wrote, and since it came forward, by the file system's clock."""
    try:
        written = paths.attempt(state.attempt).stat().st_mtime
    except OSError:
        return None
    heartbeat = max(0.0, now - written)
    return heartbeat, heartbeat + max(0.0, state.updated - state.progressed)


def _activity(state: RunState | None, ages: tuple[float, float] | None, *, at_work: bool) -> str:
    """What a running job's run does, since when, and what it is warned of."""
    if state is None:
        return "starting"
    if not at_work:
        return "ending"
    if ages is None:
        return state.activity
    heartbeat, progress = ages
    parts = [f"{state.activity or 'training'} for {duration(progress)}"]
    if heartbeat > _SILENT_S:
        parts.append(f"silent for {duration(heartbeat)}")
    return "; ".join([*parts, *state.warnings])


def of_planned(step: int, planned: int) -> str:
    """Steps done of those planned: 40/63; a run ends by measured compute, so that it may take a few
    more: 64 (63 planned)."""
    return f"{step:,}/{planned:,}" if step <= planned else f"{step:,} ({planned:,} planned)"
