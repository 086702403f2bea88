"""A signal asks a worker to stop: it finishes its step and writes a checkpoint first."""

import signal
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Set by a signal; read after each step, so that a checkpoint is written before leaving."""

    reason: str | None = None

    def install(self) -> None:
        """Note SIGINT and SIGTERM from now on, instead of ending at once."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
