"""What an attempt writes about its run for others to read: state, records, metrics, warnings."""

import math
import socket
import time

from isosweep.compute import Compute
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_metrics,
    append_record,
    append_warning,
    read_records,
)
from isosweep.store.state import HEARTBEAT_S, Attempt, RunState, RunStatus, write_state
from isosweep.store.warnings import LOST_CHECKPOINT, HealthWarning
from isosweep.training.health import HealthMonitor
from isosweep.training.progress import ResumePoint
from isosweep.training.ranks import Rank


class Reporter:
    """Of a run's processes the first writes; before what counts it makes sure it owns the run.

    `step` and `reward` (held-out avg@k) are what the next state will say.
    """

    def __init__(
        self, attempt: Attempt, rank: Rank, monitor: HealthMonitor, job_id: str | None, step: int
    ) -> None:
        self._attempt, self._run, self._rank = attempt, attempt.run, rank
        self._monitor, self._job_id = monitor, job_id
        self._reported = 0.0
        self._lost: tuple[str, ...] = ()
        self.step = step
        self.reward: float | None = None

    @property
    def silent_s(self) -> float:
        """Seconds since the state was written last."""
        return time.monotonic() - self._reported

    def check(self) -> None:
        """Raise OvertakenError if a later attempt has claimed the run."""
        if self._rank.leads:
            self._attempt.check()

    def state(self, status: RunStatus, spent: Compute, reason: str | None = None) -> None:
        """Write the run's state. Raises OvertakenError where a newer attempt owns the run."""
        if not self._rank.leads:
            return
        self.check()
        ended = self._monitor.verdict
        state = RunState(
            status=status,
            attempt=self._attempt.number,
            host=socket.gethostname(),
            pid=self._rank.pid,
            job_id=self._job_id,
            step=self.step,
            compute=spent,
            reward=self.reward,
            reason=reason,
            updated=time.time(),
            warnings=(*self._lost, *self._monitor.active),
            diverged_by=ended.rule if status == "diverged" and ended is not None else None,
        )
        write_state(self._run, state)
        self._reported = time.monotonic()

    def beat(self, spent: Compute) -> None:
        """Report the run as running, if nothing was written for a while."""
        if self.silent_s > HEARTBEAT_S:
            self.state("running", spent)

    def started(self, start: ResumePoint) -> set[int]:
        """Write where this attempt starts; steps whose records earlier ones have taken."""
        if self._rank.leads:
            line = AttemptStart(
                attempt=self._attempt.number, parent=start.parent, resumed_step=start.step
            )
            append_attempt(self._run.records, line)
            for loss in start.losses:
                self._lost = (LOST_CHECKPOINT,)
                self.warning(HealthWarning.without_value(start.step, LOST_CHECKPOINT, loss))
        earlier = read_records(self._run.records).records
        self.reward = earlier[-1].reward if earlier else None
        return {record.step for record in earlier}

    def record(self, record: Record) -> None:
        """Append a record. Raises OvertakenError where a newer attempt owns the run."""
        if self._rank.leads:
            self.check()
            append_record(self._run.records, self._attempt.number, record)
        self.reward = record.reward

    def metrics(self, step: int, values: dict[str, float]) -> None:
        """A value that is not finite is written as null."""
        if self._rank.leads:
            finite = {name: v if math.isfinite(v) else None for name, v in values.items()}
            line = {"step": step, "time": time.time(), **finite}
            append_metrics(self._run.metrics, self._attempt.number, line)

    def warning(self, warning: HealthWarning) -> None:
        """Append a warning of the health monitor."""
        if self._rank.leads:
            append_warning(self._run.warnings, self._attempt.number, warning)
