"""`search=tune`: the grid that is planned in the place of the sweep's own."""

import pytest

from isosweep.plan.study import resolve, resolve_stored
from isosweep.plan.value_grid import tuned
from tests.conftest import make_config

RATE = "recipe.learning_rate"
TUNE = ("search=tune", "grid.num_generations=[4,8,16,32,64,128]", "budget=3.24e11")


def test_the_rate_is_tuned_at_two_cells_over_four_budgets() -> None:
    config = tuned(make_config(*TUNE))
    assert config.grid.axes == {RATE: [3.75e-5, 7.5e-5, 1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.4e-3, 4.8e-3]}
    # 128 takes 5 steps at the smallest budget, and grid.min_steps is 10.
    assert config.search.cells == [[8, 4], [64, 4]]
    assert config.budgets == (4.05e10, 8.1e10, 1.62e11, 3.24e11)
    assert config.search.max_compute == pytest.approx(2 * 8 * 3 * 3.24e11 / 3)


def test_the_plan_has_every_value_and_seed_at_both_cells_and_no_other_cell() -> None:
    plan = resolve(make_config(*TUNE, "search.cells=[[8,4],[32,2]]")).plan
    cells = {(run.num_generations, run.problems_per_batch) for run in plan.runs}
    assert cells == {(8, 4), (32, 2)}
    assert len(plan.runs) == 2 * 8 * 3
    assert not plan.rejected


def test_a_grid_with_the_value_that_was_chosen_shares_its_runs() -> None:
    tune = resolve(make_config(*TUNE)).plan
    grid = resolve(make_config(*TUNE[1:], f"{RATE}=7.5e-5")).plan
    shared = {run.run_id for run in tune.runs} & {run.run_id for run in grid.runs}
    assert len(shared) == 2 * 3


def test_a_stored_sweep_is_planned_as_it_was() -> None:
    study = resolve(make_config(*TUNE))
    assert resolve_stored(study.config).plan == study.plan
    assert resolve(study.config).plan == study.plan


def test_four_budgets_that_are_given_and_a_limit_are_kept() -> None:
    given = ("budget=[5e10,1e11,2e11,3e11]", "search.max_compute=2e12")
    config = tuned(make_config(*TUNE[:2], *given))
    assert config.budgets == (5e10, 1e11, 2e11, 3e11)
    assert config.search.max_compute == 2e12


def test_the_second_cell_is_one_that_runs_can_be_ended_early_at() -> None:
    # No n takes ten steps at the smallest budgets.
    budgets = "budget=[1e9,2e9,4e10,8e10,1.6e11,3.2e11]"
    study = resolve(make_config("search=tune", TUNE[1], budgets))
    assert {len(run.milestones) for run in study.plan.runs} == {4}


def test_the_limit_pays_for_two_seeds_of_every_value_at_least() -> None:
    # n = 128 takes ten steps at the largest budget alone.
    tune = ("search=tune", "search.cells=[[128,4]]", "grid.seeds=[0,1]", "budget=9e10")
    config = tuned(make_config(*tune))
    assert config.search.max_compute == pytest.approx(8 * 2 * 9e10, rel=0.05)


def test_one_n_is_tuned_without_a_second_cell() -> None:
    config = tuned(make_config("search=tune", "grid.num_generations=[8]", "budget=3.24e11"))
    assert config.search.cells == [[8, 4]]
