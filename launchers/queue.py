"""A queue that keeps at most `max_parallel` runs alive, retries failures, and survives them."""

import heapq
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from isosweep.compute import BudgetUnit
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.plan.cells import PlannedRun
from isosweep.plan.standing import Standing, run_standing
from isosweep.store.paths import RunPaths
from isosweep.store.state import known_state, mark
from isosweep.training.worker import TrainRun

_POLL_S = 0.25


class Launcher(Protocol):
    """Starts runs somewhere. `detaches`: runs go on when this process leaves."""

    detaches: bool

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any:
        """Start `job`, which logs into `logs`; returns its handle."""

    def ended(self, handle: Any) -> bool:
        """Whether the job is over, however it ended."""

    def stop(self, handle: Any) -> None:
        """Ask the job to end."""


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
    saving: CheckpointConfig = field(default_factory=CheckpointConfig)
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._active: dict[str, _Active] = {}
        unfinished = [run for run in self.runs if not self.standing(run).ended]
        # Longest first, by the time that `makespan` promises the end of the sweep from.
        self._waiting = deque(sorted(unfinished, key=lambda run: -run.seconds))
        # The lowest free slot is taken first: a heap, and in order it is one.
        self._free = list(range(self.max_parallel))
        self._tries: dict[str, int] = {}

    def standing(self, run: PlannedRun) -> Standing:
        """How far the run is; `queued` from its submission until it reports."""
        state, queued = known_state(self.paths(run.run_id)), run.run_id in self._active
        return run_standing(run, state, self.unit, self.health.stop, queued=queued)

    @property
    def busy(self) -> bool:
        """Whether a run waits or is active."""
        return bool(self._waiting or self._active)

    @property
    def active(self) -> list[PlannedRun]:
        """The runs that are submitted and not over."""
        return [active.run for active in self._active.values()]

    def step(self) -> None:
        """Look at every run once: collect the ended, start the next."""
        for active in list(self._active.values()):
            if self._over(active):
                del self._active[active.run.run_id]
                heapq.heappush(self._free, active.slot)
        for _ in range(len(self._waiting)):
            if not self._free:
                break
            run = self._waiting.popleft()
            standing = self.standing(run)
            if standing is Standing.RUNNING:
                # Another process trains it: wait for that one, then extend if needed.
                self._waiting.append(run)
            elif not standing.ended:
                self._submit(run)

    def follow(self, on_poll: Callable[[], None]) -> None:
        """Run everything; calls `on_poll` between looks."""
        while self.busy:
            self.step()
            on_poll()
            time.sleep(_POLL_S)

    def stop(self, grace_s: float) -> None:
        """Ask every active run to checkpoint and leave, and wait for them."""
        self._waiting.clear()
        for active in self._active.values():
            self.launcher.stop(active.handle)
        deadline = time.monotonic() + grace_s
        while self._active and time.monotonic() < deadline:
            for run_id, active in list(self._active.items()):
                if self.launcher.ended(active.handle):
                    del self._active[run_id]
            time.sleep(_POLL_S)

    def _submit(self, run: PlannedRun) -> None:
        paths = self.paths(run.run_id)
        state = known_state(paths)
        logs = paths.next_logs()
        logs.mkdir(parents=True)
        job = TrainRun(str(paths.root), run.milestones, self.unit, self.health, self.saving)
        handle = self.launcher.submit(job, logs, run.run_id, self._free[0])
        slot = heapq.heappop(self._free)
        self._active[run.run_id] = _Active(run, handle, slot, state.attempt if state else 0)

    def _over(self, active: _Active) -> bool:
        """Collect one run: done, given up, or back in the queue. False while it goes on."""
        run, paths = active.run, self.paths(active.run.run_id)
        ended = self.launcher.ended(active.handle)
        if not ended:
            return False
        state = known_state(paths)
        standing = run_standing(run, state, self.unit, self.health.stop)
        if standing.ended:
            return True
        if state is not None and state.attempt <= active.submitted_after:
            state = None
        if state is not None and state.status == "running":
            mark(paths, "failed", "the worker died without a word (killed, or out of memory)")
            state = known_state(paths)
        elif state is not None and standing is Standing.CANCELLED:
            self.failed[run.run_id] = "cancelled"
            return True
        reason = (state.reason if state else None) or "the worker ended before it had begun"
        tries = self._tries[run.run_id] = self._tries.get(run.run_id, 0) + 1
        if tries > self.max_retries:
            self.failed[run.run_id] = f"{reason} (tried {tries} times; logs in {paths.logs})"
        else:
            self._waiting.append(run)
        return True
