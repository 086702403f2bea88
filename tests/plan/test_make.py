"""The plan: every candidate is a cell or a rejection with its numbers."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isosweep.compute import BudgetUnit
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.costs.flops import forward_flops
from isosweep.errors import RecordError, SettingError
from isosweep.plan.cells import Plan, plan_from_document, predicted
from isosweep.plan.study import plan_document, resolve
from isosweep.words.plan import totals
from tests.conftest import candidates_of, make_config, plan_of

TWO_NODES = (
    *("hardware=h100", "launcher=slurm"),
    *("hardware.devices_per_run=16", "hardware.sharding=fsdp"),
)


def tiny() -> SweepConfig:
    return make_config()


grids = st.fixed_dictionaries(
    {
        "num_generations": st.lists(st.integers(2, 64), min_size=1, max_size=4, unique=True),
        "problems_per_batch": st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
        "seeds": st.lists(st.integers(0, 9), min_size=1, max_size=2, unique=True),
        "tolerance": st.sampled_from([0.001, 0.01, 0.1]),
        "min_steps": st.sampled_from([1, 10]),
        "max_epochs": st.sampled_from([1.0, 100.0]),
    }
)
units = st.sampled_from(["flops", "rollouts", "tokens", "device_hours"])
# Budgets in steps of the whole grid's smallest cell, whatever the unit.
multiples = st.lists(st.floats(5, 5000), min_size=1, max_size=3, unique=True)


def drawn(
    base: SweepConfig, grid: dict[str, Any], unit: BudgetUnit, steps: list[float]
) -> SweepConfig:
    """`base` with this grid, and budgets of so many steps of its smallest cell."""
    config = replaced(base, grid=replaced(base.grid, **grid), budget_unit=unit, budget=(1.0,))
    smallest = float(candidates_of(config)[0].cost.min())
    return replaced(config, budget=tuple(smallest * count for count in steps))


def planned(config: SweepConfig) -> Plan | None:
    try:
        return plan_of(config)
    except SettingError:
        return None


@settings(max_examples=30)
@given(grids, units, multiples, st.randoms())
def test_the_order_of_lists_changes_nothing(
    grid: dict[str, Any], unit: BudgetUnit, steps: list[float], order: Any
) -> None:
    config = drawn(tiny(), grid, unit, steps)
    lists = {"num_generations", "problems_per_batch", "seeds"}
    mixed = {k: order.sample(v, len(v)) if k in lists else v for k, v in grid.items()}
    shuffled = replaced(
        config,
        grid=replaced(config.grid, **mixed),
        budget=order.sample(list(config.budgets), len(config.budgets)),
    )
    assert planned(shuffled) == planned(config)


def test_an_axis_costs_each_candidate_with_its_own_value() -> None:
    config = make_config(
        "grid.seeds=[0]",
        "grid.tolerance=0.1",
        "grid.axes={recipe.num_iterations:[1,2],model:[tiny,smollm2-135m]}",
        "budget=[1e12]",
        "grid.min_steps=1",
        "grid.max_epochs=1e9",
    )
    tables = candidates_of(config)
    assert [table.variant.axes for table in tables] == [
        {"recipe.num_iterations": k, "model": model}
        for k in (1, 2)
        for model in ("tiny", "smollm2-135m")
    ]
    once, large, twice, _ = tables
    assert large.flops[0, 0] > 100 * once.flops[0, 0]
    # Two updates share one generation and one more log-probability pass.
    arch, task = config.model.architecture, config.task
    prompt, completion = task.planned_prompt_tokens, task.planned_completion_tokens
    generation = once.flops[0, 0] / once.completions[0, 0] - 3 * forward_flops(
        arch, prompt, completion
    )
    shared = (generation + 7 * forward_flops(arch, prompt, completion)) / 2
    assert twice.flops[0, 0] == pytest.approx(shared * twice.completions[0, 0])
    assert (twice.steps % 2 == 0).all()
    plan = plan_of(config)
    ids = {json.dumps(run.axes): run.run_id for run in plan.runs}
    assert len(set(ids.values())) == len(ids)
    assert {run.run_id for run in plan.runs} == set(resolve(config).specs)


@pytest.mark.parametrize(
    ("recipe", "draws"),
    [
        ((), 1),
        # Updates with the same rollouts are no further passes.
        (("recipe.num_iterations=2",), 1 / 2),
        (("recipe.zero_variance=resample", "recipe.max_draws=4", "recipe.planned_draws=2"), 2),
    ],
)
def test_an_epoch_is_all_problems_drawn_once(recipe: tuple[str, ...], draws: float) -> None:
    overrides = ["budget=1e12", "grid.tolerance=0.05", "grid.seeds=[0]", "grid.max_steps=100000"]
    overrides += ["grid.num_generations=[2,4,8,16,32]", "task.num_train_problems=1024"]
    plan = plan_of(make_config(*overrides, "grid.max_epochs=10", *recipe))
    refused = [r for r in plan.rejected if "grid.max_epochs" in r.rules]
    assert refused
    assert all(c.num_steps * draws * c.problems_per_batch / 1024 <= 10 for c in plan.cells)
    assert all(r.num_steps * draws * r.problems_per_batch / 1024 > 10 for r in refused)


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=qwen-7b", "hardware=h100"),
        ("model=qwen-3b", "hardware=h100", "generation=transformers", "hardware.memory_reserve=0"),
        ("model=qwen-7b", "hardware=h100", "generation.sleep=true", "hardware.memory_reserve=0.3"),
        ("model=qwen-72b", *TWO_NODES),
        ("model=qwen-7b", "hardware=h100", "budget=1e13"),
    ],
)
def test_a_refusal_names_a_memory_that_works(overrides: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match="GB more than") as caught:
        plan_of(make_config("budget=1e21", *overrides))
    assert caught.value.nearest.startswith("hardware.memory_gb=")
    assert plan_of(make_config("budget=1e21", *overrides, *caught.value.nearest.split())).cells


@pytest.mark.parametrize(("devices", "nodes"), [(8, 1), (16, 2)])
def test_more_devices_than_a_node_has_are_planned_on_several(devices: int, nodes: int) -> None:
    asked = ("model=qwen-7b", "budget=1e21", *TWO_NODES, f"hardware.devices_per_run={devices}")
    study = resolve(make_config(*asked))
    much = {"flops": 1e21, "device_hours": 1.0, "hours": 1.0}
    *_, last = totals(study.plan, study.config.hardware, **much, places=None)
    assert (last == "each run takes 16 devices: 2 nodes x 8") == (nodes == 2)
    (cost_model,) = plan_document(study)["cost_models"]
    assert cost_model["nodes"] == nodes
    # All devices are paid for.
    run = {run.run_id: run for run in study.plan.runs}
    for cell in study.plan.cells:
        hours = predicted(run[cell.run_id].seconds) * devices / 3600
        assert cell.device_hours == pytest.approx(hours)


def test_a_plan_of_another_format_is_refused_in_words() -> None:
    with pytest.raises(RecordError, match="has format 1, and this isosweep reads format 2"):
        plan_from_document({"version": 1})


def test_a_plan_whose_parts_contradict_each_other_is_not_believed() -> None:
    plan = plan_of(make_config())
    document = {"version": 2, "plan_id": plan.plan_id, **json.loads(json.dumps(asdict(plan)))}
    assert plan_from_document(document) == plan
    steps = json.loads(json.dumps(document))
    steps["runs"][0]["num_steps"] += 5
    with pytest.raises(RecordError, match=r"gives .* steps, and its cell .*mode=plan"):
        plan_from_document(steps)
    longer = json.loads(json.dumps(document))
    longer["runs"][0]["milestones"][-1] *= 2
    with pytest.raises(RecordError, match=f"says plan {plan.plan_id}, and its runs are those of"):
        plan_from_document(longer)


@pytest.mark.parametrize(
    "overrides",
    [
        ("budget=1e8", "grid.tolerance=0.02"),
        ("budget=1e14", "grid.max_steps=70000"),
        ("budget=3e9", "grid.tolerance=0.001", "recipe.num_iterations=3"),
        ("budget=1e13", "grid.max_epochs=99", "recipe.num_iterations=16"),
        (
            *("budget=1e13", "grid.max_epochs=99", "recipe.zero_variance=resample"),
            *("recipe.max_draws=4", "recipe.planned_draws=4"),
        ),
    ],
)
def test_a_refusal_names_a_budget_that_works(overrides: tuple[str, ...]) -> None:
    pair = ("grid.num_generations=[4]", "grid.problems_per_batch=[8]", "grid.seeds=[0]")
    with pytest.raises(SettingError) as caught:
        plan_of(make_config(*pair, *overrides))
    assert caught.value.nearest.startswith("budget=")
    assert plan_of(make_config(*pair, *overrides, caught.value.nearest)).cells


def test_limits_that_no_budget_keeps_are_refused_without_one() -> None:
    pair = ("grid.num_generations=[4]", "grid.problems_per_batch=[8]", "grid.max_steps=10")
    with pytest.raises(SettingError, match="exceeds 10") as caught:
        plan_of(make_config(*pair, "grid.tolerance=0.01"))
    assert not caught.value.nearest
