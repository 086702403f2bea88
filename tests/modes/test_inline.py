"""`launcher=inline`: sweeps in this very process."""

import signal
import time
from pathlib import Path

import pytest

from isosweep.training.stopping import ECHO_S
from tests.commands import Command
from tests.conftest import SMALL, isosweep
from tests.modes.sweeps import (
    QUIET,
    assert_same_records,
    outcome,
    runs,
    wait_until_some_run_trains,
)
from tests.runs import wait_for

pytestmark = pytest.mark.train

SWEEP = ("budget=[6.4e9,1.28e10]", *SMALL, *QUIET)


def _start(*overrides: str, cwd: Path) -> Command:
    return Command(*overrides, cwd=cwd, output=cwd.parent / cwd.name)


# Rewards that take forever, once asked for.
ENDLESS = """
import pathlib, time
from isosweep.tasks import Problem

def problems():
    return [Problem(problem_id=str(i), prompt=f"{i}?", answer="1") for i in range(100)], wait

def wait(problems, completions):
    if completions != ["1"]:
        pathlib.Path("asked").touch()
        time.sleep(600)
    return [1.0] * len(completions)
"""


def test_a_second_ctrl_c_ends_an_inline_sweep_with_the_status_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    task = (
        *("task=custom", "task.custom.function=endless:problems", "task.custom.directory=."),
        *("task.num_train_problems=8", "task.num_eval_problems=8", "task.prompt_tokens=4"),
        *("task.completion_tokens=4", "task.max_completion_tokens=4", "grid.max_epochs=1e6"),
    )
    settings = (*SMALL, *QUIET, "budget=6.4e9", "grid.min_steps=1", "launcher=inline")
    ours = [each for each in settings if not each.startswith("task.")]
    driver = _start(*task, *ours, cwd=tmp_path)
    wait_for(lambda: (tmp_path / "asked").exists())
    driver.send_signal(signal.SIGINT)
    # One that comes at once may be the first one's echo.
    time.sleep(ECHO_S + 0.5)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=60) == 130, driver.written
    assert "ended amid a step by a second SIGINT" in driver.written
    assert outcome(runs(tmp_path)[0]) == "interrupted"


@pytest.mark.slow
def test_inline_runs_leave_the_same_records_and_ctrl_c_a_checkpoint(
    straight: Path, tmp_path: Path
) -> None:
    driver = _start(*SWEEP, "launcher=inline", cwd=tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=120) == 130, driver.written
    assert outcome(run) == "interrupted"
    wait_for(lambda: list(run.checkpoints.rglob("isosweep-files.json")))
    isosweep(*SWEEP, "launcher=inline", cwd=tmp_path)
    assert_same_records(tmp_path, straight)
    assert all(len(list(run.attempts.iterdir())) <= 2 for run in runs(tmp_path))
