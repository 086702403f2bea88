"""`mode=plan steps=T`: does one configuration fit, how long does it take, what does it cost."""

import json
from pathlib import Path

import pytest

from isosweep.plan.study import resolve
from tests.commands import in_process
from tests.conftest import make_config, refused

ONE = ("grid.num_generations=[16]", "grid.problems_per_batch=[32]")
REAL = ("model=qwen-1.5b", "hardware.dollars_per_hour=3")


def lines_of(cwd: Path, *overrides: str) -> list[str]:
    done = in_process(("mode=plan", *ONE, "steps=200", *overrides), cwd)
    assert done.returncode == 0, done.stderr
    assert not (cwd / "sweeps").exists()
    return done.stdout.strip().split("\n")


def test_ten_lines_say_whether_it_fits_how_long_it_takes_and_what_it_costs(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, *REAL)
    assert len(lines) <= 10
    starts = [line.split(" ")[0] for line in lines]
    assert starts[1:] == [
        *("fits:", "memory", "an", "time:", "device", "compute:", "data:", "also:"),
    ]
    assert "T = 200" in lines[0]
    assert "$" in lines[5]
    # One batch of two updates: whole generations.
    odd = lines_of(tmp_path, *REAL, "recipe.num_iterations=3")
    assert "T = 201" in odd[0]


def test_what_does_not_fit_names_what_it_needs_and_the_hardware_that_has_it(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "model=qwen-7b", "hardware=h100")
    text = "\n".join(lines)
    assert len(lines) <= 10
    assert "does not fit: n x B = 16 x 32 = 512 needs 154.1 GB a device" in text
    assert "more room: hardware=b200" in text
    assert "time:" not in text
    assert "fits" in lines_of(tmp_path, "model=qwen-7b", "hardware=b200")[1]


def test_its_numbers_are_those_of_the_sweep_that_plans_it(tmp_path: Path) -> None:
    several = ("grid.num_generations=[16,64]", "format=json")
    document = json.loads("\n".join(lines_of(tmp_path, *REAL, *several)))
    assert document["version"] == 1
    run, larger = document["runs"]
    assert (run["num_generations"], larger["num_generations"]) == (16, 64)
    budget = (f"budget={200 * 16 * 32}", "budget_unit=rollouts")
    plan = resolve(make_config(*REAL, *ONE, *budget, "grid.seeds=[0]")).plan
    (cell,), (planned,) = plan.cells, plan.runs
    assert (run["num_steps"], run["rollouts"]) == (cell.num_steps, cell.planned_compute)
    assert run["seconds"] == pytest.approx(planned.seconds)
    assert run["device_hours"] == pytest.approx(cell.device_hours)
    assert run["dollars"] == pytest.approx(3 * run["device_hours"])
    assert run["flops"] == pytest.approx(planned.planned_flops)
    trained = 200 * sum(run["step_seconds"].values())
    beside = run["evaluation_seconds"] + run["startup_seconds"]
    assert run["seconds"] == pytest.approx(trained + beside)
    # Weights, gradients and AdamW's two states in float32.
    assert run["memory"]["optimizer"] == 2 * run["memory"]["weights"]
    assert run["needed"] <= run["usable"]


def test_steps_are_for_single_runs_alone(tmp_path: Path) -> None:
    assert "steps=200: describes single runs" in refused(
        "mode=plan", *ONE, "steps=200", "budget=1e10", cwd=tmp_path
    )
    assert "steps=200: is for mode=plan" in refused(*ONE, "steps=200", cwd=tmp_path)
