"""What `mode=next` proposes is planned as it would be; one n more is offered, or kept out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.errors import SettingError
from isosweep.modes.analyse import analyse_sweep, settings_with
from isosweep.modes.next import propose_next
from isosweep.modes.sweeps import read_sweep, store_plan, sweep_paths
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import resolve
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import printed, terminal
from tests.modes.sweeps import recorded

TWO_SEEDS = (*SMALL, "budget=[6.4e9,1.28e10]", "grid.seeds=[0,1]", "tracking=none")


def planned(tmp_path: Path, *overrides: str) -> str:
    study = resolve(make_config(*TWO_SEEDS, f"sweeps_dir={tmp_path / 'sweeps'}", *overrides))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return paths.root.name


def train(
    tmp_path: Path, name: str, *, to: int = 1, gain: Callable[[PlannedRun], int] = lambda run: 0
) -> None:
    """Every run up to so many of its milestones, with rewards that differ between seeds, and rise
    by `gain`."""
    sweep = read_sweep(tmp_path / "sweeps" / name)
    for place, run in enumerate(sweep.plan.runs):
        more = (gain(run) or 3 * place) + run.seed
        taken = [(0, 0.0, 0)] + [
            (round(run.num_steps * at / run.milestones[-1]), at, 4 + more * k)
            for k, at in enumerate(run.milestones[:to], start=1)
        ]
        recorded(
            sweep.paths.run(run.run_id),
            (
                (
                    Compute(generations=step, rollouts=8 * step, training_flops=flops),
                    (1,) * (16 + right) + (0,) * (16 - right),
                )
                for step, flops, right in taken
            ),
        )


def said(tmp_path: Path, *overrides: str) -> str:
    console = terminal()
    config = make_config("mode=next", f"sweeps_dir={tmp_path / 'sweeps'}", *overrides)
    assert propose_next(config, console) == 0
    return printed(console)


def proposed(tmp_path: Path, *overrides: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(said(tmp_path, "format=json", *overrides))
    return document


def test_what_is_proposed_is_planned_with_the_runs_that_there_are(tmp_path: Path) -> None:
    name = planned(tmp_path)
    train(tmp_path, name)
    document = proposed(tmp_path, f"sweep=[{name}]", "search.max_compute=1e11")
    (variant,) = document["variants"]
    found = read_sweep(Path(document["command"].rpartition("sweep=")[2]))
    ids = {run.run_id for run in found.plan.runs}
    own = {run.run_id for run in read_sweep(tmp_path / "sweeps" / name).plan.runs}
    assert own <= ids
    # A larger budget would ask another question.
    assert found.plan.budgets == (6.4e9, 1.28e10)
    assert {step["run_id"] for step in variant["steps"]} <= ids
    # The plan that is trained is the one that was valued.
    assert found.study().plan.plan_id == found.plan.plan_id
    added = sum(step["compute"] for step in variant["steps"])
    limit = (found.config.search.max_compute or 0.0) / (document["spent"] + added)
    assert 1 <= limit <= 1.01
    begun = {path.name for path in (tmp_path / "sweeps" / "runs").iterdir()}
    assert begun == own
    # Once it is launched it keeps its limit: what is proposed then has a directory of its own.
    again = (f"sweep=[{name}]", "search.max_compute=1e11")
    assert proposed(tmp_path, *again)["command"] == document["command"]
    found.paths.drivers.mkdir()
    assert proposed(tmp_path, *again)["command"] == f"{document['command']}-2"


def test_a_sweep_without_records_and_several_are_refused(tmp_path: Path) -> None:
    name = planned(tmp_path)
    with pytest.raises(SettingError, match=r"^sweep=.*none of its runs has a record.*mode=resume"):
        proposed(tmp_path, f"sweep=[{name}]")
    with pytest.raises(SettingError, match=r"^sweep=.*mode=next takes one sweep"):
        proposed(tmp_path, f"sweep=[{name},{name}]")


def test_the_report_and_the_proposal_begin_with_the_same_n(tmp_path: Path) -> None:
    name = planned(tmp_path, "grid.num_generations=[4,8,16]", "budget=[2e10,4e10,8e10]")
    train(tmp_path, name, to=3, gain=lambda run: run.num_generations // 4)
    sweep = read_sweep(tmp_path / "sweeps" / name)
    analyse_sweep(sweep, terminal())
    step, *_ = json.loads(sweep.paths.answer.read_text())["next_steps"]
    of = (f"sweep=[{name}]", "search.max_compute=1e12")
    assert step["settings"] == {"num_generations": [4, 8, 16, 32]}
    (variant,) = proposed(tmp_path, *of)["variants"]
    assert {step["num_generations"] for step in variant["steps"]} == {32}


def test_what_is_offered_brings_its_batch_where_n_x_b_is_fixed() -> None:
    grid = make_config(
        *("grid.num_generations=[4,8,16]", "grid.problems_per_batch=[4,8,16]"),
        "grid.completions_per_step=[64]",
    ).grid
    settings = {"num_generations": [4, 8, 16, 32], "problems_per_batch": [2, 4, 8, 16]}
    assert settings_with(grid, 32) == settings
    assert settings_with(grid, 8) == {}
