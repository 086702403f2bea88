"""`mode=status` of all sweeps, and which sweep a name, its beginning, or nothing means."""

import json
import os
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.directory import StoredSweep, named_root, stored_sweep
from isosweep.modes.listing import list_sweeps, listed_sweep
from isosweep.store.drivers import drive
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, ended, printed, sweep_in, terminal


@pytest.fixture
def two(tmp_path: Path) -> tuple[StoredSweep, StoredSweep]:
    """An older and a newer sweep, alpha-1 and alpha-2."""
    older = sweep_in(tmp_path, f"sweep_dir={tmp_path}/alpha-1")
    newer = sweep_in(tmp_path, f"sweep_dir={tmp_path}/alpha-2", "grid.seeds=[7]")
    os.utime(older.paths.plan, (1e9, 1e9))
    return older, newer


def test_sweeps_are_listed_newest_first_with_what_came_of_them(
    tmp_path: Path, two: tuple[StoredSweep, StoredSweep]
) -> None:
    older, newer = two
    ended(older)
    older.paths.analysis.mkdir()
    older.paths.answer.write_text('{"verdict": "flat"}')
    drive(newer.paths.drivers)
    console = terminal()
    assert list_sweeps(make_config(f"sweeps_dir={tmp_path}"), console) == 0
    first, second = printed(console).splitlines()
    assert "alpha-2  1e11 FLOPs: 2 runs: 2 not begun; followed by " in first
    total = len(older.plan.runs)
    assert f"alpha-1  1e11 FLOPs: {total} runs: {total - 1} not begun, 1 done; " in second
    assert second.endswith("; verdict: flat")
    list_sweeps(make_config(f"sweeps_dir={tmp_path}", "format=json"), console := terminal())
    document = json.loads(printed(console))
    assert [sweep["name"] for sweep in document["sweeps"]] == ["alpha-2", "alpha-1"]
    assert document["sweeps"][1]["counts"]["done"] == 1
    assert document["sweeps"][1]["verdict"] == "flat"


@pytest.mark.parametrize("file", ["plan.json", "config.json"])
@pytest.mark.parametrize("content", ["{garbage", '{"version": 77}'])
def test_a_broken_sweep_is_a_line_of_the_list(
    file: str, content: str, tmp_path: Path, two: tuple[StoredSweep, StoredSweep]
) -> None:
    (two[0].paths.root / file).write_text(content)
    console = terminal()
    assert list_sweeps(make_config(f"sweeps_dir={tmp_path}"), console) == 1
    lines = printed(console).splitlines()
    assert len(lines) == 2
    assert sum("alpha-1: cannot be read: " in line for line in lines) == 1


def test_a_name_or_the_beginning_of_one_is_enough(
    tmp_path: Path, two: tuple[StoredSweep, StoredSweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = two
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
    assert stored_sweep(make_config(where, "budget=5e11")).paths.root == own.paths.root
    assert capsys.readouterr().err.endswith("; it was never launched\n")
    newer = sweep_in(tmp_path, "grid.seeds=[7]")
    planned = sweep_in(tmp_path, "grid.seeds=[8]")
    drive(own.paths.drivers)
    drive(newer.paths.drivers)
    os.utime(own.paths.plan, (1e9, 1e9))
    os.utime(newer.paths.plan, (1e9 + 1, 1e9 + 1))
    assert stored_sweep(make_config(where, *PLAN)).paths.root == own.paths.root
    assert capsys.readouterr().err == ""
    assert stored_sweep(make_config(where, "budget=5e11")).paths.root == newer.paths.root
    assert f"sweep: {newer.paths.root}, the newest in" in capsys.readouterr().err
    # A plan that nobody launched is meant by its own settings alone.
    assert (
        stored_sweep(make_config(where, *PLAN, "grid.seeds=[8]")).paths.root == planned.paths.root
    )
    assert f"never launched; the newest that was is {newer.paths.root}" in capsys.readouterr().err
    # What is stopped by mistake took long to begin.
    with pytest.raises(SettingError, match=f"sweep_dir={newer.name}, the newest"):
        stored_sweep(make_config(where, "mode=cancel", "budget=5e11"))
    with pytest.raises(SettingError, match="holds no sweep"):
        stored_sweep(make_config(f"sweeps_dir={tmp_path}/none"))


def test_a_plan_that_was_never_launched_is_marked(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    console = terminal()
    list_sweeps(make_config(f"sweeps_dir={tmp_path}"), console)
    assert f"never launched (mode=clean removes those older than an hour): {sweep.name}" in printed(
        console
    )
    drive(sweep.paths.drivers)
    assert listed_sweep(sweep.paths.root)["launched"]
    # A plan made since then is no newest sweep.
    later = sweep_in(tmp_path, "grid.seeds=[9]")
    console = terminal()
    list_sweeps(make_config(f"sweeps_dir={tmp_path}"), console)
    first, last = printed(console).splitlines()
    assert sweep.name in first
    assert last.endswith(f": {later.name}")
