"""Runs as processes of this machine, forked from one that has imported the training stack.

That process is the fork server of Python's multiprocessing. It ends with the driver, and a driver
whose server has died makes another; runs outlive both.
"""

import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from types import ModuleType

from isosweep.devices import Devices, showing
from isosweep.files import open_to_append
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.liveness import observe_process
from isosweep.machine import process_owner
from isosweep.store.attempts import Attempt, LauncherName, Process

Environment = dict[str, str]

# Of variables by which a process knows that it is a Slurm job only this one is passed on: a run of
# this machine is no job, though it may be started inside somebody's allocation.
_SLURM, _OF_THE_CLUSTER = "SLURM", "SLURM_CONF"


def _train(attempt: str) -> int:
    """What a process executes."""
    from isosweep.training.attempt import main

    return main([attempt])


class LocalLauncher(Launcher):
    """Starts each run as a process; its place numbers its GPUs.

    `devices` are shared out, `per_run` to a run, by the names they were inherited by; where they
    are all taken, places past the last share them. None: runs see no GPU.
    """

    name: LauncherName = "local"
    detaches = False
    places = True
    # The process table costs nothing to look at.
    poll_s = 0.25
    execute: Callable[[str], int] = staticmethod(_train)

    def __init__(self, *, devices: Devices | None, per_run: int = 1) -> None:
        self._devices, self._per_run = devices, per_run
        self._started: dict[Path, Process] = {}
        # macOS's frameworks survive no fork.
        self._forks = sys.platform == "linux"
        self._context = ForkServerContext() if self._forks else SpawnContext()
        self._context.set_forkserver_preload(["isosweep.launchers.preloaded"])

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
            Observed(status="ended")
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

    def _start(self, order: Order) -> Refused | None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_SLURM) or name == _OF_THE_CLUSTER
        }
        environment |= showing(order.attempt.devices)
        path = order.attempt.path
        process = self._context.Process(
            target=_work, args=(self.execute, str(path), str(order.logs), environment)
        )
        try:
            with _handed_on(self._server_variables()):
                process.start()
        except (OSError, EOFError) as error:
            # No memory or no process id left, as a rule, or the server has just died: the next try
            # makes another. One that dies each time says why on standard error.
            passing = isinstance(error, OSError)
            return Refused(reason=f"no process could be started ({error})", passing=passing)
        # At its exit multiprocessing would wait for those that it knows.
        multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
        assert process.pid is not None
        self._started[path] = Process.of(process.pid)
        return None

    def _server_variables(self) -> Environment:
        """What the process that forks has in its environment beside this process's."""
        variables = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
        if self._devices is None:
            # As a worker on a CPU: more threads than cores slow tiny models by an order of
            # magnitude, and none may run in a process that forks.
            variables["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
            variables |= showing(())
        return variables


@contextmanager
def _handed_on(variables: Environment) -> Iterator[None]:
    """What multiprocessing hands on to the processes that it starts: `variables`; SIGINT blocked,
    so that Ctrl-C reaches only the process that decides; no modules of the working directory, where
    others may have put some; and no script to be executed again, as a user's that has no guard."""
    own_path, main = sys.path, sys.modules["__main__"]
    own = {name: os.environ.get(name) for name in variables}
    # It would unblock SIGINT as it begins.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(variables)
    sys.path = sys.path[1:] if sys.path[0] in ("", str(Path.cwd())) else sys.path
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"], sys.path = main, own_path
        for name, value in own.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(execute: Callable[[str], int], attempt: str, logs: str, environment: Environment) -> None:
    """In the new process: execute the attempt, in a session of its own, with its own logs."""
    os.setsid()
    # By the pipes that it has of the server and the driver these would outlive the driver, and
    # hold its output open; its own tracker of resources comes when it needs one.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(environment)
    for name, stream in (("worker.out", 1), ("worker.err", 2)):
        log = open_to_append(Path(logs, name))
        os.dup2(log, stream)
        os.close(log)
    sys.argv = ["isosweep.training", attempt]
    try:
        sys.exit(execute(attempt))
    finally:
        # multiprocessing leaves these out.
        atexit._run_exitfuncs()


def _named_by_its_user(attempt: Attempt, pid: int) -> bool:
    """Whether the file that says which process works on the attempt is that process's user's:
    others could name any of this user's. Not, where the file cannot be seen."""
    owner = process_owner(pid)
    with suppress(OSError):
        return attempt.path.lstat().st_uid == (os.geteuid() if owner is None else owner)
    return False
