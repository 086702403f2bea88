"""The runs of a sweep as they are at this moment: by their files, and by their schedulers."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError, SettingError
from isosweep.files import file_system_time
from isosweep.launchers.launcher import JobState, Launcher, Observed
from isosweep.launchers.liveness import Liveness
from isosweep.machine import garbage_collection_paused
from isosweep.modes.sweeps import StoredSweep
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Status, newest
from isosweep.store.paths import RunPaths
from isosweep.words.numbers import duration

# Seconds without a heartbeat after which a worker is called silent: several of
# store.attempts.HEARTBEAT_S.
_SILENT_S = 30.0
# How a run stands whose job is gone while its files say that it waits or runs.
_GONE = {
    Status.CANCELLED: Standing.CANCELLED,
    Status.FAILED: Standing.FAILED,
    Status.LOST: Standing.INTERRUPTED,
    Status.INTERRUPTED: Standing.INTERRUPTED,
}
_STANDINGS = {standing.replace(" ", "_"): standing for standing in Standing}


class Jobs:
    """What schedulers say of jobs; each job is looked up by the launcher that started it."""

    def __init__(self, config: SweepConfig) -> None:
        self._config, self._liveness = config, Liveness()
        self._launcher = cache(self._make)

    def observe(self, attempts: Sequence[Attempt]) -> list[JobState]:
        """Return the state of each attempt's job, by one question to each scheduler."""
        found: dict[RunPaths, Observed] = {}
        for name, own in _by_launcher(attempts).items():
            if name == "none":
                answers = [Observed(status="ended", reason="it never had a job")] * len(own)
            elif isinstance(launcher := self._launcher(name), str):
                answers = [Observed(status="unknown", reason=launcher)] * len(own)
            else:
                answers = launcher.observe(own)
            found.update(zip((each.run for each in own), answers, strict=True))
        return self._liveness.judge(attempts, [found[each.run] for each in attempts])

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Ask the jobs to leave, or end them (`kill`); return what went wrong, None if nothing."""
        errors = []
        for name, own in _by_launcher(attempts).items():
            if name != "none":
                made = self._launcher(name)
                errors.append(made if isinstance(made, str) else made.stop(own, kill=kill))
        return "; ".join(filter(None, errors)) or None

    def _make(self, name: Any) -> Launcher | str:
        """The launcher called `name`, or why there is none on this machine."""
        from isosweep.launchers.make import make_launcher

        config = self._config
        try:
            if name != config.launcher.name:
                config = replaced(config, launcher=replaced(config.launcher, name=name))
            return make_launcher(config)
        except IsosweepError as error:
            return str(error)


def _by_launcher(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    grouped: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        grouped[attempt.launcher].append(attempt)
    return grouped


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """A planned run, its newest attempt, and the state of that attempt's job.

    `standing` agrees with the scheduler wherever that has answered; `note` says why the run stands
    so, or what it does. `job` is None where the attempt is over. `heartbeat_s` is the time since
    its worker last wrote and `progress_s` since it last came forward, in seconds; None where no
    worker is at it.
    """

    run: PlannedRun
    paths: RunPaths
    attempt: Attempt | None
    standing: Standing
    note: str = ""
    job: JobState | None = None
    heartbeat_s: float | None = None
    progress_s: float | None = None

    @property
    def job_id(self) -> str | None:
        """The scheduler's id of the newest attempt's job, where it is known."""
        own = self.attempt.job_id if self.attempt else None
        return own or (self.job.job_id if self.job else None)


@garbage_collection_paused()
def observe_runs(sweep: StoredSweep, jobs: Jobs) -> list[ObservedRun]:
    """Return every run of the sweep: its files, then the jobs of live attempts, asked for once."""
    attempts = [newest(sweep.paths.run(run.run_id)) for run in sweep.plan.runs]
    live = [attempt for attempt in attempts if attempt is not None and attempt.live]
    answers = jobs.observe(live) if live else []
    found = dict(zip((attempt.run for attempt in live), answers, strict=True))
    now = time.time()
    with suppress(OSError):
        # By the clock of what workers write.
        now = file_system_time(sweep.paths.root) if live else now
    return [
        _observed(sweep, run, attempt, found.get(attempt.run) if attempt else None, now)
        for run, attempt in zip(sweep.plan.runs, attempts, strict=True)
    ]


def _observed(
    sweep: StoredSweep,
    run: PlannedRun,
    attempt: Attempt | None,
    job: JobState | None,
    now: float,
) -> ObservedRun:
    paths = sweep.paths.run(run.run_id)
    if job is not None and job.status == "gone":
        # Its worker may have written its end since the files were read.
        attempt = newest(paths)
    standing = run_standing(run, attempt, sweep.plan.budget_unit, sweep.config.health.stop)
    seen = ObservedRun(run=run, paths=paths, attempt=attempt, standing=standing)
    if attempt is None:
        return seen
    if job is None or not attempt.live:
        note = attempt.reason or ", ".join(attempt.warnings)
        if standing is Standing.INTERRUPTED and not attempt.reason:
            note = "its process ended without a word"
        return replace(seen, note=note)
    if attempt.status is Status.RUNNING and job.status in ("running", "unknown"):
        with suppress(OSError):
            heartbeat = max(0.0, now - attempt.path.stat().st_mtime)
            progress = heartbeat + max(0.0, attempt.updated - attempt.progressed)
            seen = replace(seen, heartbeat_s=heartbeat, progress_s=progress)
    match job.status:
        case "gone":
            waits = standing in (Standing.QUEUED, Standing.RUNNING)
            standing = _GONE[job.outcome] if waits else standing
            note = ": ".join(filter(None, ("its job is gone", job.reason)))
        case "pending":
            requeued = "requeued" if attempt.worker else ""
            standing, note = Standing.QUEUED, ": ".join(filter(None, (requeued, job.reason)))
        case "running":
            standing, note = Standing.RUNNING, _activity(attempt, seen)
        case "unknown":
            doing = standing if seen.heartbeat_s is None else _activity(attempt, seen)
            note = f"{doing} by its files"
    if attempt.cancel and job.status != "gone":
        note = f"to be cancelled; {note}"
    return replace(seen, standing=standing, note=note, job=job)


def _activity(attempt: Attempt, seen: ObservedRun) -> str:
    """What a running job's worker does, for how long, and what health warns of."""
    if attempt.worker is None:
        return "starting"
    parts = [attempt.activity or "training"]
    if seen.heartbeat_s is not None and seen.progress_s is not None:
        parts[0] += f" for {duration(seen.progress_s)}"
        if seen.heartbeat_s > _SILENT_S:
            parts.append(f"silent for {duration(seen.heartbeat_s)}")
    return "; ".join([*parts, *attempt.warnings])


def choose_runs(words: Sequence[str], runs: Sequence[ObservedRun]) -> list[ObservedRun]:
    """Return the runs that the setting `runs` chooses; all of them where it is empty.

        runs=n8-B4               ids that contain this; runs=*-n8-* a pattern of ids
        runs=[running,queued]    standings; of two words, with _ or a blank between them
        runs=[n:8,n:16,seed:0]   values of n, B, seed and grid.axes

    Words of one kind widen the choice and kinds narrow it: `[running,n:8,n:16]` are the running
    ones with n = 8 or 16. Raises SettingError for an id or a value that no run has.
    """
    kinds = defaultdict[str, set[str]](set)
    for word in words:
        name, colon, value = word.partition(":")
        standing = _STANDINGS.get(word.replace(" ", "_"))
        if standing is not None:
            name, fitting = "standing", [each for each in runs if each.standing is standing]
        elif colon:
            fitting = [each for each in runs if _values(each.run).get(name) == value]
        else:
            pattern = word if set(word) & set("*?[") else f"*{word}*"
            name, fitting = "id", [each for each in runs if fnmatchcase(each.run.run_id, pattern)]
        if not fitting and standing is None:
            rule = (
                f"{word} fits none of the plan's {len(runs)} runs: neither an id nor a value "
                f"(n:{runs[0].run.num_generations}) nor a standing ({', '.join(_STANDINGS)})"
            )
            raise SettingError("runs", list(words), rule, f"runs={runs[0].run.run_id}")
        kinds[name].update(each.run.run_id for each in fitting)
    return [each for each in runs if all(each.run.run_id in ids for ids in kinds.values())]


def _values(run: PlannedRun) -> dict[str, str]:
    """The values that `runs` chooses by, by name."""
    axes = {axis.rpartition(".")[2]: value for axis, value in run.axes.items()} | run.axes
    known = {"n": run.num_generations, "B": run.problems_per_batch, "seed": run.seed} | axes
    return {name: str(value) for name, value in known.items()}
