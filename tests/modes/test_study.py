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
from isosweep.launchers.queue import RunQueue
from isosweep.modes.dispatch import ANALYSES, FUNCTIONS, prepare, prepare_all
from isosweep.plan.calibration import calibrated
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import make_plan
from tests.conftest import SMALL, in_ci, make_config
from tests.modes.sweeps import write_records

COUNTED = (calibrated, combinations, choose_variants, enumerate_candidates, make_plan)
ONCE = {function.__name__: 1 for function in COUNTED}
# A sweep in device-hours, whose plan times decide.
SWEEP = (*SMALL, "budget_unit=device_hours", "budget=[0.001,0.002]", "grid.tolerance=0.3")


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


# How often each is executed where that is not once.
OTHERWISE = {
    # The config that is asked, to find the sweep; and the one that the sweep was stored with.
    "resume": dict.fromkeys(ONCE, 2) | {"calibrated": 1},
}
MODES = ("plan", "run", "launch", "resume", "cancel", "analyse", "recommend")


@pytest.mark.parametrize("mode", in_ci(MODES, "plan", "run", "resume", "cancel"))
def test_a_mode_resolves_its_config_once(
    mode: str, ask: Callable[..., int], tmp_path: Path
) -> None:
    ask("plan", "grid.seeds=[0,1]")
    write_records(tmp_path)
    with counted() as counts:
        assert ask(mode, "grid.seeds=[0,1]") == 0
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
    assert counts == Counter(ONCE | {"calibrated": 0} if mode == "resume" else {})


def test_a_job_after_a_measurement_is_planned_when_its_turn_comes(tmp_path: Path) -> None:
    def job(mode: str) -> SweepConfig:
        return make_config(f"mode={mode}", f"sweeps_dir={tmp_path / 'sweeps'}", *SWEEP)

    with counted() as counts:
        prepare_all([job("plan"), job("plan")])
    assert counts["make_plan"] == 2
    with counted() as counts:
        _, plan = prepare_all([job("difficulty"), job("plan")])
    assert counts["make_plan"] == 0
    assert plan(Console(quiet=True)) == 0
    assert list(tmp_path.glob("sweeps/*/plan.json"))
