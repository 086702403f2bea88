"""A scheduler of this process, and workers that do nothing but keep their files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from isosweep.compute import Compute
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.launchers import queue as module
from isosweep.launchers.items import QueueItem
from isosweep.launchers.launcher import Observed, Order, Refused
from isosweep.launchers.queue import RunQueue
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, RunStatus, claim_attempt
from isosweep.store.submissions import (
    Job,
    LauncherName,
    Outcome,
    SubmissionState,
    close,
    newest_submission,
)
from tests.conftest import make_config, plan_of

BUDGET = 1e10


@cache
def the_plan() -> Plan:
    return plan_of(make_config(f"budget={BUDGET}", "grid.seeds=[0]", "grid.tolerance=0.1"))


Worker = Callable[[Order], None]


def report(
    run: RunPaths, submission: int | None, status: RunStatus, flops: float, **changed: Any
) -> RunState:
    """What an attempt of this process writes; `changed`: other fields of its state."""
    attempt = claim_attempt(run, submission)
    now = time.time()
    state = RunState(
        status=status,
        attempt=attempt.number,
        host="",
        pid=0,
        submission=submission,
        step=100,
        compute=Compute(generations=100, training_flops=flops),
        reward=None,
        reason=None,
        updated=now,
        progressed=now,
        diverged_by="collapse" if status == "diverged" else None,
    )
    attempt.write(replace(state, **changed))
    return state


def ends(status: RunStatus, share: float, outcome: Outcome, reason: str = "") -> Worker:
    """A worker that leaves so, with a share of its last milestone spent."""

    def work(order: Order) -> None:
        spent = share * order.submission.job["milestones"][-1]
        run, number = order.submission.run, order.submission.number
        report(run, number, status, spent, reason=reason or None)
        close(order.submission, outcome, reason)

    return work


finishes = ends("finished", 1.0, "finished")
fails = ends("failed", 0.0, "failed", "RuntimeError: broken")
diverges = ends("diverged", 0.5, "finished", "collapse at step 100: reward 0")


def dies(order: Order) -> None:
    report(order.submission.run, order.submission.number, "running", 1.0)


def never_begins(order: Order) -> None:
    pass


@dataclass
class FakeLauncher:
    """`worker` works when the queue asks for the job; with `looks`, only the so-manieth time."""

    worker: Worker
    name: LauncherName = "ray"
    detaches: bool = False
    places: bool = True
    poll_s: float = 0.0
    looks: int = 1
    refuse: list[Refused] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    stopped: list[tuple[str, bool]] = field(default_factory=list)
    alive: dict[Path, tuple[Order, int]] = field(default_factory=dict)
    most_alive: int = 0
    gone: Observed = field(default_factory=lambda: Observed(status="gone"))

    def batches(self, runs: Sequence[PlannedRun]) -> list[list[int]]:
        return [list(range(len(runs)))]

    def devices(self, slot: int) -> tuple[str, ...]:
        return ()

    def submit(self, orders: Sequence[Order]) -> list[Job | Refused]:
        return [self.refuse.pop(0) if self.refuse else self._start(order) for order in orders]

    def _start(self, order: Order) -> Job:
        self.submitted.append(order.run.run_id)
        self.slots.append(order.slot)
        self.alive[order.submission.path] = (order, 0)
        self.most_alive = max(self.most_alive, len(self.alive))
        return Job(job_id=str(len(self.submitted)))

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        return [self._look(state) for state in submissions]

    def _look(self, state: SubmissionState) -> Observed:
        path = state.submission.path
        if path not in self.alive:
            return self.gone
        order, looks = self.alive[path]
        self.alive[path] = (order, looks + 1)
        if looks + 1 < self.looks:
            return Observed(status="running")
        del self.alive[path]
        self.worker(order)
        return self.gone

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        for state in submissions:
            self.stopped.append((state.submission.run.run_id, kill))
            if kill:
                self.alive.pop(state.submission.path, None)
        return None


def items_of(
    root: Path, runs: Sequence[PlannedRun] | None = None, **changed: Any
) -> list[QueueItem]:
    """What a sweep wants of a queue; `changed`: other fields of its items."""
    items = []
    for run in the_plan().runs if runs is None else runs:
        paths = RunPaths(root / "runs" / run.run_id)
        paths.root.mkdir(parents=True, exist_ok=True)
        item = QueueItem(
            run=run,
            paths=paths,
            sweep=str(root / "sweep"),
            unit="flops",
            health=HealthConfig(),
            saving=CheckpointConfig(),
            stuck_after_s=1800.0,
        )
        items.append(replace(item, **changed))
    return items


def queue_of(
    items: Sequence[QueueItem], launcher: FakeLauncher, retries: int = 1, **named: Any
) -> RunQueue:
    return RunQueue(items, launcher, max_parallel=3, max_retries=retries, **named)


def follow(queue: RunQueue, passes: int = 500) -> None:
    """Step until all is over, without the pauses between tries."""
    for _ in range(passes):
        if not queue.busy:
            return
        with mock.patch.object(module, "_RETRY_S", (0.0,)):
            queue.step()
    raise AssertionError(f"not over after {passes} passes: {len(queue.active)} active")


def one_run(root: Path) -> RunPaths:
    return items_of(root)[0].paths


def only_first(root: Path, **changed: Any) -> list[QueueItem]:
    return items_of(root, the_plan().runs[:1], **changed)


def submissions(root: Path) -> dict[str, int]:
    """How many submissions each run has."""
    return {
        run.name: len([p for p in (run / "submissions").glob("*.json") if p.stem.isdecimal()])
        for run in (root / "runs").iterdir()
    }


def outcome(run: RunPaths) -> str:
    state = newest_submission(run)
    assert state is not None
    assert state.end is not None
    return state.end.outcome
