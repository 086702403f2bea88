"""The plan: every candidate is a cell or a rejection with its numbers."""

import json
from dataclasses import asdict, replace

import pytest

from isosweep.errors import SettingError
from isosweep.plan import Plan, completion_cost, make_plan, plan_from_document
from isosweep.spec import run_spec
from tests.conftest import make_config


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model=qwen-1.5b", "budget=[1e19,1e20]"),
        ("budget_unit=rollouts", "budget=[1000,10000]"),
        ("budget_unit=tokens", "budget=1e5"),
    ],
)
def test_cells_and_rejections_partition_the_candidates(overrides: tuple[str, ...]) -> None:
    config = make_config(*overrides)
    plan = make_plan(config)
    grid = config.grid
    candidates = {
        (n, B, seed, budget)
        for n in grid.num_generations
        for B in grid.problems_per_batch
        for seed in grid.seeds
        for budget in config.budgets
    }
    planned = [(c.num_generations, c.problems_per_batch, c.seed, c.budget) for c in plan.cells]
    entries = planned + [
        (r.num_generations, r.problems_per_batch, r.seed, r.budget) for r in plan.rejected
    ]
    assert len(entries) == len(candidates)
    assert set(entries) == candidates
    cost, _ = completion_cost(config)
    for cell in plan.cells:
        spent = cell.num_generations * cell.problems_per_batch * cell.num_steps * cost
        assert spent == pytest.approx(cell.planned_compute)
        assert abs(spent / cell.budget - 1) <= grid.tolerance
    assert all(rejection.reason and rejection.rule for rejection in plan.rejected)


def test_cells_that_differ_only_in_budget_share_one_run() -> None:
    plan = make_plan(make_config())
    assert len(plan.runs) == len(
        {(c.num_generations, c.problems_per_batch, c.seed) for c in plan.cells}
    )
    for run in plan.runs:
        budgets = tuple(c.budget for c in plan.cells if c.run_id == run.run_id)
        assert run.milestones == tuple(sorted(budgets))
    assert plan.sharing < 1


def test_a_micro_batch_that_does_not_divide_is_a_reason() -> None:
    plan = make_plan(make_config("recipe.micro_batch=16"))
    broken = [r for r in plan.rejected if r.rule == "recipe.micro_batch"]
    assert {r.num_generations * r.problems_per_batch for r in broken} == {8}
    assert all("not a multiple of 16" in r.reason for r in broken)


def test_a_grid_with_no_feasible_cell_says_which_rule_and_what_works() -> None:
    with pytest.raises(SettingError, match=r"micro_batch.*not a multiple of 3"):
        make_plan(make_config("recipe.micro_batch=3", "grid.num_generations=[4]"))
    with pytest.raises(SettingError, match=r"grid.min_steps.*larger budget"):
        make_plan(make_config("budget=1e6"))


def test_a_run_is_identified_by_what_changes_its_numbers_and_nothing_else() -> None:
    config = make_config()

    def run_id(changed: object) -> str:
        return run_spec(changed, num_generations=4, problems_per_batch=4, seed=0).run_id  # type: ignore[arg-type]

    base = run_id(config)
    assert run_id(replace(config, budget=[1e9])) == base
    assert run_id(replace(config, tracking=replace(config.tracking, max_points=3))) == base
    assert run_id(replace(config, recipe=replace(config.recipe, name="mine"))) == base
    assert run_id(replace(config, recipe=replace(config.recipe, learning_rate=1e-3))) != base
    assert run_id(replace(config, task=replace(config.task, levels=[7]))) != base
    assert run_id(replace(config, hardware=replace(config.hardware, dtype="bfloat16"))) != base


def test_the_stored_plan_is_the_plan() -> None:
    plan = make_plan(make_config())
    restored: Plan = plan_from_document(json.loads(json.dumps(asdict(plan))))
    assert restored == plan
    assert restored.plan_id == plan.plan_id
