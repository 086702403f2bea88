"""What an attempt writes about its run for others to read: state, records, metrics, warnings."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from isosweep.compute import Compute
from isosweep.store.attempts import HEARTBEAT_S, STARTING, Attempt, Status
from isosweep.store.checkpoints import ResumePoint
from isosweep.store.completions import KeptCompletions, append_completions
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_metrics,
    append_record,
    append_warning,
    read_records,
)
from isosweep.store.warnings import LOST_CHECKPOINT, HealthWarning
from isosweep.training.distributed import Rank
from isosweep.training.health import HealthMonitor
from isosweep.training.stopping import StopRequest


class Reporter:
    """Of a run's processes the first writes; before what counts it makes sure it owns the run.

    `step`, `spent` and `reward` (held-out avg@k) are what the next state will say. The state is
    written by two threads; once the attempt has ended, no other one replaces it.
    """

    def __init__(self, attempt: Attempt, rank: Rank, monitor: HealthMonitor, step: int) -> None:
        self._attempt, self._run, self._rank = attempt, attempt.run, rank
        self._monitor = monitor
        self._lost: tuple[str, ...] = ()
        # A signal's handler may write while its own thread does.
        self._writing = threading.RLock()
        self._ended = False
        self._activity, self._progressed = STARTING, time.time()
        self.step, self.spent = step, Compute()
        self.reward: float | None = None

    def check(self) -> None:
        """Raise OvertakenError if a later attempt has claimed the run."""
        if self._rank.leads:
            self._attempt.check()

    def doing(self, activity: str) -> None:
        """Say what the attempt, which has come forward, does from now on."""
        self._activity = activity
        self.progress()

    def progress(self) -> None:
        """The attempt has come forward."""
        self._progressed = time.time()

    def state(self, status: Status, reason: str = "") -> None:
        """Write how the attempt is. Raises OvertakenError where a newer attempt owns the run, and
        OSError where its end cannot be written."""
        if not self._rank.leads:
            return
        self.check()
        with self._writing:
            if not self._ended:
                self._ended = status is not Status.RUNNING
                self._state(status, reason).write()

    @contextmanager
    def beating(self, stop: StopRequest) -> Iterator[None]:
        """Show every HEARTBEAT_S s that the attempt lives, whatever its process does, and look for
        what the run's files ask of it."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_S):
                # A disk that is full for a while: training goes on without a sign of life.
                with suppress(OSError):
                    stop.read_requests(self._attempt)
                with suppress(OSError), self._writing:
                    if not self._ended and not over.is_set():
                        self._state(Status.RUNNING, "").write(sync=False)

        if self._rank.leads:
            threading.Thread(target=beat, name="heartbeat", daemon=True).start()
        try:
            yield
        finally:
            with self._writing:
                over.set()

    def _state(self, status: Status, reason: str) -> Attempt:
        ended = self._monitor.verdict if status is Status.DIVERGED else None
        return replace(
            self._attempt,
            status=status,
            step=self.step,
            compute=self.spent,
            finished=self.spent if status is Status.FINISHED else self._attempt.finished,
            reward=self.reward,
            reason=reason,
            updated=time.time(),
            progressed=self._progressed,
            activity=self._activity if status is Status.RUNNING else "",
            warnings=(*self._lost, *self._monitor.active),
            diverged_by=ended.rule if ended else None,
        )

    def started(self, start: ResumePoint) -> set[int]:
        """Write where this attempt starts; steps whose records earlier ones have taken."""
        line = AttemptStart(
            attempt=self._attempt.number, parent=start.parent, resumed_step=start.step
        )
        self._keep(append_attempt, self._run.records, line)
        for loss in start.losses:
            self._lost = (LOST_CHECKPOINT,)
            self.warning(HealthWarning(step=start.step, rule=LOST_CHECKPOINT, message=loss))
        earlier = read_records(self._run.records).records
        self.reward = earlier[-1].reward if earlier else None
        return {record.step for record in earlier}

    def record(self, record: Record) -> None:
        """Append a record. Raises OvertakenError where a newer attempt owns the run."""
        self.check()
        self._keep(append_record, self._run.records, self._attempt.number, record)
        self.reward = record.reward

    def completions(self, kept: KeptCompletions) -> None:
        """Append what is kept of the record that comes next. A run goes on without, where they
        cannot be written: the folder may be another user's."""
        if self._rank.leads:
            with suppress(OSError):
                append_completions(self._run.completions, self._attempt.number, kept)

    def metrics(self, step: int, values: dict[str, float]) -> None:
        """A value that is not finite is written as null."""
        finite = {name: v if math.isfinite(v) else None for name, v in values.items()}
        line = {"step": step, "time": time.time(), **finite}
        self._keep(append_metrics, self._run.metrics, self._attempt.number, line)

    def warning(self, warning: HealthWarning) -> None:
        """Append a warning of the health monitor."""
        self._keep(append_warning, self._run.warnings, self._attempt.number, warning)

    def _keep(self, append: Callable[..., None], log: Path, *line: Any) -> None:
        """Append to a log of the run, in the first process."""
        if self._rank.leads:
            append(log, *line)
