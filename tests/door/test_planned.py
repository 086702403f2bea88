"""A plan made in Python is that of `mode=plan`, and leaves nothing behind."""

from pathlib import Path

import pytest

import isosweep
from isosweep.errors import SettingError
from isosweep.plan.study import resolve
from isosweep.store.attempts import Status
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import PLAN, reported, submitted, sweep_in


def test_a_plan_is_that_of_the_command_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planned = isosweep.make_plan(PLAN)
    study = resolve(make_config("mode=plan", *PLAN))
    assert planned.study.plan == study.plan
    assert len(planned.plan) == len(study.plan.cells) + len(study.plan.rejected)
    assert list(planned.runs.run_id) == [run.run_id for run in study.plan.runs]
    price = planned.price
    assert (price.runs, price.cells) == (len(study.plan.runs), len(study.plan.cells))
    assert price.device_hours == pytest.approx(planned.runs.device_hours.sum())
    assert price.device_hours_left == pytest.approx(price.device_hours)
    assert price.flops == pytest.approx(planned.runs.planned_flops.sum())
    assert 0 < price.hours <= price.device_hours
    assert "grid.num_generations" in planned._repr_html_()
    priced = isosweep.make_plan([*PLAN, "hardware.dollars_per_hour=36"])
    assert price.dollars is None
    assert priced.price.dollars == pytest.approx(36 * price.device_hours)
    assert ("$" in repr(planned), "$" in repr(priced)) == (False, True)
    assert list(priced.runs.dollars) == pytest.approx(list(36 * priced.runs.device_hours))
    assert list(tmp_path.iterdir()) == []


def test_what_is_trained_already_is_known(tmp_path: Path) -> None:
    stored = sweep_in(tmp_path)
    run = stored.plan.runs[0]
    reported(submitted(stored.paths.run(run.run_id)), Status.INTERRUPTED, 0.5, run)
    planned = isosweep.make_plan([*PLAN, f"sweeps_dir={tmp_path}"])
    row = planned.runs.set_index("run_id").loc[run.run_id]
    assert row.spent == pytest.approx(0.5 * run.milestones[-1])
    assert planned.price.device_hours_left < planned.price.device_hours


def test_a_plan_says_whether_launching_it_asks_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = {"model": "qwen-1.5b", "budget": 1e20}
    monkeypatch.setattr("isosweep.preflight.plan.free_bytes", lambda path: 1e15)
    assert "mode=run would ask first: a predicted " in isosweep.make_plan(large).notes[-1]
    limited = isosweep.make_plan(large | {"launcher.max_device_hours": 10})
    assert "mode=run would refuse this: launcher.max_device_hours=10: " in limited.notes[-1]
    monkeypatch.setattr("isosweep.preflight.plan.free_bytes", lambda path: 1e9)
    assert "has 1 GB free" in isosweep.make_plan(large).notes[-1]
    assert limited.price.runs == 30


def test_another_mode_and_settings_that_break_a_rule_are_refused() -> None:
    with pytest.raises(SettingError, match="mode=run: make_plan plans"):
        isosweep.make_plan(PLAN, mode="run")
    with pytest.raises(SettingError, match=r"grid\.tolerance"):
        isosweep.make_plan({"grid.tolerance": -1})
    with pytest.raises(SettingError, match="none of 108 candidates is feasible"):
        isosweep.make_plan(model="qwen-7b", budget=1e16)


def test_a_plan_is_run_and_its_sweep_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["budget=6.4e9", *SMALL, "grid.num_generations=[4]", "tracking=none"]
    sweep = isosweep.run(asked)
    assert set(sweep.runs.standing) == {"done"}
    assert "verdict: not identified" in capsys.readouterr().out
    with pytest.raises(isosweep.IsosweepError, match=r"launcher\.max_device_hours=1e-09: "):
        isosweep.run(asked, budget=1e10, **{"launcher.max_device_hours": 1e-9})
