"""A sweep that is killed, stopped or hindered ends with the records of one that was left alone."""

import getpass
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.contract.surface import (
    TINY,
    TWO_RUNS,
    completions_of,
    isosweep,
    records_of,
    runs_of,
    start,
    wait_for,
    wait_until_training,
)

# Each ends a sweep from outside and trains it again.
pytestmark = [pytest.mark.train, pytest.mark.slow]
# Workers write that they live every few seconds.
_HEARTBEATS_S = 10


def test_a_killed_worker_is_retried(straight: Path, tmp_path: Path) -> None:
    driver = start(tmp_path, *TWO_RUNS)
    run = wait_until_training(tmp_path)
    os.kill(run.state["pid"], signal.SIGKILL)
    assert driver.wait(timeout=300) == 0, driver.written
    assert records_of(tmp_path) == records_of(straight)
    assert run.attempts == 2


def test_sweeps_that_are_renamed_for_a_while_are_waited_for(straight: Path, tmp_path: Path) -> None:
    driver = start(tmp_path, *TWO_RUNS)
    wait_until_training(tmp_path)
    gone = (tmp_path / "sweeps").rename(tmp_path / "gone")
    wait_for(lambda: "No such file" in driver.written)
    time.sleep(_HEARTBEATS_S)
    assert not (tmp_path / "sweeps").exists()
    gone.rename(tmp_path / "sweeps")
    assert driver.wait(timeout=300) == 0, driver.written
    assert driver.written.count("No such file") == driver.written.count("works again") == 1
    assert records_of(tmp_path) == records_of(straight)


def test_a_killed_sweep_is_finished_by_resume(straight: Path, tmp_path: Path) -> None:
    driver = start(tmp_path, *TWO_RUNS)
    run = wait_until_training(tmp_path)
    driver.kill()
    driver.wait(timeout=60)
    os.kill(run.state["pid"], signal.SIGKILL)
    isosweep("mode=resume", cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    assert completions_of(tmp_path) == completions_of(straight)


@pytest.mark.parametrize("launcher", ["local", "inline"])
def test_ctrl_c_leaves_checkpoints_and_resume_trains_nothing_twice(
    launcher: str, straight: Path, tmp_path: Path
) -> None:
    driver = start(tmp_path, *TWO_RUNS, f"launcher={launcher}")
    run = wait_until_training(tmp_path)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=120) == 130, driver.written
    assert "mode=resume" in driver.written
    assert run.outcome == "interrupted"
    assert run.checkpoints == [run.state["step"]]
    isosweep("mode=resume", cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    assert run.trained == list(range(1, len(run.trained) + 1))


def test_a_second_ctrl_c_ends_the_runs_at_once(tmp_path: Path) -> None:
    driver = start(tmp_path, *TWO_RUNS)
    run = wait_until_training(tmp_path)
    # Stopped, it writes no checkpoint.
    pid = run.state["pid"]
    os.kill(pid, signal.SIGSTOP)
    driver.send_signal(signal.SIGINT)
    wait_for(lambda: "stopping" in driver.written)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=60) == 130, driver.written
    assert "ended at once" in driver.written
    assert "Traceback" not in driver.written
    assert not Path(f"/proc/{pid}").exists()
    assert run.outcome == "interrupted"


# Rewards that take forever, once asked for.
_ENDLESS = """
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
    (tmp_path / "endless.py").write_text(_ENDLESS)
    task = (
        *("task=custom", "task.custom.function=endless:problems", "task.custom.directory=."),
        *("task.num_train_problems=8", "task.num_eval_problems=8", "task.prompt_tokens=4"),
        *("task.completion_tokens=4", "task.max_completion_tokens=4", "grid.max_epochs=1e6"),
    )
    ours = [each for each in TINY if not each.startswith("task.")]
    more = ("budget=6.4e9", "grid.min_steps=1", "launcher=inline")
    driver = start(tmp_path, *task, *ours, *more)
    wait_for(lambda: (tmp_path / "asked").exists())
    driver.send_signal(signal.SIGINT)
    # One that comes at once may be the first one's echo.
    time.sleep(2.5)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=60) == 130, driver.written
    assert "ended amid a step by a second SIGINT" in driver.written
    assert runs_of(tmp_path)[0].outcome == "interrupted"


# What a recipe can have of state beside weights and optimiser: retired problems, draws thrown
# away, several updates a generation.
_STATEFUL = (
    *("recipe.zero_variance=resample", "recipe.max_draws=2", "recipe.retire_at=1"),
    *("recipe.retire_window=6", "recipe.mini_batches=2", "recipe.num_iterations=2"),
    *("task.num_train_problems=64", "evaluation.records_per_decade=20"),
    *("grid.num_generations=[4]", "grid.tolerance=0.2", "launcher=inline"),
)
_KILLS = 10


def test_ten_kills_and_an_extension_change_no_record(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    isosweep("budget=[5e9,1e10]", *TINY, *_STATEFUL, cwd=straight)
    (whole,) = runs_of(straight)
    smaller = ("budget=5e9", *TINY, *_STATEFUL, "sweep=s")
    saving = ("checkpoint.share=1", "checkpoint.min_interval_s=0")

    def trained() -> int:
        return sum(len(run.trained) for run in runs_of(killed))

    chance = random.Random(5)
    for number in range(_KILLS):
        # All kills together fall short of the smaller budget.
        steps = chance.randint(0, len(whole.trained) // (4 * _KILLS))
        until = trained() + steps
        driver = start(killed, *smaller, *saving, name=str(number))
        wait_for(lambda until=until: trained() >= until)  # type: ignore[misc]
        # Somewhere within a step, a checkpoint, a record, or (without steps) the start.
        time.sleep(chance.uniform(0.0, 0.1 if steps else 1.0))
        driver.kill()
        assert driver.wait(timeout=60) == -signal.SIGKILL
    isosweep(*smaller, cwd=killed)
    (run,) = runs_of(killed)
    assert 1 < len(run.records) < len(whole.records)
    shutil.rmtree(killed / "sweeps" / "s")
    isosweep("budget=[5e9,1e10]", *TINY, *_STATEFUL, cwd=killed)
    assert run.records == whole.records
    assert completions_of(killed) == completions_of(straight)
    assert run.attempts > 4
    assert run.checkpoints == [run.state["step"]]


def test_one_driver_at_a_time_follows_a_sweep(straight: Path, tmp_path: Path) -> None:
    first = start(tmp_path, *TWO_RUNS)
    run = wait_until_training(tmp_path)
    # A run of a few seconds may be over before another driver has started.
    os.kill(run.state["pid"], signal.SIGSTOP)
    second = isosweep(*TWO_RUNS, cwd=tmp_path)
    assert f"is driven by {getpass.getuser()} (process {first.pid} of " in second.stdout
    os.kill(run.state["pid"], signal.SIGCONT)
    first.kill()
    first.wait(timeout=60)
    isosweep("mode=resume", cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    # Whoever follows: one job a run.
    assert [each.jobs for each in runs_of(tmp_path)] == [1, 1]


def test_of_two_attempts_at_a_run_the_later_owns_it(straight: Path, tmp_path: Path) -> None:
    driver = start(tmp_path, *TWO_RUNS)
    run = wait_until_training(tmp_path)
    pid = run.state["pid"]
    os.kill(pid, signal.SIGSTOP)
    records = (run.root / "records" / "1.jsonl").read_bytes()
    saved = run.checkpoints
    # Somebody else takes the run up meanwhile.
    later = run.root / "attempts" / "2.json"
    later.write_text((run.root / "attempts" / "1.json").read_text().replace('pt": 1', 'pt": 2'))
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert (run.root / "records" / "1.jsonl").read_bytes() == records
    assert run.checkpoints == saved
    assert driver.wait(timeout=300) == 0, driver.written
    assert records_of(tmp_path) == records_of(straight)
    assert run.attempts == 3
