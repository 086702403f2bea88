"""Verification in processes beside: the same scores, in order, whatever becomes of a process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from isosweep.machine import process_alive
from isosweep.tasks import Problem, checking
from isosweep.tasks.checking import close_checkers
from tests.conftest import make_config
from tests.tasks.scoring import scores, scores_later

TASK = make_config("task=math").task
PROBLEMS = [Problem(problem_id=str(i), prompt="?", answer=str(i)) for i in range(96)]
COMPLETIONS = [f"\\boxed{{{i if i % 3 else i + 1}}}" for i in range(96)]
RIGHT = [float(i % 3 > 0) for i in range(96)]


def children() -> list[int]:
    found = [checker._process.pid for checker in checking._checkers if checker._process]
    return [pid for pid in found if process_alive(pid)]


def test_scores_in_the_background_are_those_in_the_foreground(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those of other tests' tasks.
    close_checkers()
    monkeypatch.setattr(checking, "available_cores", lambda: 1)
    serial = scores(TASK, PROBLEMS, COMPLETIONS)
    monkeypatch.setattr(checking, "available_cores", lambda: 3)
    batches = [scores_later(TASK, PROBLEMS[at:], COMPLETIONS[at:]) for at in (0, 7, 50)]
    assert [later() for later in batches] == [serial, serial[7:], serial[50:]]
    assert serial == RIGHT
    assert len(children()) == 3


def test_a_process_that_is_killed_costs_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "available_cores", lambda: 2)
    assert scores(TASK, PROBLEMS, COMPLETIONS) == RIGHT
    # Between two batches, and amid one.
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    many = scores_later(TASK, PROBLEMS * 8, COMPLETIONS * 8)
    while not children():
        time.sleep(0.01)
    os.kill(children()[0], signal.SIGKILL)
    assert many() == RIGHT * 8


def test_a_task_that_this_process_judges_waits_until_it_is_asked() -> None:
    task = make_config().task
    problem = Problem(problem_id="s", prompt="s21=", answer="12")
    before = threading.active_count()
    assert scores_later(task, [problem] * 2, ["12", "21"])() == [1.0, 0.0]
    assert threading.active_count() == before


def test_processes_end_with_a_worker_that_is_killed() -> None:
    code = (
        "import os, signal, sys\n"
        "from isosweep.tasks import checking\n"
        "good = {'judge': 'score_math', 'answer': '1', 'completion': '1'}\n"
        "checking.ask_all([good] * 2)\n"
        "assert 'torch' not in sys.modules\n"
        "print(checking._checkers[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while process_alive(int(ended.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
