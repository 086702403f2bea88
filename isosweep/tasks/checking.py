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
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from isosweep.machine import available_cores
from isosweep.tasks.problem import Judged

# One answer may take this long; a verifier that is slower gives a score of 0.
ANSWER_LIMIT_S = 20.0
# Starting includes the import of sympy or reasoning_gym.
_START_LIMIT_S = 120.0
# Fewer requests than this are not worth a process of their own: some 40 ms of math-verify.
_SHARE = 32
# A child that dies is asked once more, in a new process: it may have been killed from outside.
_TRIES = 2

_JUDGES = Path(__file__).with_name("judges.py")

T = TypeVar("T")


class CheckerError(Exception):
    """The child process failed for a reason that is not the completion it was given."""


class _Checker:
    """One child process; it is started again after it had to be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The child's answer; None if it took longer than `limit_s`, or died of the request."""
        line = json.dumps(request).encode() + b"\n"
        for _ in range(_TRIES):
            process = self._process or self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(line)
                process.stdin.flush()
                return self._read(limit_s)
            except TimeoutError:
                self.close()
                return None
            except (BrokenPipeError, EOFError):
                self.close()
        return None

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
        for _ in range(_TRIES):
            self._buffer = b""
            self._process = subprocess.Popen(
                # -P: the modules beside judges.py must not hide those of the standard library.
                [sys.executable, "-P", str(_JUDGES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **threads, "PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
            try:
                self._read(_START_LIMIT_S)
                return self._process
            except TimeoutError:
                self.close()
                break
            except EOFError:
                # It may have been killed while it started.
                self.close()
        raise CheckerError(f"{sys.executable} {_JUDGES} does not start; see its message above")

    def _read(self, limit_s: float) -> dict[str, Any]:
        """The child's next line. Raises TimeoutError where none comes, EOFError where it died."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise TimeoutError
                content = os.read(self._process.stdout.fileno(), 1 << 16)
                if not content:
                    raise EOFError
                self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "fatal" in answer:
            raise CheckerError(answer["fatal"])
        return answer


_checkers: list[_Checker] = []
# One batch of requests at a time has the children.
_asking = threading.Lock()


@atexit.register
def close_checkers() -> None:
    """End all child processes; the next request starts them again."""
    while _checkers:
        _checkers.pop().close()


def ask_all(
    requests: Sequence[dict[str, Any]], limit_s: float = ANSWER_LIMIT_S, share: int = _SHARE
) -> list[dict[str, Any] | None]:
    """The answer to each request, in order; None where it took more than `limit_s` seconds.

    A process is used for every `share` of them, up to one a core. Raises CheckerError where the
    child processes cannot run.
    """
    answers: list[dict[str, Any] | None] = [None] * len(requests)
    # Each child takes the next request when it is done with one.
    waiting = iter(range(len(requests)))

    def serve(checker: _Checker) -> None:
        for index in waiting:
            answers[index] = checker.ask(requests[index], limit_s)

    with _asking:
        number = max(1, min(_most_processes(), len(requests) // share))
        while len(_checkers) < number:
            _checkers.append(_Checker())
        with ThreadPoolExecutor(number) as pool:
            list(pool.map(serve, _checkers[:number]))
    return answers


def judged(answer: dict[str, Any] | None) -> Judged:
    """A checker's answer on a completion; without one, which took too long, a score of 0."""
    return Judged(0.0) if answer is None else Judged(answer["score"], answer.get("answer"))


def in_background(work: Callable[[], T]) -> "Future[T]":
    """`work`, begun in a thread of its own: one that asks checkers waits, and takes no time."""
    return _background().submit(work)


@cache
def _background() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="verification")


def _most_processes() -> int:
    """The cores of this process: those of a run are shared by its processes on this node."""
    return max(1, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
