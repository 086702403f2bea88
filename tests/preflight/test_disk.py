"""Checkpoints that the disk has no room for are refused before anything is launched."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.directory import read_sweep, store_plan, sweep_paths
from isosweep.plan.study import resolve
from isosweep.preflight.disk import require_disk
from tests.conftest import make_config
from tests.modes.looked_after import ended

QWEN = (
    *("model=qwen-1.5b", "recipe=isocompute_easy", "hardware=h100", "budget=1e20"),
    "grid.seeds=[0]",
)
Usage = namedtuple("Usage", ("total", "used", "free"))


def refusal(free: float, places: int, root: Path, *overrides: str) -> str:
    """What is said of `free` bytes, in the place of what the disk has; nothing: accepted."""
    study = resolve(make_config(*QWEN, f"sweeps_dir={root / 'sweeps'}", *overrides))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))
        try:
            require_disk(study, sweep_paths(study), places)
        except SettingError as error:
            return str(error)
    return ""


def test_the_checkpoints_find_room_or_are_refused_with_how_much_they_take(tmp_path: Path) -> None:
    # 27 runs of 18.5 GB, 8 at once: 500 GB, and 37 GB more for each that trains.
    assert not refusal(810e9, 8, tmp_path)
    said = refusal(700e9, 8, tmp_path)
    assert said.startswith(f"sweeps_dir={tmp_path / 'sweeps'}: has ")
    assert "27 runs, 8 at once, take up to 797 GB (checkpoint.keep=resumable: 18.5 GB each)" in said
    assert said.endswith("works: sweeps_dir=DIRECTORY on a disk with 797 GB free")
    for places, more in ((5, ()), (8, ("checkpoint.keep=weights",))):
        assert not refusal(700e9, places, tmp_path, *more)


def test_a_run_that_has_ended_takes_no_more_room(tmp_path: Path) -> None:
    study = resolve(make_config(*QWEN, f"sweeps_dir={tmp_path / 'sweeps'}"))
    store_plan(study, sweep_paths(study))
    ended(read_sweep(sweep_paths(study).root))
    assert "26 runs, 8 at once, take" in refusal(500e9, 8, tmp_path)


def test_the_built_in_model_fits_this_machine(tmp_path: Path) -> None:
    study = resolve(make_config(f"sweeps_dir={tmp_path}"))
    require_disk(study, sweep_paths(study), 4)
