"""A directory of sweeps that is moved or copied."""

from pathlib import Path

import pytest

from isosweep.models.builtin import builtin_model
from isosweep.models.weights import missing_weights
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


@pytest.mark.parametrize("typed", [("model.path=m",), ("grid.axes={model.path:[m,other]}",)])
def test_a_relative_path_of_a_model_holds_from_every_directory(
    typed: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for model in ("m", "other"):
            Path(model).symlink_to(builtin_model())
        sweep = sweep_in(tmp_path / name / "sweeps", *typed)
        monkeypatch.chdir(tmp_path)
        study = read_sweep(sweep.paths.root).study()
        models = {str(spec.model.path): spec.model for spec in study.specs.values()}
        assert {m.location for m in models.values()} == {tmp_path / name / path for path in models}
        assert [missing_weights(model) for model in models.values()] == [[] for _ in models]
        found.append([*study.specs])
    # The path as it was typed makes the runs, as ever.
    assert found[0] == found[1]
