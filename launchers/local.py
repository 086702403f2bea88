"""Runs as processes of this machine, through submitit's local executor."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import LocalExecutor

# submitit's local executor ends a job after its timeout; a run here ends by its budget.
_NO_TIMEOUT_MIN = 60 * 24 * 365


class LocalLauncher:
    """Starts each run as a process; `slot` numbers the run's place, and with it its GPU."""

    detaches = False

    def __init__(self, *, gpus: int) -> None:
        self._gpus = gpus

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any:
        executor = LocalExecutor(logs)
        gpus = {"gpus_per_node": 1, "visible_gpus": (slot % self._gpus,)} if self._gpus else {}
        executor.update_parameters(timeout_min=_NO_TIMEOUT_MIN, **gpus)
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


def visible_gpus() -> int:
    """GPUs of this machine that runs may use; 0 without importing torch where there are none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
