"""The process that local runs are forked from: it has imported the training stack once for all.

    python -m isosweep.launchers.fork_server DESCRIPTOR

`isosweep.launchers.forked` starts it with one end of a socket pair. A request is a line of JSON:
`folder`, where submitit keeps the job's files, and the `environment` of the run. The answer is the
`pid` and `start` of the process that executes it, by submitit's own code. The server ends when the
other end of the socket is closed; the forked processes go on.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from submitit.core.submission import process_job
from submitit.core.utils import JobPaths

from isosweep.machine import process_start
from isosweep.training.worker import lean_imports

_POLL_S = 0.01


def main(descriptor: int) -> None:
    """Fork a process for each request on the socket `descriptor`, until it is closed."""
    warm = True
    try:
        import_stack()
    except Exception:
        # Every run meets the same error in a process of its own, and in its own log.
        warm = False
        traceback.print_exc()
    # What is there now is never collected: its pages stay shared by all that are forked.
    gc.collect()
    gc.freeze()
    # Forked processes that have ended leave no zombies.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = os.getpid()
    request = None
    with suppress(ConnectionError):
        request = _serve(socket.socket(fileno=descriptor))
    if request is not None:
        _execute(Path(request["folder"]), request["environment"], server, warm=warm)


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


def _execute(folder: Path, environment: dict[str, str], server: int, *, warm: bool) -> None:
    """Do what submitit's local controller and `python -m submitit.core._submit` do for a job."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job_id = str(os.getpid())
    os.environ.clear()
    os.environ.update(environment | {"SUBMITIT_LOCAL_JOB_ID": job_id})
    paths = JobPaths(folder, job_id=job_id, task_id=0)
    for path, stream in ((paths.stdout, 1), (paths.stderr, 2)):
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, stream)
        os.close(log)
    # Whoever asked for this process names the job after it, and then puts the job there.
    while not paths.submitted_pickle.exists():
        if os.getppid() != server:
            sys.exit("the server ended before the job was submitted")
        time.sleep(_POLL_S)
    sys.argv = ["submitit.core._submit", str(folder)]
    if not warm or _gpu_is_lost():
        os.execv(sys.executable, [sys.executable, "-u", "-m", *sys.argv])
    process_job(folder)


def _gpu_is_lost() -> bool:
    """Whether an import has initialised CUDA before the fork, after which it cannot be used."""
    import torch

    return bool(torch.cuda._is_in_bad_fork())


if __name__ == "__main__":
    main(int(sys.argv[1]))
