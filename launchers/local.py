"""Runs as processes of this machine, through submitit's local executor."""

import os
import signal
from pathlib import Path
from typing import Any

from isosweep.devices import Devices, showing
from isosweep.launchers.forked import Environment, ForkedProcess, ForkExecutor, ForkServer

# submitit's local executor ends a job after its timeout; a run here ends by its budget.
_NO_TIMEOUT_MIN = 60 * 24 * 365


class LocalLauncher:
    """Starts each run as a process; `slot` numbers the run's place, and with it its GPUs.

    `devices` are shared out, `per_run` to a run, by the names they were inherited by; where they
    are all taken, places past the last share them. None: runs see no GPU. On Linux the processes
    are forked from one that has imported the training stack; elsewhere, and where that one dies
    again and again, each imports it for itself.
    """

    detaches = False

    def __init__(self, *, devices: Devices | None, per_run: int = 1) -> None:
        self._devices, self._per_run = devices, per_run
        self._warm = Path("/proc/self/stat").exists()
        self._server: ForkServer | None = None

    def submit(self, job: Any, logs: Path, name: str, slot: int) -> Any:
        """Start the job, on the GPUs of its slot; returns submitit's job."""
        own = () if self._devices is None else self._devices.share(slot, self._per_run)
        executor = ForkExecutor(logs, self._fork, showing(own))
        executor.update_parameters(timeout_min=_NO_TIMEOUT_MIN)
        return executor.submit(job)

    def ended(self, handle: Any) -> bool:
        """Whether the process is gone, whatever came of it."""
        return bool(handle.done())

    def stop(self, handle: Any) -> None:
        """Ask the run to checkpoint and leave; submitit's controller, if any, passes SIGTERM on."""
        if handle._process.poll() is None:
            handle._process.send_signal(signal.SIGTERM)

    def _fork(self, folder: Path, environment: Environment) -> ForkedProcess | None:
        """A process from the server, started again if it has died; None where there is none."""
        for _ in range(2 if self._warm else 0):
            if self._server is None:
                self._server = ForkServer(self._server_environment())
            try:
                return self._server.fork(folder, environment)
            except ConnectionError:
                self._server.close()
                self._server = None
        self._warm = False
        return None

    def _server_environment(self) -> Environment:
        # Asked whether there is a GPU, torch then reads NVML: CUDA itself would be unusable in
        # what is forked later.
        environment = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        if self._devices is None:
            # As a worker on a CPU: more threads than cores slow tiny models by an order of
            # magnitude, and none may run in a process that forks.
            environment = {"OMP_NUM_THREADS": "1", **environment, **showing(())}
        return environment
