"""Which sweep a command is about, and where its runs lie once it was moved."""

import os
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.models.builtin import builtin_model
from isosweep.models.weights import missing_weights
from isosweep.modes.launch import plan_sweep
from isosweep.modes.sweeps import find_root, read_sweep, store_plan, stored_sweep
from isosweep.plan.study import resolve
from isosweep.store.drivers import drive
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, ended, printed, sweep_in, terminal


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


@pytest.mark.parametrize("launched", [False, True])
def test_a_sweep_that_is_moved_alone_keeps_its_runs(launched: bool, tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    others = tmp_path / "others"
    others.mkdir()
    if launched:
        # Beside runs of others.
        (sweep.paths.runs / sweep.plan.runs[0].run_id).mkdir(parents=True)
        (others / "runs" / "of-another").mkdir(parents=True)
    assert read_sweep(sweep.paths.root.rename(others / "one")).paths.runs == sweep.paths.runs


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


def state_of(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below, with its content and when it was written."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


@pytest.mark.parametrize("own_place", [False, True])
def test_looking_at_a_launched_sweep_from_elsewhere_changes_nothing_of_it(
    own_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path / "sweeps", *[f"sweep={tmp_path}/mine"] * own_place)
    drive(sweep.paths.drivers).release(0)  # type: ignore[union-attr]
    for place, _ in enumerate(sweep.plan.runs):
        ended(sweep, place)
    before = state_of(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    given = (*PLAN, f"sweep={sweep.paths.root}", "launcher.max_retries=0")
    console = terminal()
    assert plan_sweep(resolve(make_config(*given)), console) == 0
    assert f"{len(sweep.plan.runs)} done; 0% of the compute" in printed(console)
    assert f"the runs of this sweep are in {sweep.paths.runs}; sweeps_dir=" in printed(console)
    assert state_of(tmp_path) == before


def test_launching_writes_the_settings_that_it_launches_with(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path / "sweeps")
    drive(sweep.paths.drivers).release(0)  # type: ignore[union-attr]
    study = resolve(make_config(*PLAN, f"sweeps_dir={tmp_path}/sweeps", "launcher.max_retries=0"))
    store_plan(study, sweep.paths)
    assert read_sweep(sweep.paths.root).config.launcher == sweep.config.launcher
    store_plan(study, sweep.paths, launches=True)
    assert read_sweep(sweep.paths.root).config.launcher.max_retries == 0
