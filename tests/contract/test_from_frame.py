"""A sweep that is made of a frame lies where the caller says, and nowhere else."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import isosweep as door
from tests.contract.surface import isosweep

_FRAME = pd.DataFrame(
    [
        {"n": n, "B": 4, "seed": 0, "step": k, "reward": 0.2 + 0.02 * k}
        for n in (2, 4, 8)
        for k in range(8)
    ]
)


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is empty."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path / "cwd"


def test_all_files_of_a_sweep_of_a_frame_are_in_its_directory(tmp_path: Path, cwd: Path) -> None:
    sweep = door.from_frame(_FRAME, tmp_path / "given" / "ours")
    assert len(sweep.records) == len(_FRAME)
    assert sweep.recommend(48) is not None
    isosweep("mode=status", f"sweep={sweep.path}", cwd=cwd)
    isosweep("mode=analyse", f"sweep={sweep.path}", cwd=cwd)
    assert not [*cwd.iterdir()]
    assert {path.name for path in tmp_path.iterdir()} == {"cwd", "given"}
    assert {path.name for path in (tmp_path / "given").iterdir()} == {"ours"}
    # So it can be moved, and is read where it came to lie.
    shutil.move(tmp_path / "given", tmp_path / "moved")
    assert len(door.open(tmp_path / "moved" / "ours").records) == len(_FRAME)


def test_runs_of_a_frame_are_in_the_sweeps_dir_that_is_given(tmp_path: Path, cwd: Path) -> None:
    door.from_frame(_FRAME, tmp_path / "ours", sweeps_dir=tmp_path / "sweeps")
    assert len([*(tmp_path / "sweeps" / "runs").iterdir()]) == 3
    assert not (tmp_path / "ours" / "runs").exists()
    assert not [*cwd.iterdir()]
