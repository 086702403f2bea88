"""Jobs of submitit's local executor in forked processes, which start without importing torch."""

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from submitit import LocalExecutor
from submitit.local.local import LocalJob, start_controller

from isosweep.devices import CUDA
from isosweep.machine import process_start

Environment = dict[str, str]


@dataclass(frozen=True)
class ForkedProcess:
    """A process that is no child of this one; what submitit needs of a `subprocess.Popen`."""

    pid: int
    start: int | None

    def poll(self) -> int | None:
        """None while it is alive, then 0, however it has ended: a run's files say what came of it.

        It may outlive the server, so that nobody can collect its exit status.
        """
        alive = self.start is not None and process_start(self.pid) == self.start
        return None if alive else 0

    def send_signal(self, number: int) -> None:
        """Send the signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def start_server(descriptor: int, environment: Environment) -> "subprocess.Popen[bytes]":
    """A fresh interpreter that serves the other end of the socket pair of `descriptor`."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "isosweep.launchers.fork_server", str(descriptor)],
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
    )


class ForkServer:
    """A process with the training stack imported (`isosweep.launchers.fork_server`).

    It ends with this process, or when `close` is called; what it has forked goes on.
    """

    def __init__(self, environment: Environment) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs, interrupts_held():
            process = start_server(theirs.fileno(), environment)
        self.pid = process.pid
        self._answers = self._socket.makefile("rb")
        self.close = weakref.finalize(self, _end, process, self._answers, self._socket)

    def fork(self, folder: Path, environment: Environment) -> ForkedProcess:
        """Start a process for the job in `folder`; waits until the stack is imported.

        Raises ConnectionError if the server has died. A job that is then never submitted there
        is not executed: its process waits for it no longer than the server lives.
        """
        request = {"folder": str(folder), "environment": environment}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answers.readline()
        except BaseException:
            # An answer that comes later would be taken for that to another request.
            self.close()
            raise
        if not answer:
            raise ConnectionResetError("the process that forks runs has ended")
        return ForkedProcess(**json.loads(answer))


def _end(
    process: "subprocess.Popen[bytes]", answers: BufferedReader, connection: socket.socket
) -> None:
    answers.close()
    connection.close()
    process.kill()
    process.wait()


class ForkExecutor(LocalExecutor):
    """Submits as submitit's local executor does; `fork` starts the process, if it can.

    `shown`: the variables that say which GPUs it sees; submitit knows GPUs by number only.
    """

    def __init__(
        self,
        folder: Path,
        fork: Callable[[Path, Environment], ForkedProcess | None],
        shown: Environment,
    ) -> None:
        super().__init__(folder)
        self._fork, self._shown = fork, shown

    def _submit_command(self, command: str) -> Any:
        environment = {
            **os.environ,
            **self._shown,
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_NTASKS": "1",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_LOCALID": "0",
            "SUBMITIT_LOCAL_GLOBALID": "0",
        }
        # Of a Popen, what submitit uses.
        process: Any = self._fork(Path(self.folder), environment)
        if process is None:
            with interrupts_held(), _environment(self._shown):
                process = start_controller(
                    Path(self.folder),
                    command,
                    cuda_devices=self._shown[CUDA],
                    timeout_min=self.parameters["timeout_min"],
                )
        return LocalJob(folder=self.folder, job_id=str(process.pid), tasks=[0], process=process)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Children inherit a blocked SIGINT, so that Ctrl-C reaches only the process that decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(variables: Environment) -> Iterator[None]:
    """Processes that are started meanwhile inherit these variables as well."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
