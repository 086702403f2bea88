"""Checks by other packages, in processes that may be killed: none hangs or crashes training.

Each process has a pipe and a session of its own (Ctrl-C and a scheduler's signals are not for it)
and a fixed hash seed, since some generators of reasoning_gym iterate over sets.
"""

import atexit
import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from isosweep.machine import available_cores
from isosweep.tasks.problem import Judged

# One answer may take this long; a verifier that is slower gives a score of 0.
ANSWER_LIMIT_S = 20.0
# Characters of an answer: what is longer is told apart by its beginning.
LONGEST_ANSWER = 500
# Python and isosweep's tasks are imported meanwhile.
_START_LIMIT_S = 120.0
# Fewer calls than this are not worth a process of their own: some 40 ms of math-verify.
_SHARE = 32
# A call whose process dies is made once more, in a new one: it may have been killed from outside.
_TRIES = 2
# Memory of one process: a verifier led to a number of gigabytes fails alone.
_MEMORY_BYTES = 8 << 30
# CPU time of one call after which the kernel ends its process, were nobody left to kill it.
_ORPHAN_LIMIT_S = 600
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_ROOT = str(Path(__file__).parents[2])
# isosweep comes last on the path: what lies beside it must not hide other modules.
_START = "import sys; sys.path.append({!r}); from isosweep.tasks.checking import serve; serve({})"

T = TypeVar("T")


class CheckerError(Exception):
    """A check cannot be made on this machine, whatever it is given."""


def begin(
    check: Callable[..., T],
    calls: Sequence[tuple[Any, ...]],
    limit_s: float = ANSWER_LIMIT_S,
    share: int = _SHARE,
) -> Callable[[], list[T | None]]:
    """Begin `check(*call)` for each of `calls`; what is returned waits for the results, in order.

    A result is None where the check raised, took more than `limit_s` seconds, or ended its process.
    `share` calls at a time are given to a process, of which there is up to one a core. Raises
    CheckerError where processes cannot run, or the check raises it or cannot import something.
    """
    threads, checkers = _threads(os.getpid()), _idle(os.getpid())

    def results(start: int) -> list[T | None]:
        try:
            checker = checkers.pop()
        except IndexError:
            checker = _Checker()
        try:
            return [checker.result(check, call, limit_s) for call in calls[start : start + share]]
        finally:
            checkers.append(checker)

    begun = [threads.submit(results, start) for start in range(0, len(calls), share)]

    def wait() -> list[T | None]:
        try:
            return [result for each in begun for result in each.result()]
        finally:
            # Where one cannot be made at all, a process that leaves would wait for the others.
            for each in begun:
                each.cancel()

    return wait


def begin_judging(
    check: Callable[..., tuple[float, str | None]],
    calls: Sequence[tuple[Any, ...]],
    limit_s: float = ANSWER_LIMIT_S,
    share: int = _SHARE,
) -> Callable[[], list[Judged]]:
    """`begin` a check of completions: their scores and answers; a score of 0 without a result."""
    results = begin(check, calls, limit_s, share)
    return lambda: [Judged(0.0) if each is None else Judged(*each) for each in results()]


# A process that was forked has neither thread nor processes of the one that it was forked from.
@cache
def _threads(_: int) -> ThreadPoolExecutor:
    """One thread a core of this process: those of a run are shared by its processes on a node."""
    cores = available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return ThreadPoolExecutor(max(1, cores), thread_name_prefix="verification")


@cache
def _idle(_: int) -> "list[_Checker]":
    return []


@atexit.register
def close_checkers() -> None:
    """End all processes that check for this one; the next call starts them again."""
    checkers = _idle(os.getpid())
    while checkers:
        checkers.pop().close()


class _Checker:
    """One process; it is started again after it had to be killed."""

    def __init__(self) -> None:
        self._begun: tuple[subprocess.Popen[bytes], Connection] | None = None

    def result(self, check: Callable[..., T], call: tuple[Any, ...], limit_s: float) -> T | None:
        """What the check returns; None if it raised, was too slow, or ended its process."""
        for _ in range(_TRIES):
            try:
                connection = self._begun[1] if self._begun else self._start()
                connection.send((check, call))
                if not connection.poll(limit_s):
                    break
                given, fault = connection.recv()
                if fault is not None:
                    raise CheckerError(fault)
                result: T = given
                return result
            except (EOFError, ConnectionError):
                self.close()
        self.close()
        return None

    def _start(self) -> Connection:
        for _ in range(_TRIES):
            connection, theirs = multiprocessing.Pipe()
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START.format(_ROOT, theirs.fileno())],
                    # What a verifier prints is no output of the command.
                    stdout=2,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **_ENVIRONMENT},
                    start_new_session=True,
                )
            self._begun = process, connection
            with suppress(EOFError, ConnectionError):
                if connection.poll(_START_LIMIT_S):
                    connection.recv()
                    return connection
            self.close()
        raise CheckerError("processes that check answers do not start; see their messages above")

    def close(self) -> None:
        if self._begun is not None:
            process, connection = self._begun
            self._begun = None
            process.kill()
            process.wait()
            connection.close()


def serve(fd: int) -> None:
    """Make calls that come through a pipe, and answer with their results."""
    # math-verify logs every timeout, with the completion.
    logging.disable(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    connection = Connection(fd)
    connection.send(None)
    with suppress(EOFError):
        while True:
            check, call = connection.recv()
            signal.setitimer(signal.ITIMER_PROF, _ORPHAN_LIMIT_S)
            given, fault = None, None
            try:
                given = check(*call)
            except (CheckerError, ImportError) as error:
                fault = str(error)
            except Exception:
                given = None
            connection.send((given, fault))
