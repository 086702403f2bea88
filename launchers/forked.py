"""Workers of this machine: forked from a process that has the training stack, or each anew."""

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from isosweep.files import open_to_append
from isosweep.store.attempts import Process

Environment = dict[str, str]

# The training stack is imported in 4 to 20 s; from a cold network disk in a minute or two.
IMPORT_S = 300.0
# A fork takes milliseconds; with much memory to copy tables of, a second.
ANSWER_S = 20.0


def start_worker(attempt: Path, logs: Path, environment: Environment) -> Process:
    """Start a fresh interpreter for the attempt. Raises OSError."""
    # -P: others may have put modules into the working directory.
    words = [sys.executable, "-u", "-P", "-m", "isosweep.training", str(attempt)]
    streams = [open_to_append(logs / name) for name in ("worker.out", "worker.err")]
    actions = [(os.POSIX_SPAWN_DUP2, log, stream) for stream, log in enumerate(streams, 1)]
    try:
        pid = os.posix_spawn(
            sys.executable,
            words,
            environment,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *actions],
            setsid=True,
            setsigmask=[signal.SIGINT],
        )
    finally:
        for log in streams:
            os.close(log)
    return Process.of(pid)


def start_server(descriptor: int, environment: Environment) -> "subprocess.Popen[bytes]":
    """A fresh interpreter that serves the other end of the socket pair of `descriptor`."""
    return subprocess.Popen(
        [sys.executable, "-u", "-P", "-m", "isosweep.launchers.fork_server", str(descriptor)],
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )


class ForkServer:
    """A process that forks runs (`isosweep.launchers.fork_server`).

    It ends with this process, or when `close` is called; what it has forked goes on.
    """

    def __init__(self, environment: Environment) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs, _interrupts_held():
            process = start_server(theirs.fileno(), environment)
        self.pid = process.pid
        self._socket.settimeout(IMPORT_S)
        self._answers = self._socket.makefile("rb")
        self.close = weakref.finalize(self, _end, process, self._answers, self._socket)

    def fork(self, attempt: Path, logs: Path, environment: Environment) -> Process:
        """Start a process for the attempt; waits until the stack is imported.

        Raises ConnectionError if the server has died, TimeoutError if it does not answer.
        """
        request = {"attempt": str(attempt), "logs": str(logs), "environment": environment}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answers.readline()
        except BaseException:
            # An answer that comes later would be taken for that to another request.
            self.close()
            raise
        if not answer:
            raise ConnectionResetError("the process that forks runs has ended")
        self._socket.settimeout(ANSWER_S)
        return Process(host=socket.gethostname(), **json.loads(answer))


def _end(
    process: "subprocess.Popen[bytes]", answers: BufferedReader, connection: socket.socket
) -> None:
    answers.close()
    connection.close()
    process.kill()
    process.wait()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Children inherit a blocked SIGINT, so that Ctrl-C reaches only the process that decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
