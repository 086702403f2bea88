"""The process from which programs are forked: a child costs milliseconds, an interpreter fifty.

It has an empty environment, and is asked over a socket, its stdin: a message is the seconds that
its processes may take, with two file descriptors for each (an order, and its output or a link). It
reads no order: that is for the child, so that nothing of one program is in the memory of another.

An order is JSON with a `role`: a `script` has an input and an output; of a `library` functions are
called over a link, by `tests` at its other end.
"""

import atexit
import builtins
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import types
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from isosweep.sandbox.calls import PASSED, run_tests, serve
from isosweep.sandbox.confinement import confine

# Where the link to the other process is, of tests and of what they call.
_LINK = 3
_MOST_FILES = 1024
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
    while True:
        request, files, _, _ = socket.recv_fds(control, 64, 4)
        if not request:
            return
        deadline = time.monotonic() + float(request)
        children = []
        for order, output in zip(files[::2], files[1::2], strict=True):
            if (pid := os.fork()) == 0:
                _run(server, order, output)
            children.append(pid)
        for file in files:
            os.close(file)
        *others, last = children
        code = _end(last, deadline)
        for pid in others:
            _end(pid, 0)
        control.send(str(code).encode())


def _end(pid: int, deadline: float) -> int:
    """Return the exit code of a child, which is killed at the deadline."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    # Again and again: a signal that comes just before the wait begins does not interrupt it.
    signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 1e-6), 0.05)
    # As long as it is not reaped, the number is that of no other process.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(server: int, order_file: int, file: int) -> NoReturn:
    """Do what the order says in this process, a child of `server`, which ends with it.

    `file` is the output of a script, the link of the others.
    """
    with open(order_file, "rb") as content:
        order = json.load(content)
    # The server's stdout leads nowhere, and so do a program's stderr and what a library prints.
    os.dup2(1, 2)
    os.dup2(_input(order.get("input", "")), 0)
    linked = order["role"] != "script"
    os.dup2(file, _LINK if linked else 1)
    os.closerange(_LINK + linked, _MOST_FILES)
    _fresh_interpreter()
    try:
        confine(server, **order["limits"])
    except OSError:
        # The server that takes its place is tried before it is used.
        if os.getppid() == server:
            os.kill(server, signal.SIGKILL)
        os._exit(1)
    code = _play(order["role"], order["source"])
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.__stdout__)):
            stream.flush()
    except BaseException:
        code = 1
    os._exit(code)


def _input(text: str) -> int:
    """A file in memory that holds the input: nobody has to feed a program that reads slowly."""
    number = os.memfd_create("input")
    with open(number, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "replace"))
    return os.open(f"/proc/self/fd/{number}", os.O_RDONLY)


def _fresh_interpreter() -> None:
    """What a program finds as if the interpreter had been started for it."""
    atexit._clear()
    # Of `site`, which is left out.
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    sys.argv = ["program.py"]
    sys.path.clear()
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115
    # There are no threads. The common use of one, for a deeper stack, does as well without.
    threading.Thread.start = threading.Thread.run  # type: ignore[method-assign]
    threading.Thread.join = lambda self, timeout=None: None  # type: ignore[method-assign]


def _play(role: str, source: str) -> int:
    """Return 0 where a script or a library came to its end, PASSED where tests did."""
    try:
        match role:
            case "script":
                _execute(source, "__main__")
            case "library":
                serve(_execute(source, "program"), Connection(_LINK))
            case _:
                run_tests(source, Connection(_LINK))
                return PASSED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        return 1
    return 0


def _execute(source: str, name: str) -> dict[str, Any]:
    """Run a program as the module `name`; its names."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, "program.py", "exec"), vars(module))
    return vars(module)
