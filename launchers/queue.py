"""A queue that keeps at most `max_parallel` runs alive, retries failures, and survives them."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from isosweep.compute import BudgetUnit
from isosweep.config.health import HealthConfig
from isosweep.plan.cells import PlannedRun
from isosweep.store.paths import RunPaths
from isosweep.store.state import RunState, mark, read_state
from isosweep.training.worker import TrainRun

_POLL_S = 0.25


class Launcher(Protocol):
    """Starts runs somewhere. `detaches`: runs go on when this process leaves."""

    detaches: bool

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any: ...

    def ended(self, handle: Any) -> bool: ...

    def stop(self, handle: Any) -> None: ...


@dataclass
class _Active:
    run: PlannedRun
    handle: Any
    slot: int
    submitted_after: int


@dataclass
class RunQueue:
    """Runs of one plan. `failed` maps a run that was given up to the reason.

    A run that diverges is done: more tries would end the same way.
    """

    runs: tuple[PlannedRun, ...]
    unit: BudgetUnit
    paths: Callable[[str], RunPaths]
    launcher: Launcher
    max_parallel: int
    max_retries: int
    health: HealthConfig = field(default_factory=HealthConfig)
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unfinished = [run for run in self.runs if not self.is_done(run)]
        # Longest first, so that the last devices to finish do so together.
        self._waiting = deque(sorted(unfinished, key=lambda run: -run.num_steps))
        self._active: list[_Active] = []
        self._tries: dict[str, int] = {}

    def is_done(self, run: PlannedRun) -> bool:
        """Whether the run has been trained to its last milestone, or has diverged before it."""
        state = read_state(self.paths(run.run_id))
        last, stop = run.milestones[-1], self.health.stop
        return state is not None and state.is_done(last, self.unit, stop)

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._active)

    @property
    def active(self) -> list[PlannedRun]:
        return [active.run for active in self._active]

    def step(self) -> None:
        """Look at every run once: collect the ended, start the next."""
        for active in list(self._active):
            if self._over(active):
                self._active.remove(active)
        free = [s for s in range(self.max_parallel) if s not in {a.slot for a in self._active}]
        for _ in range(len(self._waiting)):
            if not free:
                break
            run = self._waiting.popleft()
            state = read_state(self.paths(run.run_id))
            if self.is_done(run):
                continue
            if state is not None and state.alive():
                # Another process trains it: wait for that one, then extend if needed.
                self._waiting.append(run)
                continue
            self._submit(run, free.pop(0), state)

    def follow(self, on_poll: Callable[[], None]) -> None:
        """Run everything; calls `on_poll` between looks."""
        while self.busy:
            self.step()
            on_poll()
            time.sleep(_POLL_S)

    def stop(self, grace_s: float) -> None:
        """Ask every active run to checkpoint and leave, and wait for them."""
        self._waiting.clear()
        for active in self._active:
            self.launcher.stop(active.handle)
        deadline = time.monotonic() + grace_s
        while self._active and time.monotonic() < deadline:
            self._active = [a for a in self._active if not self.launcher.ended(a.handle)]
            time.sleep(_POLL_S)

    def _submit(self, run: PlannedRun, slot: int, state: RunState | None) -> None:
        paths = self.paths(run.run_id)
        logs = paths.next_logs()
        logs.mkdir(parents=True)
        job = TrainRun(str(paths.root), run.milestones, self.unit, self.health)
        handle = self.launcher.submit(job, logs, run.run_id, slot)
        self._active.append(_Active(run, handle, slot, state.attempt if state else 0))

    def _over(self, active: _Active) -> bool:
        """Collect one run: done, given up, or back in the queue. False while it goes on."""
        run, paths = active.run, self.paths(active.run.run_id)
        ended = self.launcher.ended(active.handle)
        state = read_state(paths)
        if self.is_done(run):
            return ended
        if not ended:
            return False
        if state is not None and state.attempt <= active.submitted_after:
            state = None
        if state is not None and state.status == "running":
            mark(paths, "failed", "the worker died without a word (killed, or out of memory)")
            state = read_state(paths)
        if state is not None and state.status == "cancelled":
            self.failed[run.run_id] = "cancelled"
            return True
        reason = (state.reason if state else None) or "the worker ended before it had begun"
        tries = self._tries[run.run_id] = self._tries.get(run.run_id, 0) + 1
        if tries > self.max_retries:
            self.failed[run.run_id] = f"{reason} (tried {tries} times; logs in {paths.logs})"
        else:
            self._waiting.append(run)
        return True
