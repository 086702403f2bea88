"""Checks in processes of their own: the same scores, in order, whatever becomes of a process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from isosweep.machine import process_alive
from isosweep.tasks import Problem, checking, judge_later
from isosweep.tasks.checking import CheckerError, begin, close_checkers
from tests.conftest import make_config
from tests.tasks.files import scores

TASK = make_config("task=math").task
PROBLEMS = [Problem(problem_id=str(i), prompt="?", answer=str(i)) for i in range(96)]
COMPLETIONS = [f"\\boxed{{{i if i % 3 else i + 1}}}" for i in range(96)]
RIGHT = [float(i % 3 > 0) for i in range(96)]


def children() -> list[int]:
    """The processes that check for this one."""
    listed = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    alive = [pid for pid in map(int, listed.split()) if process_alive(pid)]
    return [pid for pid in alive if b"tasks.checking" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes of other tests' tasks, and the threads for the cores of before.
    close_checkers()
    checking._threads.cache_clear()
    monkeypatch.setattr(checking, "available_cores", lambda: 3)


def test_batches_that_wait_together_keep_their_order_in_a_process_a_core(three_cores: None) -> None:
    batches = [judge_later(TASK, PROBLEMS[at:], COMPLETIONS[at:]) for at in (0, 7, 50)]
    assert [[judged.score for judged in later()] for later in batches] == [
        *(RIGHT, RIGHT[7:], RIGHT[50:])
    ]
    assert 1 <= len(children()) <= 3


def test_a_process_that_is_killed_costs_no_score(three_cores: None) -> None:
    assert scores(TASK, PROBLEMS, COMPLETIONS) == RIGHT
    # Between two batches, and amid one.
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    while children():
        time.sleep(0.01)
    many = judge_later(TASK, PROBLEMS * 8, COMPLETIONS * 8)
    while not children():
        time.sleep(0.01)
    os.kill(children()[0], signal.SIGKILL)
    assert [judged.score for judged in many()] == RIGHT * 8


def test_a_check_that_does_not_return_is_ended_and_the_next_is_made() -> None:
    assert begin(eval, [("6 * 7",)])() == [42]
    hanging, began = "__import__('time').sleep(600)", time.monotonic()
    assert begin(eval, [(hanging,), ("6 * 7",)], limit_s=4.0)() == [None, 42]
    assert time.monotonic() - began < 60


def test_what_a_check_raises_is_no_result_unless_no_check_can_be_made() -> None:
    assert begin(divmod, [(7, 2), (1, 0), (9, 4)])() == [(3, 1), None, (2, 1)]
    assert begin(exec, [("raise SystemExit(3)",)])() == [None]
    with pytest.raises(CheckerError, match="No module named 'nowhere'"):
        begin(__import__, [("nowhere",)])()


def _judge_as_a_child() -> None:
    assert scores(TASK, PROBLEMS, COMPLETIONS) == RIGHT
    assert begin(os.getenv, [("PYTHONHASHSEED",)])() == ["0"]
    close_checkers()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_of_a_process_that_judges_has_checks_of_its_own_and_ends() -> None:
    assert scores(TASK, PROBLEMS, COMPLETIONS) == RIGHT
    own = children()
    child: Any = multiprocessing.get_context("fork").Process(target=_judge_as_a_child)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert children() == own
    assert scores(TASK, PROBLEMS, COMPLETIONS) == RIGHT


def test_processes_end_with_a_worker_that_is_killed() -> None:
    code = (
        "import glob, os, signal, sys\n"
        "from isosweep.tasks.checking import begin\n"
        "from isosweep.tasks.mathematics import score\n"
        "assert begin(score, [('1', '1')])() == [(1.0, '1')]\n"
        "assert 'torch' not in sys.modules\n"
        "for path in glob.glob('/proc/self/task/*/children'):\n"
        "    print(open(path).read(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    deadline = time.monotonic() + 20
    while process_alive(int(ended.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
