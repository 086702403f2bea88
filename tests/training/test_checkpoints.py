"""When checkpoints are due, what a run goes on from when they are broken, and what is left."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from isosweep.config.base import replaced
from isosweep.config.study import CheckpointConfig, HealthConfig, Keep
from isosweep.store.attempts import OvertakenError, Status, claim
from isosweep.store.checkpoints import find_resume_point
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths, complete_checkpoints
from isosweep.store.records import read_metrics, read_warnings
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun
from tests.runs import reproducible, wait_for
from tests.training.builders import (
    OFTEN,
    attempted,
    exit_status,
    in_a_process,
    prepared,
    spec_of,
    state_of,
)

if TYPE_CHECKING:
    from isosweep.training.checkpoints import Saver

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
# What a model is loaded from.
WEIGHTS = (
    *("model.safetensors", "config.json", "generation_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
)


def saver_in(root: Path, config: CheckpointConfig | None = None) -> "Saver":
    from isosweep.training.checkpoints import Saver

    return Saver(config or CheckpointConfig(), claim(RunPaths(root)))


def save(saver: "Saver", root: Path, step: int, **progress: Any) -> None:
    """As the loop and the trainer do it: begin, make the directory, complete."""
    saver.begin()
    path = RunPaths(root).attempt_checkpoints(1) / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "state").write_text("{}")
    saver.complete(path, progress)


def test_the_interval_follows_what_a_checkpoint_takes(tmp_path: Path) -> None:
    saver = saver_in(tmp_path)
    # Before anything was measured a kill costs what it costs at least.
    assert saver.interval_s == 30.0
    for seconds, interval in {0.01: 30.0, 2.0: 100.0, 20.0: 1000.0, 300.0: 3600.0}.items():
        saver._seconds = seconds
        assert saver.interval_s == interval


def test_the_last_is_kept_until_the_next_is_on_the_disk_marker_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, own = saver_in(tmp_path), RunPaths(tmp_path).attempt_checkpoints(1)
    save(saver, tmp_path, 1)
    synced: list[tuple[str, bool]] = []

    def sync(descriptor: int) -> None:
        before = (own / "checkpoint-1" / CHECKPOINT_FILES).exists()
        for path in (own / "checkpoint-2").parent.rglob("checkpoint-2*/*"):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                synced.append((path.name.rpartition(CHECKPOINT_FILES)[1] or path.name, before))
        if os.path.samestat(os.fstat(descriptor), (own / "checkpoint-2").stat()):
            marked = (own / "checkpoint-2" / CHECKPOINT_FILES).exists()
            synced.append(("marked" if marked else "unmarked", before))

    monkeypatch.setattr(os, "fsync", sync)
    save(saver, tmp_path, 2)
    order = ["state", "unmarked", CHECKPOINT_FILES, "marked"]
    assert synced == [(name, True) for name in order]
    assert complete_checkpoints(own).keys() == {2}
    assert not (own / "checkpoint-1").exists()


def test_a_checkpoint_that_cannot_be_written_is_named_and_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isosweep.training import checkpoints

    def full(checkpoint: Path) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] .\nframe #0")

    saver = saver_in(tmp_path)
    save(saver, tmp_path, 1)
    monkeypatch.setattr(checkpoints, "complete", full)
    with pytest.raises(checkpoints.SavingError) as caught:
        save(saver, tmp_path, 2)
    said, own = str(caught.value), RunPaths(tmp_path).attempt_checkpoints(1)
    assert said.startswith(f"{own / 'checkpoint-2'}: cannot be written, with ")
    assert said.endswith("GB free there ([enforce fail at inline_container.cc:672] .)")
    assert [path.name for path in own.iterdir()] == ["checkpoint-1"]
    # Nor does an attempt that another has overtaken remove it.
    claim(RunPaths(tmp_path))
    with pytest.raises(OvertakenError):
        saver.end(None, None)
    assert complete_checkpoints(own).keys() == {1}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run at its first budget: of all its checkpoints the last two are left."""
    run = prepared(spec_of(*SETTINGS, micro=8), tmp_path_factory.mktemp("stopped"))
    attempted(run, MILESTONES[:1], saving=replaced(OFTEN, keep="all"))
    checkpoints = complete_checkpoints(run.attempt_checkpoints(1))
    for step in sorted(checkpoints)[:-2]:
        shutil.rmtree(checkpoints[step])
    return run


def copy_of(run: RunPaths, root: Path) -> tuple[RunPaths, Path, Path]:
    """A copy of the run, its checkpoint before the newest, and the newest."""
    copy = RunPaths(shutil.copytree(run.root, root / run.run_id))
    checkpoints = complete_checkpoints(copy.attempt_checkpoints(1))
    first, second = (checkpoints[step] for step in sorted(checkpoints))
    return copy, first, second


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [truncated, Path.unlink])
def test_a_checkpoint_with_any_broken_file_is_passed_over(
    damage: Callable[[Path], None], stopped: RunPaths, tmp_path: Path
) -> None:
    run, before, newest = copy_of(stopped, tmp_path)
    files = sorted(path for path in newest.iterdir() if path.name != CHECKPOINT_FILES)
    assert len(files) > 8
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


def test_a_run_goes_on_from_the_checkpoint_before(stopped: RunPaths, tmp_path: Path) -> None:
    whole, *_ = copy_of(stopped, tmp_path / "whole")
    run, before, newest = copy_of(stopped, tmp_path / "broken")
    # What grows with every step is in none of them.
    assert json.loads((newest / "trainer_state.json").read_text())["log_history"] == []
    truncated(newest / "optimizer.pt")
    attempted(whole, MILESTONES)
    attempted(run, MILESTONES)
    assert reproducible(run) == reproducible(whole)
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
    run, before, newest = copy_of(stopped, tmp_path)
    half = run.attempt_checkpoints(1) / "checkpoint-999"
    half.mkdir()
    (half / "model.safetensors").write_bytes(bytes(1000))
    process = in_a_process(
        partial(train_unsubmitted, TrainRun(str(run.root), MILESTONES, "flops", HealthConfig()))
    )
    wait_for(lambda: not (half.exists() or before.exists()))
    os.kill(process, signal.SIGKILL)
    exit_status(process)
    assert {*run.checkpoints.glob("*/*/")} == {newest}


@pytest.mark.parametrize("keep", get_args(Keep))
def test_what_is_kept_of_a_run_that_has_ended(
    keep: Keep, stopped: RunPaths, tmp_path: Path
) -> None:
    from isosweep.training.checkpoints import Saver

    run, before, newest = copy_of(stopped, tmp_path)
    Saver(CheckpointConfig(keep=keep), state_of(run)).end(None, None)
    left = {*run.checkpoints.glob("*/*/")}
    start = find_resume_point(run, 2)
    wanted = {"all": {before, newest}, "none": set[Path]()}
    assert left == wanted.get(keep, {newest})
    if keep == "weights":
        assert {path.name for path in newest.iterdir()} == set(WEIGHTS)
    if keep in ("all", "resumable"):
        assert start.checkpoint == newest
    else:
        lost = start.losses[0].partition(" of")[0]
        assert (start.step, lost) == (0, "no checkpoint to go on from is left")
