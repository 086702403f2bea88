"""A scheduler of this process, and workers that do nothing but keep their files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from isosweep.compute import Compute
from isosweep.config.study import CheckpointConfig, HealthConfig
from isosweep.launchers import queue as module
from isosweep.launchers.launcher import Observed, Order, QueueItem, Refused
from isosweep.launchers.queue import RunQueue
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.attempts import Attempt, LauncherName, Status, begin, highest, newest
from isosweep.store.paths import RunPaths
from tests.conftest import make_config, plan_of

BUDGET = 1e10


@cache
def the_plan() -> Plan:
    return plan_of(make_config(f"budget={BUDGET}", "grid.seeds=[0]", "grid.tolerance=0.1"))


Worker = Callable[[Order], None]


def report(attempt: Attempt, status: Status, flops: float, **changed: Any) -> Attempt:
    """What the worker of an attempt, this process, writes; `changed`: other fields."""
    own = begin(attempt, None) if attempt.worker is None else attempt
    compute = Compute(generations=100, training_flops=flops)
    state = replace(
        own,
        status=status,
        step=100,
        compute=compute,
        finished=compute if status is Status.FINISHED else own.finished,
        diverged_by="collapse" if status is Status.DIVERGED else None,
        updated=time.time(),
        **{"activity": "", **changed},
    )
    state.write()
    return state


def ends(status: Status, share: float, reason: str = "") -> Worker:
    """A worker that leaves so, with a share of its last milestone spent."""

    def work(order: Order) -> None:
        spent = share * order.attempt.job["milestones"][-1]
        report(order.attempt, status, spent, reason=reason)

    return work


finishes = ends(Status.FINISHED, 1.0)
fails = ends(Status.FAILED, 0.0, "RuntimeError: broken")
diverges = ends(Status.DIVERGED, 0.5, "collapse at step 100: reward 0")


def dies(order: Order) -> None:
    report(order.attempt, Status.RUNNING, 1.0)


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
    max_batch: int = 1000
    looks: int = 1
    refuse: list[Refused] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    stopped: list[tuple[str, bool]] = field(default_factory=list)
    alive: dict[Path, tuple[Order, int]] = field(default_factory=dict)
    most_alive: int = 0
    trouble: str | None = None
    gone: Observed = field(default_factory=lambda: Observed(status="ended", job_id="1"))

    def devices(self, place: int) -> tuple[str, ...]:
        return (f"gpu{place}",)

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        return [self._start(order) for order in orders]

    def _start(self, order: Order) -> Refused | None:
        if self.refuse:
            return self.refuse.pop(0)
        self.submitted.append(order.run.run_id)
        self.alive[order.attempt.path] = (order, 0)
        self.most_alive = max(self.most_alive, len(self.alive))
        return None

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        return [self._look(attempt.path) for attempt in attempts]

    def _look(self, path: Path) -> Observed:
        if path not in self.alive:
            return self.gone
        order, looks = self.alive[path]
        self.alive[path] = (order, looks + 1)
        if looks + 1 < self.looks:
            return Observed(status="running")
        del self.alive[path]
        self.worker(order)
        return self.gone

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        for attempt in attempts:
            self.stopped.append((attempt.run.run_id, kill))
            if kill:
                self.alive.pop(attempt.path, None)
        return self.trouble


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


def attempts(root: Path) -> dict[str, int]:
    """How many attempts each run has."""
    return {run.name: highest(RunPaths(run)) for run in (root / "runs").iterdir()}


def status_of(run: RunPaths) -> Status:
    attempt = newest(run)
    assert attempt is not None
    return attempt.status
