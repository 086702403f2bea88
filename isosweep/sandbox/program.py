"""What a child of the server does: read its order, give up its rights, run what it was given.

An order is JSON with a `role`: a `script` has an input and an output; of a `library` functions are
called over a link, by `tests` at its other end.
"""

import atexit
import builtins
import contextlib
import json
import os
import signal
import sys
import threading
import types
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from isosweep.sandbox.calls import run_tests, serve
from isosweep.sandbox.confinement import confine

# The exit code of tests that are passed: with 0 they may exit by themselves.
PASSED = 99
# Where the link to the other process is.
_LINK = 3
_MOST_FILES = 1024


def run(server: int, order_file: int, file: int) -> NoReturn:
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
        # The server that takes its place says why, if it goes on.
        if os.getppid() == server:
            os.kill(server, signal.SIGKILL)
        os._exit(1)
    code = _exit_code(order["role"], order["source"])
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


def _exit_code(role: str, source: str) -> int:
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
