"""What a config implies is worked out once, whatever the mode."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, get_args

import pytest
from rich.console import Console

from isosweep.config.axes import combinations
from isosweep.config.sweep import Mode, SweepConfig
from isosweep.difficulty.variants import choose_variants
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.launchers.queue import RunQueue
from isosweep.modes.dispatch import ANALYSES, FUNCTIONS, prepare, prepare_all
from isosweep.modes.further import further_n
from isosweep.plan.calibration import calibrated
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import make_plan
from isosweep.plan.study import resolve
from tests.conftest import SMALL, in_ci, make_config, plan_of
from tests.modes.sweeps import write_records

COUNTED = (calibrated, combinations, choose_variants, enumerate_candidates, make_plan)
ONCE = {function.__name__: 1 for function in COUNTED}
# A sweep in device-hours, so that a measured efficiency changes what is planned.
SWEEP = (*SMALL, "budget_unit=device_hours", "budget=[0.001,0.002]", "grid.tolerance=0.3")
EFFICIENCY = {
    "training_utilization": 0.01,
    "generation_utilization": 0.01,
    # Of the two budgets the smaller one buys fewer steps than `grid.min_steps`.
    "step_overhead_s": 0.5,
    "token_overhead_s": 0.001,
    "sweep": "another",
}


def test_every_mode_has_a_function_or_plans() -> None:
    assert {*FUNCTIONS, "plan", "run", "launch"} == {*get_args(Mode)}
    assert {*ANALYSES} < {*get_args(Mode)}
    for module, function in FUNCTIONS.values():
        assert callable(getattr(import_module(f"isosweep.modes.{module}"), function))


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each of COUNTED is executed within the block, whoever calls it."""
    names: dict[CodeType, str] = {function.__code__: function.__name__ for function in COUNTED}
    counts: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in names:
            counts[names[frame.f_code]] += 1

    sys.setprofile(profile)
    try:
        yield counts
    finally:
        sys.setprofile(None)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Do what a mode does in `tmp_path`, but let no run start."""
    monkeypatch.setattr(RunQueue, "add", lambda self, items: None)

    def asked(mode: str, *overrides: str) -> int:
        sweeps = f"sweeps_dir={tmp_path / 'sweeps'}"
        config = make_config(f"mode={mode}", "tracking=none", sweeps, *SWEEP, *overrides)
        return prepare(config)(Console(quiet=True))

    return asked


def calibrate_by_hand(sweeps: Path) -> None:
    """A calibration of the default hardware, model and generation."""
    config = make_config()
    key = f"{config.hardware.name}, {config.model.name}, {config.generation.name}"
    sweeps.mkdir()
    write_json(sweeps / "calibration.json", {"version": 1, "entries": {key: EFFICIENCY}})


# How often each is executed where that is not once.
OTHERWISE = {
    # The config that is asked, to find the sweep; and the one that the sweep was stored with.
    "resume": dict.fromkeys(ONCE, 2) | {"calibrated": 1},
    "calibrate": {"combinations": 2, "enumerate_candidates": 2},
}
MODES = (
    *("plan", "run", "launch", "resume", "status", "cancel"),
    *("analyse", "recommend", "calibrate"),
)


@pytest.mark.parametrize(
    "mode",
    in_ci(
        MODES,
        *("plan", "run", "resume", "status", "calibrate"),
    ),
)
def test_a_mode_resolves_its_config_once(
    mode: str, ask: Callable[..., int], tmp_path: Path
) -> None:
    if mode != "calibrate":
        calibrate_by_hand(tmp_path / "sweeps")
    ask("plan", "grid.seeds=[0,1]")
    write_records(tmp_path)
    # The smaller budget is in no plan with that calibration: asking without it names the same one.
    asked = ("grid.seeds=[0,1]", *([] if mode == "calibrate" else ["budget=0.002"]))
    with counted() as counts:
        assert ask(mode, *asked) == 0
    assert counts == ONCE | OTHERWISE.get(mode, {})


@pytest.mark.parametrize(
    "mode", in_ci(("resume", "status", "analyse", "cancel", "compare"), "resume", "analyse")
)
def test_a_sweep_that_is_named_is_not_planned_again(
    mode: str, ask: Callable[..., int], tmp_path: Path
) -> None:
    ask("plan", "grid.axes={recipe.num_iterations:[1,2]}")
    write_records(tmp_path)
    (plan_file,) = tmp_path.glob("sweeps/*/plan.json")
    with counted() as counts:
        assert ask(mode, f"sweep_dir={plan_file.parent}") == 0
    # What a stored sweep would execute is looked for in all its variants before it is planned.
    assert counts == Counter(
        ONCE | {"calibrated": 0, "combinations": 2} if mode == "resume" else {}
    )


def test_a_refused_price_is_of_the_plan_that_there_is(ask: Callable[..., int]) -> None:
    with counted() as counts, pytest.raises(SettingError, match=r"launcher\.max_device_hours"):
        ask("run", "launcher.max_device_hours=1e-6")
    assert counts == ONCE


def test_one_n_more_is_priced_without_a_plan() -> None:
    config = make_config(*SWEEP, "grid.axes={recipe.num_iterations:[1,2]}")
    plan = resolve(config).plan
    with counted() as counts:
        found = further_n(plan.of_axes(plan.axes[1]), config, 8)
    assert found.settings == {"num_generations": [2, 4, 8]}
    assert counts == {"combinations": 1, "enumerate_candidates": 1}


@pytest.mark.parametrize("mode", in_ci(("status", "resume", "analyse", "cancel"), "resume"))
def test_a_calibrated_sweep_in_device_hours_is_found_again(
    mode: str, ask: Callable[..., int], tmp_path: Path
) -> None:
    asked = make_config(f"sweeps_dir={tmp_path / 'sweeps'}", *SWEEP)
    plain = plan_of(asked)
    calibrate_by_hand(tmp_path / "sweeps")
    assert plan_of(asked).plan_id != plain.plan_id
    ask("plan")
    assert ask(mode) == 0


def test_a_job_after_a_measurement_is_planned_when_its_turn_comes(tmp_path: Path) -> None:
    def job(mode: str) -> SweepConfig:
        return make_config(f"mode={mode}", f"sweeps_dir={tmp_path / 'sweeps'}", *SWEEP)

    with counted() as counts:
        prepare_all([job("plan"), job("plan")])
    assert counts["make_plan"] == 2
    with counted() as counts:
        _, plan = prepare_all([job("calibrate"), job("plan")])
    assert counts["make_plan"] == 0
    assert plan(Console(quiet=True)) == 0
    assert list(tmp_path.glob("sweeps/*/plan.json"))
