"""Which sweep a name, its beginning, or nothing means."""

import os
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.directory import named_root, stored_sweep
from isosweep.store.drivers import drive
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, sweep_in


def test_a_name_or_the_beginning_of_one_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = (sweep_in(tmp_path, f"name=alpha-{n}", f"grid.seeds=[{n}]") for n in (1, 2))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for given in ("alpha-1", f"{tmp_path}/alpha-1", "../alpha-1", f"{tmp_path}/alpha-1/"):
        assert named_root("sweep_dir", given, str(tmp_path)).resolve() == older.paths.root
    (tmp_path / "alpha-1").rename(tmp_path / "beta")
    assert named_root("sweep_dir", "b", str(tmp_path)) == tmp_path / "beta"
    assert named_root("sweep_dir", f"{tmp_path}/al", str(tmp_path)) == newer.paths.root
    with pytest.raises(SettingError, match=r"holds no plan\.json.*sweep_dir=alpha-2"):
        named_root("sweep_dir", "gamma", str(tmp_path))
    (tmp_path / "beta").rename(tmp_path / "alpha-1")
    ambiguous = r"from=al: begins the names of 2 sweeps.*from=\[alpha-1\], from=\[alpha-2\]"
    with pytest.raises(SettingError, match=ambiguous):
        named_root("from", "al", str(tmp_path))


def test_without_a_name_it_is_the_sweep_of_these_settings_or_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = sweep_in(tmp_path)
    where = f"sweeps_dir={tmp_path}"
    assert stored_sweep(make_config(where)).paths.root == own.paths.root
    assert capsys.readouterr().err.endswith("; it was never launched\n")
    newer = sweep_in(tmp_path, "grid.seeds=[7]")
    planned = sweep_in(tmp_path, "grid.seeds=[8]")
    drive(own.paths.drivers)
    drive(newer.paths.drivers)
    os.utime(own.paths.plan, (1e9, 1e9))
    os.utime(newer.paths.plan, (1e9 + 1, 1e9 + 1))
    assert stored_sweep(make_config(where, *PLAN)).paths.root == own.paths.root
    assert capsys.readouterr().err == ""
    assert stored_sweep(make_config(where)).paths.root == newer.paths.root
    assert f"sweep: {newer.paths.root}, the newest in" in capsys.readouterr().err
    # A plan that nobody launched is meant by its own settings alone.
    assert (
        stored_sweep(make_config(where, *PLAN, "grid.seeds=[8]")).paths.root == planned.paths.root
    )
    assert f"never launched; the newest that was is {newer.paths.root}" in capsys.readouterr().err
    # All that was typed for it may be typed again.
    mine = ("name=mine", "+experiment=tiny/playbook_fix_B", "budget_unit=flops")
    sweep_in(tmp_path, *mine)
    assert stored_sweep(make_config(where, *PLAN, *mine)).name == "mine"
    with pytest.raises(SettingError, match="holds no sweep"):
        stored_sweep(make_config(f"sweeps_dir={tmp_path}/none"))
