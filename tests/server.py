"""The process that a command forks its runs from, itself forked where the stack is imported.

A command that `tests.commands` runs has threads by the time it trains, so that it cannot fork. A
helper forked before waits for it: it is given what `isosweep.launchers.forked.start_server` is
given, and forks a process that goes on as the true server does. What it ends with comes loudly:
a helper that is gone fails the command.
"""

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from json import dumps, loads
from typing import Any

from isosweep.launchers import fork_server, forked

_REQUEST_BYTES = 2**20


@dataclass(frozen=True)
class Server:
    """What `ForkServer` uses of a `subprocess.Popen`; the process is the helper's child."""

    pid: int

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        with suppress(ProcessLookupError):
            end = os.pidfd_open(self.pid)
            select.select([end], [], [])
            os.close(end)


def fork_helper() -> None:
    """Fork the helper of this process, and start servers through it from now on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
    if os.fork() == 0:
        ours.close()
        _leave_after(partial(_help, theirs))
    theirs.close()

    def start(descriptor: int, environment: forked.Environment) -> Any:
        socket.send_fds(ours, [dumps(environment).encode()], [descriptor])
        answer = ours.recv(64)
        if not answer:
            raise RuntimeError("the helper that forks servers has ended")
        return Server(int(answer))

    forked.start_server = start


def _help(requests: socket.socket) -> None:
    """Until the command ends: fork a server for each request."""
    # As under `interrupts_held`; a server that has ended leaves no zombie.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            _leave_after(partial(_serve, descriptors[0], loads(message)))
        os.close(descriptors[0])
        requests.send(str(pid).encode())


def _serve(descriptor: int, environment: forked.Environment) -> None:
    """What `python -u -m isosweep.launchers.fork_server` does."""
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    fork_server.main(descriptor)


def _leave_after(work: Callable[[], None]) -> None:
    """End this process after `work` as an interpreter ends, without what it was forked from."""
    status = 0
    try:
        work()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
