"""A directory of sweeps that is moved or copied."""

from pathlib import Path

import pytest

from isosweep.models.builtin import builtin_model
from isosweep.models.weights import missing_weights
from isosweep.modes.launch import plan_sweep
from isosweep.modes.sweeps import read_sweep, store_plan
from isosweep.plan.study import resolve
from isosweep.store.drivers import drive
from tests.conftest import make_config
from tests.modes.looked_after import PLAN, ended, printed, sweep_in, terminal


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
