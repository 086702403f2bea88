"""What `mode=next` prices is what a search would ask next, and is planned so."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.errors import SettingError
from isosweep.modes.analyse import settings_with
from isosweep.modes.next import propose_next
from isosweep.modes.sweeps import read_sweep, store_plan, sweep_paths
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import resolve
from isosweep.search.asking import Search
from isosweep.store.attempts import Status
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import printed, reported, submitted, terminal
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


def test_what_is_proposed_is_the_search_that_its_command_begins(tmp_path: Path) -> None:
    name = planned(tmp_path)
    train(tmp_path, name)
    document = proposed(tmp_path, f"sweep=[{name}]")
    found = read_sweep(Path(document["command"].rpartition("sweep=")[2]))
    own = {run.run_id for run in read_sweep(tmp_path / "sweeps" / name).plan.runs}
    assert own <= {run.run_id for run in found.plan.runs}
    # A larger budget would ask another question.
    assert found.plan.budgets == (6.4e9, 1.28e10)
    assert sorted({run.seed for run in found.plan.runs}) == [0, 1, 2, 3]
    # The plan that is trained is the one that was valued.
    assert found.study().plan.plan_id == found.plan.plan_id
    steps = document["steps"]
    limit = (found.config.search.max_compute or 0.0) / (
        document["spent"] + sum(step["compute"] for step in steps)
    )
    assert 1 <= limit <= 1.01
    begun = {path.name for path in (tmp_path / "sweeps" / "runs").iterdir()}
    assert begun == own
    search = Search(found.plan, found.paths, found.config, places=8)
    search.open()
    asked = [step.run_id for step in search.next({})]
    assert asked == [step["run_id"] for step in steps]
    # Once it is launched it keeps its limit: what is proposed then has a directory of its own.
    found.paths.drivers.mkdir()
    assert proposed(tmp_path, f"sweep=[{name}]")["command"] == f"{document['command']}-2"


def test_proposals_keep_to_the_limit_and_are_priced_in_words(tmp_path: Path) -> None:
    name = planned(tmp_path)
    train(tmp_path, name, to=2)
    little = proposed(tmp_path, f"sweep=[{name}]", "search.max_compute=1e9")
    assert (little["steps"], little["command"]) == ([], None)
    assert "search.max_compute=1e+09 flops is spent" in little["stop"]
    whole = said(tmp_path, f"sweep=[{name}]")
    assert re.search(r"n = \d, B = 4, seed \d to \S+ \(\S+ FLOPs more.*\): ", whole), whole
    assert f"mode=resume sweep={tmp_path}" in "".join(whole.split("\n"))


def test_a_run_that_ended_without_a_reward_is_not_proposed(tmp_path: Path) -> None:
    name = planned(tmp_path)
    train(tmp_path, name)
    before = proposed(tmp_path, f"sweep=[{name}]")
    place = before["steps"][0]["run_id"]
    further = read_sweep(Path(before["command"].rpartition("sweep=")[2]))
    (run,) = (run for run in further.plan.runs if run.run_id == place)
    reported(submitted(further.paths.run(place)), Status.FINISHED, 1.0, run)
    steps = proposed(tmp_path, f"sweep=[{name}]")["steps"]
    assert steps
    assert place not in [step["run_id"] for step in steps]


def test_a_sweep_without_records_and_several_are_refused(tmp_path: Path) -> None:
    name = planned(tmp_path)
    with pytest.raises(SettingError, match=r"^sweep=.*none of its runs has a record.*mode=resume"):
        proposed(tmp_path, f"sweep=[{name}]")
    with pytest.raises(SettingError, match=r"^sweep=.*mode=next takes one sweep"):
        proposed(tmp_path, f"sweep=[{name},{name}]")


def test_what_is_offered_brings_its_batch_where_n_x_b_is_fixed() -> None:
    grid = make_config(
        *("grid.num_generations=[4,8,16]", "grid.problems_per_batch=[4,8,16]"),
        "grid.completions_per_step=[64]",
    ).grid
    settings = {"num_generations": [4, 8, 16, 32], "problems_per_batch": [2, 4, 8, 16]}
    assert settings_with(grid, 32) == settings
    assert settings_with(grid, 8) == {}
