"""The process that local runs are forked from: it has imported the training stack once for all.

    python -m isosweep.launchers.fork_server DESCRIPTOR

`isosweep.launchers.forked` starts it with one end of a socket pair. A request is a line of JSON:
the `attempt` to be executed, the directory `logs` for its output, and the `environment`.
The answer is `pid` and `start` of the process that does what `python -m isosweep.training` does.
The server ends when the other end of the socket is closed, or the stack cannot be imported; the
forked processes go on.
"""

import gc
import json
import os
import signal
import socket
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from isosweep.files import open_to_append
from isosweep.machine import process_start
from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.worker import lean_imports


def main(descriptor: int) -> None:
    """Fork a process for each request on the socket `descriptor`, until it is closed."""
    forget_ranks_and_precision(os.environ)
    import_stack()
    # What is there now is never collected: its pages stay shared by all that are forked.
    gc.collect()
    gc.freeze()
    # Said since Python 3.12: the one other thread is of pyarrow's allocator, which survives a fork.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # Forked processes that have ended leave no zombies.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    request = None
    with suppress(ConnectionError):
        request = _serve(socket.socket(fileno=descriptor))
    if request is not None:
        _execute(request["attempt"], Path(request["logs"]), request["environment"])


def import_stack() -> None:
    """Import what every run needs; touches no GPU, which no fork would survive."""
    with lean_imports():
        import isosweep.training.assembly  # noqa: F401


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """In the server: None, once the other side is gone. In a forked process: its request."""
    with connection, connection.makefile("rb") as requests:
        for line in requests:
            pid = os.fork()
            if pid == 0:
                request: dict[str, Any] = json.loads(line)
                return request
            answer = {"pid": pid, "start": process_start(pid)}
            connection.sendall(json.dumps(answer).encode() + b"\n")
    return None


def _execute(attempt: str, logs: Path, environment: dict[str, str]) -> None:
    """Do what `python -m isosweep.training ATTEMPT` does, in a session of its own."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    for name, stream in (("worker.out", 1), ("worker.err", 2)):
        log = open_to_append(logs / name)
        os.dup2(log, stream)
        os.close(log)
    from isosweep.training.__main__ import main as train

    sys.argv = ["isosweep.training", attempt]
    sys.exit(train([attempt]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
