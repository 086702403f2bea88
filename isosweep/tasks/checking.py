"""Verifiers of other packages, in processes that may be killed: none hangs or crashes training.

A checker is a child process that reads requests and writes answers, one JSON line each. It has a
session of its own (Ctrl-C and a scheduler's signals are not for it) and a fixed hash seed, since
some generators of reasoning_gym iterate over sets. What it runs is in `judges.py`.
"""

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# One answer may take this long; a verifier that is slower gives a score of 0.
ANSWER_LIMIT_S = 20.0
# Starting includes the import of sympy or reasoning_gym.
_START_LIMIT_S = 120.0
_MOST_PROCESSES = 8
# Fewer requests than this are not worth a process of their own.
_SHARE = 32

_JUDGES = Path(__file__).with_name("judges.py")


class CheckerError(Exception):
    """The child process failed for a reason that is not the completion it was given."""


class _Checker:
    """One child process; it is started again after it had to be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The child's answer; None if it took longer than `limit_s` or died of the request."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.close()
            return None
        return self._read(limit_s)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._buffer = b""
        self._process = subprocess.Popen(
            # -P: the modules beside judges.py must not hide those of the standard library.
            [sys.executable, "-P", str(_JUDGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **threads, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        if self._read(_START_LIMIT_S) is None:
            raise CheckerError(f"{sys.executable} {_JUDGES} does not start; see its message above")
        return self._process

    def _read(self, limit_s: float) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                ready = left > 0 and selector.select(left)
                content = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
                if not content:
                    self.close()
                    return None
                self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "fatal" in answer:
            raise CheckerError(answer["fatal"])
        return answer


_checkers: list[_Checker] = []


@atexit.register
def close_checkers() -> None:
    """End all child processes; the next request starts them again."""
    while _checkers:
        _checkers.pop().close()


def ask_all(
    requests: Sequence[dict[str, Any]], limit_s: float = ANSWER_LIMIT_S
) -> list[dict[str, Any] | None]:
    """The answer to each request, in order; None where it took more than `limit_s` seconds.

    Raises CheckerError where the child processes cannot run.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    number = max(1, min(_MOST_PROCESSES, cores, len(requests) // _SHARE))
    while len(_checkers) < number:
        _checkers.append(_Checker())

    def serve(place: int) -> list[dict[str, Any] | None]:
        return [_checkers[place].ask(request, limit_s) for request in requests[place::number]]

    answers: list[dict[str, Any] | None] = [None] * len(requests)
    with ThreadPoolExecutor(number) as pool:
        for place, served in enumerate(pool.map(serve, range(number))):
            answers[place::number] = served
    return answers
