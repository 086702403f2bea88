"""Sweeps whose files are written by hand, and jobs whose scheduler says what a test wants."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from isosweep.compute import Compute
from isosweep.launchers.launcher import Observed
from isosweep.modes.directory import StoredSweep, read_sweep, store_plan, sweep_paths
from isosweep.modes.jobs import Jobs
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import resolve
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunStatus, claim_attempt
from isosweep.store.submissions import (
    Job,
    Outcome,
    Process,
    Submission,
    SubmissionState,
    close,
    started,
    submit,
)
from tests.conftest import make_config

PLAN = ("budget=1e11", "grid.num_generations=[2,4]", "grid.problems_per_batch=[4]")


def sweep_in(directory: Path, *overrides: str) -> StoredSweep:
    """A sweep of a few runs in `directory`, of which none has begun."""
    study = resolve(make_config(*PLAN, f"sweeps_dir={directory}", *overrides))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return read_sweep(paths.root)


def submitted(
    run: RunPaths, *, job: str | None = "1", process: Process | None = None
) -> Submission:
    """A submission of a Slurm job, or of a process of this machine."""
    root = str(run.root.parent.parent / "somewhere")
    submission = submit(run, "local" if process else "slurm", {}, root, "b")
    assert submission is not None
    if job is not None:
        started(submission, Job(job_id=job, process=process))
    return submission


def ended(
    sweep: StoredSweep, place: int = 0, outcome: Outcome = "finished", share: float = 1.0
) -> RunPaths:
    """The run in a place of the plan, whose job has ended, with `share` of it behind it."""
    planned = sweep.plan.runs[place]
    run = sweep.paths.run(planned.run_id)
    close(submitted(run), outcome, "")
    reported(run, "finished" if outcome == "finished" else "failed", share, planned)
    return run


def reported(run: RunPaths, status: RunStatus, share: float, planned: PlannedRun) -> None:
    """What an attempt of the newest submission wrote last, `share` of the run behind it."""
    attempt = claim_attempt(run, submission=1)
    now, this = time.time(), Process.this()
    state = RunState(
        status=status,
        attempt=attempt.number,
        host=this.host,
        pid=this.pid,
        start=this.start,
        step=10,
        compute=Compute(
            generations=10, training_flops=share * planned.milestones[-1], device_seconds=50.0
        ),
        reward=0.25,
        reason="RuntimeError: planted" if status == "failed" else None,
        updated=now,
        submission=1,
        progressed=now - 600,
        activity="evaluating",
    )
    attempt.write(state)


def logged(run: RunPaths, name: str, *lines: str) -> None:
    """A log of the run's first submission."""
    run.submission_logs(1).mkdir(parents=True, exist_ok=True)
    (run.submission_logs(1) / name).write_text("".join(f"{line}\n" for line in lines))


@dataclass
class Scheduled(Jobs):
    """A scheduler that says what it was told to, job by job, and goes on as `stop` makes it."""

    answers: dict[str, Observed] = field(default_factory=dict)
    obeys: bool = True
    stopped: list[tuple[str, bool]] = field(default_factory=list)
    asked: int = 0

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        self.asked += 1
        return [self.answers[s.submission.run.run_id] for s in submissions]

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        for state in submissions:
            run_id = state.submission.run.run_id
            self.stopped.append((run_id, kill))
            if self.obeys:
                self.answers[run_id] = Observed(
                    status="gone", outcome="cancelled", reason="CANCELLED by 1000"
                )
        return None if self.obeys else "Unable to contact slurm controller"


def terminal(width: int = 100, **how: Any) -> Console:
    """A console that keeps what is printed."""
    return Console(file=io.StringIO(), width=width, highlight=False, **how)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
