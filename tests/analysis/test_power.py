"""The analysis against simulated truth, and `mode=simulate`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.analysis.power import Power, measure_power
from isosweep.plan import make_plan
from isosweep.settings import AnalysisConfig
from isosweep.simulator import worlds
from tests.conftest import isosweep, make_config

PLAN = make_plan(
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


def power(name: str, sweeps: int = 40) -> Power:
    return measure_power(
        PLAN,
        PRESETS[name],
        AnalysisConfig(name="default"),
        sweeps=sweeps,
        seed=1,
        num_problems=256,
        samples_per_problem=8,
    )


@pytest.mark.parametrize("name", ["easy", "hard", "flat", "growing"])
def test_the_set_of_best_n_holds_the_truly_best(name: str) -> None:
    found = power(name)
    # 90% is promised; 40 sweeps x 5 budgets, correlated, tell 0.90 from 0.84 or less.
    held = [at.held for at in found.budgets]
    assert sum(held) / len(held) >= 0.88
    assert sum(found.verdicts.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", ["flat", "growing"])
def test_saturation_is_not_claimed_where_there_is_none(name: str) -> None:
    assert power(name).verdicts.get("saturated", 0.0) <= 0.025


def test_less_noise_narrows_the_sets() -> None:
    loud = PRESETS["easy"]
    silent = replace(loud, seed_gain_sd=0.001, seed_midpoint_sd=0.001, wander_sd=0.0)
    sizes = []
    for world in (loud, silent):
        found = measure_power(
            PLAN,
            world,
            AnalysisConfig(name="default"),
            sweeps=10,
            seed=0,
            num_problems=2000,
            samples_per_problem=32,
        )
        sizes.append(sum(at.set_size for at in found.budgets))
    assert sizes[1] < 0.8 * sizes[0]


def test_simulate_says_what_a_plan_could_find(tmp_path: Path) -> None:
    settings = ("mode=simulate", "simulation.sweeps=3", "simulation.worlds=[easy,flat]")
    told = isosweep(*settings, cwd=tmp_path).stdout
    assert "world easy, 3 sweeps:" in told
    assert "(true: flat)" in told
    (file,) = tmp_path.glob("sweeps/*/simulation.json")
    document = json.loads(file.read_text())
    assert [world["world"] for world in document["worlds"]] == ["easy", "flat"]
    assert not list(tmp_path.glob("sweeps/runs/*"))
    again = isosweep(*settings, cwd=tmp_path).stdout
    assert again == told
    wrong = isosweep("mode=simulate", "simulation.worlds=[esy]", cwd=tmp_path, check=False)
    assert wrong.returncode == 2
    assert "Nearest choice that works: simulation.worlds=easy" in wrong.stderr
