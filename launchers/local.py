"""Runs as processes of this machine, each in a session of its own."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from isosweep.devices import Devices, showing
from isosweep.launchers.forked import Environment, ForkServer, start_worker
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused, observe_process
from isosweep.machine import process_owner
from isosweep.store.attempts import Attempt, LauncherName, Process

# Of variables by which a process knows that it is a Slurm job only this one is passed on: a run of
# this machine is no job, though it may be started inside somebody's allocation.
_SLURM, _OF_THE_CLUSTER = "SLURM", "SLURM_CONF"


class LocalLauncher(Launcher):
    """Starts each run as a process; its place numbers its GPUs.

    `devices` are shared out, `per_run` to a run, by the names they were inherited by; where they
    are all taken, places past the last share them. None: runs see no GPU. The processes are forked
    from one that has imported the training stack; where that cannot be forked (macOS), or has died,
    each imports it for itself.
    """

    name: LauncherName = "local"
    detaches = False
    places = True
    # The process table costs nothing to look at.
    poll_s = 0.25

    def __init__(self, *, devices: Devices | None, per_run: int = 1) -> None:
        self._devices, self._per_run = devices, per_run
        self._server: ForkServer | None = None
        self._warm = Path("/proc/self/stat").exists()
        self._started: dict[Path, Process] = {}

    def devices(self, place: int) -> tuple[str, ...]:
        """The GPUs of a place, by name."""
        return () if self._devices is None else self._devices.share(place, self._per_run)

    def submit(self, orders: Sequence[Order]) -> list[Refused | None]:
        """Start the processes, on the GPUs of their places."""
        return [self._start(order) for order in orders]

    def observe(self, attempts: Sequence[Attempt]) -> list[Observed]:
        """Whether their processes are there."""
        this = Process.this()
        return [
            Observed(status="gone")
            if attempt.by == this and self._process_of(attempt) is None
            else observe_process(replace(attempt, worker=self._process_of(attempt)))
            for attempt in attempts
        ]

    def _process_of(self, attempt: Attempt) -> Process | None:
        return attempt.worker or self._started.get(attempt.path)

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """SIGTERM to the processes, which then write a checkpoint; `kill`: SIGKILL to those, and to
        all that they started. A process of another user than he who named it is left alone."""
        problems = []
        for attempt in attempts:
            process = self._process_of(attempt)
            if process is None or process.alive() is not True:
                continue
            own = attempt.path in self._started
            if not own and not _named_by_its_user(attempt, process.pid):
                problems.append(f"{attempt.path} names a process of somebody else, {process.pid}")
                continue
            with suppress(ProcessLookupError):
                if kill and os.getpgid(process.pid) == process.pid:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    os.kill(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        return "; ".join(problems) or None

    def close(self) -> None:
        """End the process that runs are forked from; runs go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start(self, order: Order) -> Refused | None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_SLURM) or name == _OF_THE_CLUSTER
        }
        environment |= showing(order.attempt.devices)
        path = order.attempt.path
        try:
            self._started[path] = self._process(path, order.logs, environment)
        except OSError as error:
            # No memory or no process id left, as a rule: other runs may end.
            return Refused(reason=str(error), passing=error.filename != sys.executable)
        return None

    def _process(self, attempt: Path, logs: Path, environment: Environment) -> Process:
        """A process from the server; once that has died, one that imports the stack for itself:
        what killed it may be in that, and is then in the run's own log."""
        if self._warm:
            try:
                if self._server is None:
                    self._server = ForkServer(self._server_environment())
                return self._server.fork(attempt, logs, environment)
            except (ConnectionError, TimeoutError):
                self.close()
                self._warm = False
        return start_worker(attempt, logs, environment)

    def _server_environment(self) -> Environment:
        # Asked whether there is a GPU, torch then reads NVML: CUDA itself would be unusable in
        # what is forked later.
        environment = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        if self._devices is None:
            # As a worker on a CPU: more threads than cores slow tiny models by an order of
            # magnitude, and none may run in a process that forks.
            environment = {"OMP_NUM_THREADS": "1", **environment, **showing(())}
        return environment


def _named_by_its_user(attempt: Attempt, pid: int) -> bool:
    """Whether the file that says which process works on the attempt is that process's user's:
    others could name any of this user's. Not, where the file cannot be seen."""
    owner = process_owner(pid)
    with suppress(OSError):
        return attempt.path.lstat().st_uid == (os.geteuid() if owner is None else owner)
    return False
