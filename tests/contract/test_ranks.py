"""A run of two processes: killed and extended, its records are those of one that was left alone."""

import os
import signal
from pathlib import Path

import pytest

from tests.contract.surface import (
    TINY,
    completions_of,
    isosweep,
    records_of,
    runs_of,
    start,
    wait_until_training,
)

pytestmark = [pytest.mark.train, pytest.mark.slow]
TWO = (
    *(*TINY, "grid.num_generations=[4]", "grid.tolerance=0.2"),
    *("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10"),
    # What a recipe can have of state beside weights and optimiser.
    *("recipe.zero_variance=resample", "recipe.max_draws=2"),
    *("recipe.retire_at=1", "recipe.retire_window=4", "task.num_train_problems=128"),
)


def test_a_killed_rank_and_a_larger_budget_change_no_record(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    isosweep("budget=[5e9,1e10]", *TWO, cwd=straight)
    driver = start(killed, "budget=5e9", *TWO)
    run = wait_until_training(killed)
    lead = run.state["pid"]
    ranks = Path(f"/proc/{lead}/task/{lead}/children").read_text().split()
    assert len(ranks) == 2
    os.kill(int(ranks[1]), signal.SIGKILL)
    assert driver.wait(timeout=300) == 0, driver.written
    assert run.attempts == 2
    isosweep("budget=[5e9,1e10]", *TWO, cwd=killed)
    assert records_of(killed) == records_of(straight)
    assert completions_of(killed) == completions_of(straight)
    (whole,) = runs_of(straight)
    # Of eight problems two answers each, whichever process sampled them.
    assert completions_of(straight).count(",heldout,") == len(whole.records) * 8 * 2
    assert [*run.records] == [*whole.records]
    assert whole.state["status"] == "finished"
