"""`search=tune` from the command line: real runs, what is said and stored, and the grid after."""

import json
from pathlib import Path

import jsonschema
import pytest

from isosweep.analysis.schema import GOLDEN
from isosweep.store.claims import highest
from tests.commands import in_process
from tests.conftest import SMALL, isosweep, make_config, plan_of, refused
from tests.modes.sweeps import QUIET, runs

pytestmark = pytest.mark.train

RATES = "grid.axes={recipe.learning_rate:[3e-5,1e-4,3e-4]}"
# Of fewer evaluations it could not be said that anything was learned.
SURE = (
    *("evaluation.samples_per_problem=8", "task.num_eval_problems=256", "grid.min_steps=2"),
    "evaluation.records_per_decade=1",
)
GRID = (*SMALL, *QUIET, *SURE, "grid.seeds=[0,1]")
TUNE = (*GRID, RATES, "search=tune", "budget=[1.6e9,3.2e9]")


def test_a_rate_is_tuned_and_the_grid_goes_on_with_it(tmp_path: Path) -> None:
    planned = in_process((*TUNE, "mode=plan"), tmp_path).stdout
    assert "recipe.learning_rate over 3 values from 3e-05 to 0.0003, tuned at n = 2" in planned
    assert "of training every value at 2 seeds to the end (search.max_compute)" in planned
    done = isosweep(*TUNE, cwd=tmp_path).stdout
    assert "search: stopped: n=2 B=4: " in done
    assert "At n = 2, B = 4 and " in done
    (found,) = tmp_path.glob("sweeps/*/analysis/tuning.json")
    tuning = json.loads(found.read_text())
    schema = json.loads(GOLDEN["tuning"].read_text())
    jsonschema.validate({k: v for k, v in tuning.items() if k in schema["properties"]}, schema)
    assert 0 < tuning["share"] <= 1.02
    handed = tuning["settings_for_the_grid"]
    rate = handed["recipe.learning_rate"]
    page = found.with_name("report.html").read_text()
    assert f"recipe.learning_rate={rate:g}" in page
    assert "What was trained, in order" in page
    attempts = {run.root.name: highest(run.attempts) for run in runs(tmp_path)}
    listed = in_process(("mode=status",), tmp_path).stdout
    assert f"verdict: recipe.learning_rate={rate}" in listed
    said = refused("mode=recommend", "budget=3.2e9", cwd=tmp_path)
    assert "is of search=tune, and mode=recommend is about n*(C)" in said
    isosweep(*TUNE, cwd=tmp_path)
    assert {run.root.name: highest(run.attempts) for run in runs(tmp_path)} == attempts
    rule = handed.get("recipe.learning_rate_rule", "constant")
    given = (f"recipe.learning_rate={rate}", f"recipe.learning_rate_rule={rule}")
    grid = make_config(*GRID, *given, "budget=3.2e9")
    planned_runs = {run.run_id for run in plan_of(grid).runs if run.num_generations == 2}
    assert len(planned_runs) == 2
    assert planned_runs <= attempts.keys()
