"""Which sweep a command is about."""

import os
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.sweeps import find_root, stored_sweep
from isosweep.store.drivers import drive
from tests.conftest import make_config
from tests.modes.looked_after import sweep_in


def test_a_sweep_is_found_by_its_name_or_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path, "sweep=alpha-1")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for given in ("alpha-1", f"{tmp_path}/alpha-1", "../alpha-1", f"{tmp_path}/alpha-1/"):
        assert find_root(given, str(tmp_path)).resolve() == sweep.paths.root
    for given in ("al", "gamma"):
        with pytest.raises(SettingError, match=rf"{given}: holds no plan\.json.*sweep=alpha-1"):
            find_root(given, str(tmp_path))


def test_without_a_name_it_is_the_newest_that_was_launched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = f"sweeps_dir={tmp_path}"
    with pytest.raises(SettingError, match="holds no sweep"):
        stored_sweep(make_config(where))
    older = sweep_in(tmp_path)
    assert stored_sweep(make_config(where)).paths.root == older.paths.root
    assert capsys.readouterr().err.endswith("; it was never launched\n")
    newer = sweep_in(tmp_path, "grid.seeds=[7]")
    for age, sweep in enumerate((newer, older)):
        drive(sweep.paths.drivers)
        os.utime(sweep.paths.plan, (1e9 - age, 1e9 - age))
    sweep_in(tmp_path, "grid.seeds=[8]")
    assert stored_sweep(make_config(where)).paths.root == newer.paths.root
    assert f"sweep: {newer.paths.root}, the newest in" in capsys.readouterr().err
    with pytest.raises(SettingError, match=f"there are several.*sweep={newer.name}, the newest"):
        stored_sweep(make_config(where, "mode=cancel"))
