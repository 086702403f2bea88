"""What an attempt knows before the training stack is imported."""

from dataclasses import dataclass

from isosweep.compute import Compute
from isosweep.config.checkpoint import CheckpointConfig
from isosweep.plan.spec import RunSpec
from isosweep.store.state import Attempt, RunStatus
from isosweep.training.health import HealthMonitor
from isosweep.training.progress import ResumePoint
from isosweep.training.ranks import Rank
from isosweep.training.reporter import Reporter
from isosweep.training.schedule import Schedule
from isosweep.training.stopping import StopRequest


@dataclass(frozen=True, kw_only=True)
class Session:
    """One process's part in an attempt: which run, from where, how far, and what may end it.

    `began`: when the attempt did, by the monotonic clock.
    """

    spec: RunSpec
    attempt: Attempt
    rank: Rank
    stop: StopRequest
    start: ResumePoint
    schedule: Schedule
    monitor: HealthMonitor
    reporter: Reporter
    checkpoint: CheckpointConfig
    began: float

    def outcome(self, spent: Compute) -> tuple[RunStatus, str | None]:
        """How an attempt that left by itself has ended with `spent` behind it, and why."""
        ended = self.monitor.verdict
        if ended is not None:
            return "diverged", f"{ended.rule} at step {ended.step}: {ended.message}"
        if self.stop.reason is None or self.schedule.is_over(spent):
            return "finished", None
        return "cancelled" if self.stop.cancelled else "interrupted", self.stop.reason
