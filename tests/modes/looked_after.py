"""Sweeps whose files are written by hand, and jobs whose scheduler says what a test wants."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from isosweep.compute import Compute
from isosweep.launchers.launcher import JobState
from isosweep.modes.observed import Jobs
from isosweep.modes.sweeps import StoredSweep, read_sweep, store_plan, sweep_paths
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import resolve
from isosweep.store.attempts import Attempt, LauncherName, Status, begin, create_attempt
from isosweep.store.paths import RunPaths
from tests.conftest import make_config

PLAN = ("budget=1e11", "grid.num_generations=[2,4]", "grid.problems_per_batch=[4]")


def sweep_in(directory: Path, *overrides: str) -> StoredSweep:
    """A sweep of a few runs in `directory`, of which none has begun."""
    study = resolve(make_config(*PLAN, f"sweeps_dir={directory}", *overrides))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return read_sweep(paths.root)


def submitted(run: RunPaths, launcher: LauncherName = "slurm") -> Attempt:
    """An attempt that waits for its job."""
    run.root.mkdir(parents=True, exist_ok=True)
    attempt = create_attempt(run, launcher, str(run.root.parent.parent / "somewhere"), {}, "b")
    assert attempt is not None
    return attempt


def ended(
    sweep: StoredSweep, place: int = 0, status: Status = Status.FINISHED, share: float = 1.0
) -> RunPaths:
    """The run in a place of the plan, whose job has ended, with `share` of it behind it."""
    planned = sweep.plan.runs[place]
    run = sweep.paths.run(planned.run_id)
    reported(submitted(run), status, share, planned)
    return run


def reported(attempt: Attempt, status: Status, share: float, planned: PlannedRun) -> Attempt:
    """What the worker of an attempt, this process, wrote last, `share` of the run behind it."""
    compute = Compute(
        generations=10, training_flops=share * planned.milestones[-1], device_seconds=50.0
    )
    own = begin(attempt, "1") if attempt.worker is None else attempt
    state = replace(
        own,
        status=status,
        step=10,
        compute=compute,
        finished=compute if status is Status.FINISHED else own.finished,
        reward=0.25,
        reason="RuntimeError: planted" if status is Status.FAILED else "",
        progressed=time.time() - 600,
        activity="evaluating",
    )
    state.write()
    return state


def logged(run: RunPaths, name: str, *lines: str) -> None:
    """A log of the run's first attempt."""
    run.attempt_logs(1).mkdir(parents=True, exist_ok=True)
    (run.attempt_logs(1) / name).write_text("".join(f"{line}\n" for line in lines))


@dataclass
class Scheduled(Jobs):
    """A scheduler that says what it was told to, job by job, and goes on as `stop` makes it."""

    answers: dict[str, JobState] = field(default_factory=dict)
    obeys: bool = True
    stopped: list[tuple[str, bool]] = field(default_factory=list)
    asked: int = 0

    def observe(self, attempts: Sequence[Attempt]) -> list[JobState]:
        self.asked += 1
        return [self.answers[each.run.run_id] for each in attempts]

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        for run_id in (each.run.run_id for each in attempts):
            self.stopped.append((run_id, kill))
            if self.obeys:
                self.answers[run_id] = JobState(
                    status="gone", outcome=Status.CANCELLED, reason="CANCELLED by 1000"
                )
        return None if self.obeys else "Unable to contact slurm controller"


def terminal(width: int = 100, **how: Any) -> Console:
    """A console that keeps what is printed."""
    return Console(file=io.StringIO(), width=width, highlight=False, **how)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
