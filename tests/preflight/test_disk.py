"""Checkpoints that the disk has no room for are refused before anything is launched."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.directory import sweep_paths
from isosweep.plan.study import resolve
from isosweep.preflight.disk import require_disk
from tests.conftest import make_config

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


@pytest.mark.parametrize(
    ("free", "nearest"),
    [
        # 27 runs of 18.5 GB, 8 at once: 500 GB, and 37 GB more for each that trains.
        (810e9, None),
        (700e9, "launcher.max_parallel=5"),
        (450e9, "checkpoint.keep=weights launcher.max_parallel=5"),
        (60e9, "checkpoint.keep=none launcher.max_parallel=1"),
        (20e9, "sweeps_dir=DIRECTORY on a disk with 797 GB free"),
    ],
)
def test_the_nearest_choice_fits(free: float, nearest: str | None, tmp_path: Path) -> None:
    said = refusal(free, 8, tmp_path)
    if nearest is None:
        assert not said
        return
    assert said.startswith(f"sweeps_dir={tmp_path / 'sweeps'}: has ")
    assert "27 runs, 8 at once, take up to 797 GB (checkpoint.keep=resumable: 18.5 GB each)" in said
    assert said.endswith(f"Nearest choice that works: {nearest}")
    if "sweeps_dir=D" not in nearest:
        keep = [word for word in nearest.split() if word.startswith("checkpoint")]
        places = int(nearest.rpartition("max_parallel=")[2])
        assert not refusal(free, places, tmp_path, *keep)


def test_a_search_is_not_told_to_keep_less_than_it_goes_on_from(tmp_path: Path) -> None:
    said = refusal(60e9, 8, tmp_path, "search=frontier")
    assert said.endswith(
        "Nearest choice that works: sweeps_dir=DIRECTORY on a disk with 797 GB free"
    )


def test_the_built_in_model_fits_this_machine(tmp_path: Path) -> None:
    study = resolve(make_config(f"sweeps_dir={tmp_path}"))
    require_disk(study, sweep_paths(study), 4)
