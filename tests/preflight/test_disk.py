"""Checkpoints that the disk has no room for are refused before anything is launched."""

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.files import read_json, write_json
from isosweep.modes.directory import read_sweep, store_plan, sweep_paths
from isosweep.modes.stored import require_room
from isosweep.plan.study import Study, resolve
from isosweep.preflight.disk import require_disk
from isosweep.store.checkpoints import complete
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from tests.conftest import make_config
from tests.modes.looked_after import ended

QWEN = (
    *("model=qwen-1.5b", "recipe=isocompute_easy", "hardware=h100", "budget=1e20"),
    "grid.seeds=[0]",
)
Usage = namedtuple("Usage", ("total", "used", "free"))


def study_in(root: Path, *overrides: str) -> Study:
    return resolve(make_config(*QWEN, f"sweeps_dir={root / 'sweeps'}", *overrides))


def said(free: float, check: Callable[[], None]) -> str:
    """What is said of `free` bytes, in the place of what the disk has; nothing: accepted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))
        try:
            check()
        except SettingError as error:
            return str(error)
    return ""


def refusal(free: float, places: int, root: Path, *overrides: str) -> str:
    study = study_in(root, *overrides)
    return said(free, lambda: require_disk([study], sweep_paths(study), places))


def test_the_checkpoints_find_room_or_are_refused_with_how_much_they_take(tmp_path: Path) -> None:
    # 27 runs of 18.5 GB, 8 at once: 500 GB, and 18.5 GB more for each that trains.
    assert not refusal(660e9, 8, tmp_path)
    refused = refusal(600e9, 8, tmp_path)
    assert refused.startswith(f"sweeps_dir={tmp_path / 'sweeps'}: has ")
    rule = "27 runs, 8 at once, take up to 648 GB more (checkpoint.keep=resumable: 18.5 GB each)"
    assert rule in refused
    assert refused.endswith("works: sweeps_dir=DIRECTORY on a disk with 648 GB free")
    for places, more in ((5, ()), (8, ("checkpoint.keep=weights",))):
        assert not refusal(600e9, places, tmp_path, *more)


def test_a_run_that_has_ended_takes_no_more_room(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    store_plan(study, sweep_paths(study))
    ended(read_sweep(sweep_paths(study).root))
    assert "26 runs, 8 at once, take" in refusal(500e9, 8, tmp_path)


def with_checkpoint(run: RunPaths, size: float) -> None:
    """A complete checkpoint of `size` bytes, by its own list of files."""
    checkpoint = run.attempt_checkpoints(1) / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    complete(checkpoint)
    document = read_json(checkpoint / CHECKPOINT_FILES)
    assert document is not None
    files = {"model.safetensors": int(size)}
    write_json(checkpoint / CHECKPOINT_FILES, {**document, "files": files})


def test_a_run_takes_what_it_has_not_there_already(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    store_plan(study, sweep_paths(study))
    sweep = read_sweep(sweep_paths(study).root)
    size = study.plan.runs[0].checkpoint_bytes
    for place in range(20):
        # Of a smaller budget, or interrupted: it goes on from its checkpoint.
        run = (
            ended(sweep, place, share=0.5)
            if place % 2
            else sweep.paths.run(sweep.plan.runs[place].run_id)
        )
        with_checkpoint(run, size)
    # 7 that have none yet, and the one being written of each of 8.
    assert "27 runs, 8 at once, take up to 278 GB more" in refusal(270e9, 8, tmp_path)
    assert not refusal(280e9, 8, tmp_path)
    # With fewer left of each than is there, nothing is counted on before it is free.
    assert "take up to " in refusal(140e9, 8, tmp_path, "checkpoint.keep=none")


def test_jobs_of_a_multirun_find_room_together_and_share_their_runs(tmp_path: Path) -> None:
    def free(count: float, *jobs: tuple[str, ...]) -> str:
        studies = [study_in(tmp_path, *job) for job in jobs]
        return said(count, lambda: require_room(studies))

    few = ("launcher.max_parallel=8",)
    assert not free(660e9, few)
    # Other budgets of the same runs.
    assert not free(660e9, few, (*few, "budget=2e20"))
    assert "54 runs, 8 at once, take up to 1.15 TB" in free(660e9, few, (*few, "grid.seeds=[1]"))
