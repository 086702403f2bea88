"""The process from which programs are forked: a child costs milliseconds, an interpreter fifty.

It has an empty environment, and is asked over a socket, its stdin: a message is the seconds that
its processes may take, with two file descriptors for each (an order, and its output or a link). It
reads no order: that is for the child, so that nothing of one program is in the memory of another.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import NoReturn

from isosweep.sandbox.confinement import confine
from isosweep.sandbox.program import run

READY = b"ready"
# What programs can import: nothing can be read once they run.
_MODULES = """
__future__ _strptime abc argparse array ast atexit base64 bisect builtins calendar cmath
collections.abc colorsys concurrent.futures.thread contextlib copy csv ctypes dataclasses datetime
decimal difflib encodings.ascii encodings.idna encodings.latin_1 enum fractions functools gc glob
graphlib hashlib heapq hmac inspect io itertools json keyword linecache locale logging math mmap
numbers operator os pathlib pickle pprint queue random re reprlib resource sched secrets select
shutil signal socket statistics string stringprep struct subprocess symtable sys tempfile textwrap
threading time timeit traceback types typing unicodedata uuid warnings weakref zlib
"""


def main() -> None:
    """Fork and end programs until the socket closes."""
    for name in _MODULES.split():
        # Some builds of Python lack some.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Where memory runs out, the kernel ends a program and not the training.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    # Not to be copied in every child, page by page.
    gc.freeze()
    server, control = os.getpid(), socket.socket(fileno=0)
    if (pid := os.fork()) == 0:
        _try_confinement(server)
    os.waitpid(pid, 0)
    while True:
        request, files, _, _ = socket.recv_fds(control, 64, 4)
        if not request:
            return
        deadline = time.monotonic() + float(request)
        children = []
        for order, output in zip(files[::2], files[1::2], strict=True):
            if (pid := os.fork()) == 0:
                run(server, order, output)
            children.append(pid)
        for file in files:
            os.close(file)
        *others, last = children
        code = _exit_code(last, deadline)
        for pid in others:
            _exit_code(pid, 0)
        control.send(str(code).encode())


def _try_confinement(server: int) -> NoReturn:
    """Send READY, or why a child of the server, which this is, cannot be confined."""
    try:
        confine(server, memory_bytes=1 << 30, cpu_s=1, output_bytes=0)
        os.write(0, READY)
    except OSError as error:
        os.write(0, str(error).encode())
    os._exit(0)


def _exit_code(pid: int, deadline: float) -> int:
    """Return the exit code of a child, which is killed at the deadline."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 1e-6))
    # As long as it is not reaped, the number is that of no other process.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
