"""The analysis against simulated truth, and `mode=simulate`."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from isosweep.analysis.simulation.power import Power, measure_power
from isosweep.analysis.simulation.worlds import worlds
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from tests.conftest import isosweep, make_config, plan_of


@cache
def the_plan() -> Plan:
    return plan_of(
        make_config(
            "model=qwen-0.5b",
            "budget=logspace:1e18:1e20:5",
            "grid=fix_B",
            "grid.seeds=[0,1,2,3]",
            "grid.tolerance=0.05",
            "grid.max_epochs=1e6",
        )
    )


PRESETS = worlds(1e19, smallest_n=8, largest_n=2048)


def power(name: str, sweeps: int) -> Power:
    return measure_power(
        the_plan(),
        PRESETS[name],
        AnalysisConfig(name="default"),
        sweeps=sweeps,
        seed=1,
        num_problems=256,
        samples_per_problem=8,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["easy", "flat", "growing"])
def test_intervals_hold_the_truth_and_saturation_is_not_invented(name: str) -> None:
    result = power(name, sweeps=20)
    assert sum(result.verdicts.values()) == pytest.approx(1)
    if name != "flat":
        # 90% is promised; 20 sweeps x 5 budgets, correlated, distinguish it from 80% or less.
        covered = [at.covered for at in result.budgets if at.covered is not None]
        assert sum(covered) / len(covered) >= 0.82
    if name != "easy":
        assert result.verdicts.get("saturated", 0.0) == 0.0
    if name == "growing":
        # Runs end before their A shows: of 180 hardly any is given.
        assert result.num_asymptotes <= 18
    else:
        assert result.asymptote_covered is not None
        assert result.asymptote_covered >= 0.8


def test_a_planted_plateau_is_detected_where_the_design_has_power() -> None:
    plan = plan_of(
        make_config(
            "model=qwen-0.5b",
            "task=sort_instruct",
            "recipe=isocompute_easy",
            "budget=logspace:1e18:1e21:10",
            "grid=fix_B",
            "grid.seeds=[0,1,2,3,4,5,6,7]",
            "grid.tolerance=0.05",
            "grid.max_epochs=1e6",
            "grid.max_steps=1e9",
        )
    )
    world = worlds(10**19.5, smallest_n=8, largest_n=2048)["quiet"]
    result = measure_power(
        plan,
        world,
        AnalysisConfig(name="default"),
        sweeps=4,
        seed=3,
        num_problems=1000,
        samples_per_problem=16,
    )
    assert result.verdicts == {"saturated": 1.0}
    assert result.plateau == pytest.approx(512, rel=0.02)
    assert result.plateau_width is not None
    assert result.plateau_width < 0.8


def test_the_playbooks_method_calls_a_world_without_effect_saturated() -> None:
    """What it gets wrong, and why ours is not that method."""
    result = measure_power(
        the_plan(),
        PRESETS["flat"],
        AnalysisConfig(name="default", method="playbook"),
        sweeps=8,
        seed=1,
        num_problems=256,
        samples_per_problem=8,
    )
    assert result.verdicts.get("saturated", 0.0) >= 0.25


@pytest.mark.slow
def test_less_noise_narrows_the_intervals() -> None:
    loud = PRESETS["easy"]
    silent = replace(loud, seed_gain_sd=0.001, seed_midpoint_sd=0.001, wander_sd=0.0)
    widths = []
    for world in (loud, silent):
        result = measure_power(
            the_plan(),
            world,
            AnalysisConfig(name="default"),
            sweeps=10,
            seed=0,
            num_problems=2000,
            samples_per_problem=32,
        )
        widths.append(sum(at.width or 0.0 for at in result.budgets))
    assert widths[1] < 0.8 * widths[0]


def test_simulate_says_what_a_plan_could_find(tmp_path: Path) -> None:
    settings = ("mode=simulate", "simulation.sweeps=3", "simulation.worlds=[easy,flat]")
    printed = isosweep(*settings, cwd=tmp_path).stdout
    assert "world easy, 3 sweeps:" in printed
    assert "(true: n does not matter)" in printed
    (file,) = tmp_path.glob("sweeps/*/simulation.json")
    document = json.loads(file.read_text())
    assert [world["world"] for world in document["worlds"]] == ["easy", "flat"]
    assert not list(tmp_path.glob("sweeps/runs/*"))
    again = isosweep(*settings, cwd=tmp_path).stdout
    assert again == printed
    wrong = isosweep("mode=simulate", "simulation.worlds=[esy]", cwd=tmp_path, check=False)
    assert wrong.returncode == 2
    assert "Nearest choice that works: simulation.worlds=easy" in wrong.stderr
