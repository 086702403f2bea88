"""What a run goes on from when its checkpoints are broken, and what is left of them."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from isosweep.config.checkpoint import CheckpointConfig, Keep
from isosweep.config.health import HealthConfig
from isosweep.store.attempts import Status
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths, complete_checkpoints
from isosweep.store.records import read_metrics, read_warnings
from isosweep.training.progress import find_resume_point
from isosweep.training.saving import Saver
from isosweep.training.worker import TrainRun
from tests.runs import reproducible, wait_for
from tests.training.builders import (
    OFTEN,
    attempted,
    exit_status,
    in_a_process,
    prepared,
    spec_of,
    state_of,
    trained,
)

pytestmark = pytest.mark.train
# What a recipe can have of state beside weights and optimiser: retired problems, draws thrown
# away, several updates a generation.
SETTINGS = (
    *("recipe.zero_variance=resample", "recipe.max_draws=2", "recipe.retire_at=1"),
    *("recipe.retire_window=6", "recipe.mini_batches=2", "recipe.num_iterations=2"),
    *("task.num_train_problems=64", "task.num_eval_problems=16"),
    "evaluation.records_per_decade=20",
)
MILESTONES = (1.5e9, 3e9)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return trained(spec_of(*SETTINGS, micro=8), tmp_path_factory.mktemp("straight"), MILESTONES)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run at its first budget: of all its checkpoints the last two are left."""
    run = prepared(spec_of(*SETTINGS, micro=8), tmp_path_factory.mktemp("stopped"))
    attempted(run, MILESTONES[:1], saving=replace(OFTEN, keep="all"))
    checkpoints = complete_checkpoints(run.attempt_checkpoints(1))
    for step in sorted(checkpoints)[:-2]:
        shutil.rmtree(checkpoints[step])
    return run


def copy_of(run: RunPaths, root: Path) -> RunPaths:
    return RunPaths(shutil.copytree(run.root, root / run.run_id))


def last_two(run: RunPaths) -> tuple[Path, Path]:
    """The checkpoint before the newest, and the newest."""
    checkpoints = complete_checkpoints(run.attempt_checkpoints(1))
    first, second = (checkpoints[step] for step in sorted(checkpoints))
    return first, second


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [truncated, Path.unlink])
def test_a_checkpoint_with_any_broken_file_is_passed_over(
    damage: Callable[[Path], None], stopped: RunPaths, tmp_path: Path
) -> None:
    run = copy_of(stopped, tmp_path)
    before, newest = last_two(run)
    files = sorted(path for path in newest.iterdir() if path.name != CHECKPOINT_FILES)
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        damage(file)
        start = find_resume_point(run, 2)
        assert start.checkpoint == before
        (loss,) = start.losses
        assert f"{newest} is broken: {file.name} " in loss
        assert loss.endswith(f"training goes on from step {start.step}")
        file.write_bytes(content)
    damage(newest / CHECKPOINT_FILES)
    start = find_resume_point(run, 2)
    assert start.checkpoint == before
    # Without its marker it was never complete.
    assert len(start.losses) == (damage is truncated)


def test_a_run_goes_on_from_the_checkpoint_before(
    straight: RunPaths, stopped: RunPaths, tmp_path: Path
) -> None:
    run = copy_of(stopped, tmp_path)
    before, newest = last_two(run)
    # What grows with every step is in none of them.
    assert json.loads((newest / "trainer_state.json").read_text())["log_history"] == []
    truncated(newest / "optimizer.pt")
    attempted(run, MILESTONES)
    assert reproducible(run) == reproducible(straight)
    metrics = read_metrics(run.metrics, run.records)
    assert [line["step"] for line in metrics] == list(range(1, len(metrics) + 1))
    state = state_of(run)
    (warning,) = read_warnings(run.warnings, run.records)
    assert (state.status, state.warnings) == (Status.FINISHED, ("checkpoint",))
    assert (warning.rule, before.name) == ("checkpoint", f"checkpoint-{warning.step}")
    assert f"{newest} is broken: optimizer.pt " in warning.message


def test_what_a_kill_left_half_written_goes_when_the_next_attempt_begins(
    stopped: RunPaths, tmp_path: Path
) -> None:
    run = copy_of(stopped, tmp_path)
    before, newest = last_two(run)
    half = run.attempt_checkpoints(1) / "checkpoint-999"
    half.mkdir()
    (half / "model.safetensors").write_bytes(bytes(1000))
    job = TrainRun(str(run.root), MILESTONES, "flops", HealthConfig())
    process = in_a_process(job)
    wait_for(lambda: not (half.exists() or before.exists()))
    os.kill(process, signal.SIGKILL)
    exit_status(process)
    assert {*run.checkpoints.glob("*/*/")} == {newest}


# What a model is loaded from.
WEIGHTS = (
    *("model.safetensors", "config.json", "generation_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
)


@pytest.mark.parametrize("keep", get_args(Keep))
def test_what_is_kept_of_a_run_that_has_ended(
    keep: Keep, stopped: RunPaths, tmp_path: Path
) -> None:
    run = copy_of(stopped, tmp_path)
    before, newest = last_two(run)
    Saver(CheckpointConfig(keep=keep), state_of(run), newest).end(lambda checkpoint: None)
    left = {*run.checkpoints.glob("*/*/")}
    start = find_resume_point(run, 2)
    wanted = {"all": {before, newest}, "none": set[Path]()}
    assert left == wanted.get(keep, {newest})
    if keep == "weights":
        assert {path.name for path in newest.iterdir()} == set(WEIGHTS)
    if keep in ("all", "resumable"):
        assert start.checkpoint == newest
    else:
        assert (start.step, start.losses[0].partition(" of")[0]) == (
            0,
            "no checkpoint to go on from is left",
        )
