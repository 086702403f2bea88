"""An attempt while it runs: where it starts, what it has recorded, and when it stops."""

import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from isosweep.compute import BudgetUnit, Compute
from isosweep.files import read_lines
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.state import Attempt, RunState, RunStatus, write_state
from isosweep.training.health import HealthMonitor
from isosweep.training.ranks import Rank


@dataclass(frozen=True)
class ResumePoint:
    """Where an attempt starts: a checkpoint of attempt `parent`, or step 0."""

    step: int
    parent: int | None
    checkpoint: Path | None


def find_resume_point(run: RunPaths, attempt: int) -> ResumePoint:
    """The newest complete checkpoint on the chain of attempts before `attempt`."""
    starts = {
        line["attempt"]: line
        for _, line in read_lines(run.records)
        if line is not None and line.get("kind") == "attempt"
    }
    limit = float("inf")
    parent: int | None = max((number for number in starts if number < attempt), default=None)
    while parent is not None:
        found = complete_checkpoints(run.attempt_checkpoints(parent))
        usable = [step for step in found if step <= limit]
        if usable:
            return ResumePoint(max(usable), parent, found[max(usable)])
        limit = min(limit, starts[parent]["resumed_step"])
        parent = starts[parent]["parent"]
    return ResumePoint(0, None, None)


@dataclass
class StopRequest:
    """Set by a signal; read after each step, so that a checkpoint is written before leaving."""

    reason: str | None = None

    def install(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"


@dataclass
class Session:
    """Progress of this attempt: what has been recorded, and what comes next."""

    run: RunPaths
    spec: RunSpec
    attempt: Attempt
    milestones: tuple[float, ...]
    unit: BudgetUnit
    job_id: str | None
    stop: StopRequest
    monitor: HealthMonitor
    rank: Rank
    recorded: set[int] = field(default_factory=set)
    step: int = 0
    reward: float | None = None
    previous: Compute = field(default_factory=Compute)
    reported: float = 0.0
    saved: float = field(default_factory=time.monotonic)

    def report(self, status: RunStatus, spent: Compute, reason: str | None = None) -> None:
        if not self.rank.leads:
            return
        self.attempt.check()
        ended = self.monitor.verdict
        state = RunState(
            status=status,
            attempt=self.attempt.number,
            host=socket.gethostname(),
            pid=self.rank.pid,
            job_id=self.job_id,
            step=self.step,
            compute=spent,
            reward=self.reward,
            reason=reason,
            updated=time.time(),
            warnings=self.monitor.standing,
            diverged_by=ended.rule if status == "diverged" and ended is not None else None,
        )
        write_state(self.run, state)
        self.reported = time.monotonic()

    def outcome(self) -> tuple[RunStatus, str | None]:
        """How an attempt that left by itself has ended, and why."""
        ended = self.monitor.verdict
        if ended is not None:
            return "diverged", f"{ended.rule} at step {ended.step}: {ended.message}"
        return ("interrupted", self.stop.reason) if self.stop.reason else ("finished", None)

    def record_due(self, spent: Compute) -> bool:
        """Whether this step is the first to reach a milestone or a point of the log-spaced grid.

        The grid is in FLOPs and independent of budgets: extending a run changes no record.
        """
        if self.step == 0:
            return True
        per_decade = self.spec.evaluation.records_per_decade
        if _grid_points(spent, per_decade) > _grid_points(self.previous, per_decade):
            return True
        return any(
            spent.has_reached(budget, self.unit)
            and not self.previous.has_reached(budget, self.unit)
            for budget in self.milestones
        )


def _grid_points(spent: Compute, per_decade: int) -> int:
    """How many points 10^(k / per_decade) FLOPs, k = 0, 1, ..., the run has reached."""
    count = 0
    while spent.has_reached(10 ** (count / per_decade), "flops"):
        count += 1
    return count
