"""The one who knows the answers: runs a program on its tests, in processes of the sandbox's."""

import json
import math
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from isosweep.sandbox.calls import PASSED

_SERVER = "import sys; sys.path.append({!r}); from isosweep.sandbox import server; server.main()"
_START_LIMIT_S = 60.0
# Bytes that a program may write besides as many as are expected of it.
_SPARE_OUTPUT = 1 << 20
# Tests know all answers and hold what a program returns.
_TESTS_MEMORY_BYTES = 2 << 30


class SandboxError(Exception):
    """Programs cannot be confined on this machine."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one program may take: seconds for all of its tests, and memory of each process."""

    seconds: float
    memory_bytes: int


_TRIAL = Limits(seconds=_START_LIMIT_S, memory_bytes=1 << 30)


class Sandbox:
    """A server of programs; it ends with this process. Raises SandboxError."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start = _SERVER.format(str(Path(__file__).parents[2]))
        with theirs:
            self.server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", start],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": "0"},
            )
        try:
            begun = self.passes("", {"pairs": [["", ""]]}, _TRIAL)
        except OSError:
            begun = False
        if not begun:
            self.close()
            raise SandboxError("the kernel takes no seccomp filter, or the message above says why")

    def close(self) -> None:
        """End the server and what it runs."""
        self._control.close()
        self.server.wait()

    def passes(self, program: str, tests: dict[str, Any], limits: Limits) -> bool:
        """Whether the program passes all tests. Raises ConnectionError where the sandbox ends."""
        deadline = time.monotonic() + limits.seconds
        if "asserts" in tests:
            testing = replace(limits, memory_bytes=_TESTS_MEMORY_BYTES)
            callee, caller = socket.socketpair()
            with (
                _order("library", program, limits) as library,
                _order("tests", tests["asserts"], testing) as asserts,
            ):
                # Closed here, the link ends for the tests with the program.
                with callee, caller:
                    self._start(deadline, library, callee, asserts, caller)
                return self._exit_code() == PASSED
        return all(
            self._prints(program, given, wanted, limits, deadline)
            for given, wanted in tests["pairs"]
        )

    def _prints(
        self, program: str, given: str, wanted: str, limits: Limits, deadline: float
    ) -> bool:
        most = len(wanted.encode()) + _SPARE_OUTPUT
        order = _order("script", program, limits, input=given, output_bytes=most)
        with order, _memory_file() as output:
            self._start(deadline, order, output)
            if self._exit_code() != 0:
                return False
            output.seek(0)
            return _lines(output.read().decode("utf-8", "replace")) == _lines(wanted)

    def _start(self, deadline: float, *files: BinaryIO | socket.socket) -> None:
        """Start a process for each pair of an order and its output or link, side by side."""
        left = max(0.0, deadline - time.monotonic())
        self._control.settimeout(left + _START_LIMIT_S)
        numbers = [file.fileno() for file in files]
        socket.send_fds(self._control, [str(left).encode()], numbers)

    def _exit_code(self) -> int:
        """The exit code of the last process, which is killed at the deadline, the others with it.

        Raises ConnectionError where the sandbox ends.
        """
        code = self._control.recv(64)
        if not code:
            raise ConnectionError("the sandbox has ended")
        return int(code)


def _order(role: str, source: str, limits: Limits, output_bytes: int = 0, **more: str) -> BinaryIO:
    """What a process of the sandbox is to do (program.py), in memory."""
    confined = {
        "memory_bytes": limits.memory_bytes,
        "cpu_s": math.ceil(limits.seconds) + 1,
        "output_bytes": output_bytes,
    }
    return _memory_file({"role": role, "source": source, "limits": confined, **more})


def _memory_file(document: dict[str, Any] | None = None) -> BinaryIO:
    file = open(os.memfd_create("sandbox"), "w+b")  # noqa: PTH123, SIM115
    if document is not None:
        file.write(json.dumps(document).encode())
        file.seek(0)
    return file


def _lines(text: str) -> list[str]:
    """The lines, but for white space at their ends and after the last."""
    return [line.rstrip() for line in text.rstrip().split("\n")]
