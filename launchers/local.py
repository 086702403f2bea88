"""Runs as processes of this machine, through submitit's local executor."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import LocalExecutor

# submitit's local executor ends a job after its timeout; a run here ends by its budget.
_NO_TIMEOUT_MIN = 60 * 24 * 365


class LocalLauncher:
    """Starts each run as a process; `slot` numbers the run's place, and with it its GPUs.

    `gpus` of this machine are shared out, `devices` to a run; 0 leaves runs as they are.
    """

    detaches = False

    def __init__(self, *, gpus: int, devices: int = 1) -> None:
        self._gpus, self._devices = gpus, devices

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any:
        executor = LocalExecutor(logs)
        parameters: dict[str, Any] = {"timeout_min": _NO_TIMEOUT_MIN}
        if self._gpus:
            first = slot * self._devices
            own = tuple((first + i) % self._gpus for i in range(self._devices))
            parameters |= {"gpus_per_node": len(own), "visible_gpus": own}
        executor.update_parameters(**parameters)
        with _interrupts_held():
            return executor.submit(job)

    def ended(self, handle: Any) -> bool:
        """Whether the process is gone, whatever came of it."""
        return bool(handle.done())

    def stop(self, handle: Any) -> None:
        """Ask the run to checkpoint and leave: submitit's controller passes SIGTERM on."""
        if handle._process.poll() is None:
            handle._process.send_signal(signal.SIGTERM)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Children inherit a blocked SIGINT, so that Ctrl-C reaches only the process that decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
