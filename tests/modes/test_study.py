"""What a config implies is worked out once, whatever the mode."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.launchers.queue import RunQueue
from isosweep.modes.dispatch import prepare, prepare_all
from isosweep.plan import study
from isosweep.plan.make import make_plan
from tests.conftest import SMALL, in_ci, make_config
from tests.modes.sweeps import write_records

# A sweep in device-hours, whose plan times decide.
SWEEP = (*SMALL, "budget_unit=device_hours", "budget=[0.001,0.002]", "grid.tolerance=0.3")
# Two variants of it, which can be compared.
AXES = "grid.axes={recipe.num_iterations:[1,2]}"


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[SweepConfig]:
    """The settings of which plans were made, in order."""
    made: list[SweepConfig] = []

    def noted(config: SweepConfig, tables: Any) -> Any:
        made.append(config)
        return make_plan(config, tables)

    monkeypatch.setattr(study, "make_plan", noted)
    return made


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Do what a mode does in `tmp_path`, but let no run start."""
    monkeypatch.setattr(RunQueue, "add", lambda self, items: None)

    def asked(mode: str, *overrides: str) -> int:
        sweeps = f"sweeps_dir={tmp_path / 'sweeps'}"
        config = make_config(f"mode={mode}", "tracking=none", sweeps, *SWEEP, *overrides)
        return prepare(config)(Console(quiet=True))

    return asked


# How often a mode plans.
CASES = [
    *((mode, 1) for mode in ("plan", "run", "launch", "resume")),
    *((mode, 0) for mode in ("status", "cancel", "analyse", "compare", "recommend")),
]


@pytest.mark.parametrize(
    ("mode", "often"),
    in_ci(CASES, *(case for case in CASES if case[0] in ("run", "resume"))),
)
def test_a_mode_plans_no_more_than_it_has_to(
    *, mode: str, often: int, ask: Callable[..., int], plans: list[Any], tmp_path: Path
) -> None:
    ask("plan", AXES)
    write_records(tmp_path)
    plans.clear()
    assert ask(mode, AXES) == 0
    assert len(plans) == often


def test_a_job_after_a_measurement_is_planned_when_its_turn_comes(
    plans: list[Any], tmp_path: Path
) -> None:
    def job(mode: str) -> SweepConfig:
        return make_config(f"mode={mode}", f"sweeps_dir={tmp_path / 'sweeps'}", *SWEEP)

    prepare_all([job("plan"), job("plan")])
    assert len(plans) == 2
    _, plan = prepare_all([job("difficulty"), job("plan")])
    assert len(plans) == 2
    assert plan(Console(quiet=True)) == 0
    assert list(tmp_path.glob("sweeps/*/plan.json"))
