"""A directory of sweeps that is moved or copied."""

from pathlib import Path

from isosweep.modes.directory import read_sweep
from tests.modes.looked_after import sweep_in


def test_a_moved_sweep_goes_on_with_the_runs_that_were_moved_with_it(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    moved = (tmp_path / "sweeps").rename(tmp_path / "elsewhere")
    found = read_sweep(moved / sweep.paths.root.name)
    assert found.paths.runs == moved / "runs"
    assert found.config.sweeps_dir == str(moved)


def test_a_sweep_that_is_moved_alone_keeps_its_runs(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    (tmp_path / "kept").mkdir()
    moved = sweep.paths.root.rename(tmp_path / "kept" / "one")
    assert read_sweep(moved).paths.runs == tmp_path / "sweeps" / "runs"


def test_a_sweep_in_a_place_of_its_own_keeps_its_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    place = f"sweep_dir={tmp_path / 'mine'}"
    assert sweep_in(tmp_path / "sweeps", place).paths.runs == tmp_path / "sweeps" / "runs"
