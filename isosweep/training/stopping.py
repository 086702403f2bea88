"""What asks a worker to stop: it finishes its step and writes a checkpoint first."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

from isosweep.errors import RecordError
from isosweep.files import highest_of, names
from isosweep.store.attempts import Attempt, Status, read

# A request often comes twice: from the terminal, or a scheduler, to all processes of a group, and
# again from who started them.
ECHO_S = 2.0
# Before a time limit, as jobs are submitted, and at preemption where the cluster says so.
WARNING = signal.SIGUSR2
_ORDERS = (signal.SIGTERM, signal.SIGINT)
# Exit status of what a second signal has ended, as a shell gives it after Ctrl-C. Of a rank it has
# the others ended.
INTERRUPTED = 128 + signal.SIGINT


@dataclass
class StopRequest:
    """Set by signals and by the run's files; read after each step.

    `reason`: why to write a checkpoint and leave. `cancelled`: the run is not to go on.
    `overtaken`: why to leave without one, for the run has another owner. `signals`: those that
    came. `requeues`: a `WARNING` leads to the scheduler's queue again; `scheduled`: the scheduler
    knows whether a SIGTERM does (a preemption), or ends the job. `last_words` is called with the
    reason before a second signal ends the process at once; where `patient`, none does: another
    process decides.
    """

    reason: str | None = None
    cancelled: bool = False
    overtaken: str | None = None
    requeues: bool = False
    scheduled: bool = False
    patient: bool = False
    signals: list[signal.Signals] = field(default_factory=list)
    last_words: Callable[[str], object] | None = None
    _ordered: float | None = None

    def install(self) -> None:
        """Note SIGINT, SIGTERM and SIGUSR2 from now on, instead of ending; SIGHUP is ignored."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (*_ORDERS, WARNING):
            signal.signal(number, self._came)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ORDERS, WARNING})

    @property
    def requeued(self) -> bool:
        """Whether the run is to wait in the scheduler's queue again."""
        return self.requeues and WARNING in self.signals and not self.cancelled

    @property
    def ending(self) -> Status:
        """How an attempt that obeys it ends: queued, where its job may start again."""
        if self.cancelled:
            return Status.CANCELLED
        preempted = self.scheduled and self.signals[:1] == [signal.SIGTERM]
        return Status.QUEUED if self.requeued or preempted else Status.INTERRUPTED

    @property
    def before_first_step(self) -> bool:
        """Whether to leave before a first step too. Not for a warning alone that leads to the queue
        again: where that comes before the first step of every job, none would ever be made."""
        warned_only = self.requeued and set(self.signals) == {WARNING}
        return self.reason is not None and not warned_only

    def read_requests(self, attempt: Attempt) -> None:
        """Heed what the run's files say: a newer attempt, a cancel request, an end that somebody
        else wrote. They are listed, never looked for: a network file system may remember that one
        was absent."""
        run, own = attempt.run, attempt.number
        there = names(run.attempts)
        later = highest_of(there)
        if later > own:
            self.overtaken = f"{run.run_id}: attempt {later} owns the run now"
        elif f"{own}.cancel.json" in there and not self.cancelled:
            by = "a request that cannot be read"
            with suppress(RecordError):
                by = read(run, own).cancel or "a request"
            self.cancelled, self.reason = True, f"cancelled by {by}"
        elif f"{own}.end.json" in there and self.reason is None:
            self.reason = "somebody has ended its attempt"

    def _came(self, number: int, frame: FrameType | None) -> None:
        came, now = signal.Signals(number), time.monotonic()
        self.signals.append(came)
        if self.reason is None:
            requeued = "requeued: " if self.requeued else ""
            self.reason = f"{requeued}stopped by {came.name}"
        if came is WARNING:
            return
        if self._ordered is None:
            self._ordered = now
        elif now - self._ordered > ECHO_S and not self.patient:
            self._leave(came)

    def _leave(self, came: signal.Signals) -> None:
        """End the process: the run goes on from the last checkpoint that is complete."""
        said = f"{self.reason}, and ended amid a step by a second {came.name}"
        if self.last_words is not None:
            # A disk that is full takes none; the process leaves all the same.
            with suppress(Exception):
                self.last_words(said)
        os.write(2, f"isosweep: {said}\n".encode())
        os._exit(INTERRUPTED)
