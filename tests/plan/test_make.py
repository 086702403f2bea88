"""The plan: every candidate is a cell or a rejection with its numbers, and advice that works."""

import pytest

from isosweep.costs.flops import forward_flops
from isosweep.errors import SettingError
from isosweep.plan.cells import predicted
from isosweep.plan.study import resolve
from isosweep.words.plan import totals
from tests.conftest import candidates_of, make_config, plan_of

TWO_NODES = (
    *("hardware=h100", "launcher=slurm"),
    *("hardware.devices_per_run=16", "hardware.sharding=fsdp"),
)


def test_the_order_of_lists_changes_nothing() -> None:
    shuffled = "grid.num_generations=[32,8,16]", "grid.seeds=[2,0]", "budget=[4e10,2e10]"
    ordered = "grid.num_generations=[8,16,32]", "grid.seeds=[0,2]", "budget=[2e10,4e10]"
    assert plan_of(make_config(*shuffled)) == plan_of(make_config(*ordered))


def test_an_axis_costs_each_candidate_with_its_own_value() -> None:
    config = make_config(
        *("grid.seeds=[0]", "grid.tolerance=0.1", "grid.min_steps=1", "grid.max_epochs=1e9"),
        *("grid.axes={recipe.num_iterations:[1,2],model:[tiny,smollm2-135m]}", "budget=[1e12]"),
    )
    once, large, twice, _ = tables = candidates_of(config)
    assert [tuple(table.variant.axes.values()) for table in tables] == [
        (k, model) for k in (1, 2) for model in ("tiny", "smollm2-135m")
    ]
    assert large.flops[0, 0] > 100 * once.flops[0, 0]
    # Two updates share one generation and one more log-probability pass.
    arch, task = config.model.architecture, config.task
    forward = forward_flops(arch, task.planned_prompt_tokens, task.planned_completion_tokens)
    generation = once.flops[0, 0] / once.completions[0, 0] - 3 * forward
    shared = (generation + 7 * forward) / 2
    assert twice.flops[0, 0] == pytest.approx(shared * twice.completions[0, 0])
    assert (twice.steps % 2 == 0).all()
    plan = plan_of(config)
    assert len({run.run_id for run in plan.runs}) == len(plan.runs)
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


def test_passes_of_a_mixture_are_over_the_part_that_is_gone_through_first() -> None:
    mixed = ("task=sort_mix", "budget=8192", "budget_unit=rollouts", "grid.seeds=[0]")
    pair = ("grid.num_generations=[16]", "grid.problems_per_batch=[4]")
    # 8192 rollouts draw 512 problems, 384 of them long: 12 passes.
    assert plan_of(make_config(*mixed, *pair, "grid.max_epochs=12")).runs
    with pytest.raises(SettingError, match="12 times over 32 training problems of part long"):
        plan_of(make_config(*mixed, *pair, "grid.max_epochs=11"))
    # A batch holds no problem of a part twice: 32 long ones at a share of 0.75 are 42 draws.
    for batch, rejected in ((42, False), (43, True)):
        wide = (f"grid.problems_per_batch=[4,{batch}]", "grid.tolerance=0.1")
        plan = plan_of(make_config(*mixed, *wide))
        rules = {rule for rejection in plan.rejected for rule in rejection.rules}
        assert ("task.num_train_problems" in rules) is rejected


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=qwen-7b", "hardware=h100"),
        ("model=qwen-3b", "hardware=l40s", "hardware.memory_reserve=0"),
        ("model=qwen-32b", *TWO_NODES),
        ("model=qwen-7b", "hardware=h100", "budget=1e13"),
    ],
)
def test_a_refusal_names_the_smallest_hardware_with_the_memory(overrides: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match=r"needs .* GB a device .* and has") as caught:
        plan_of(make_config("budget=1e21", *overrides))
    assert caught.value.nearest.startswith("hardware=")
    assert plan_of(make_config("budget=1e21", *overrides, *caught.value.nearest.split())).cells


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


@pytest.mark.parametrize(("devices", "nodes"), [(8, 1), (16, 2)])
def test_more_devices_than_a_node_has_are_planned_on_several(devices: int, nodes: int) -> None:
    asked = ("model=qwen-7b", "budget=1e21", *TWO_NODES, f"hardware.devices_per_run={devices}")
    study = resolve(make_config(*asked))
    much = {"flops": 1e21, "device_hours": 1.0, "hours": 1.0}
    *_, last = totals(study.plan, study.config.hardware, **much, places=None)
    assert (last == "each run takes 16 devices: 2 nodes x 8") == (nodes == 2)
    # All devices are paid for.
    seconds = {run.run_id: predicted(run.seconds) for run in study.plan.runs}
    for cell in study.plan.cells:
        assert cell.device_hours == pytest.approx(seconds[cell.run_id] * devices / 3600)


BESIDE = (
    *("model=qwen-0.5b", "hardware=h100", "budget=1e18", "grid.max_epochs=1000"),
    *("recipe.rollout_lag=2", "grid.num_generations=[4,32,256]", "grid.problems_per_batch=[28]"),
    *("hardware.devices_per_run=8", "generation.overlap=true"),
)


def test_a_generator_beside_the_trainer_is_paid_for_and_makes_no_other_run() -> None:
    study = resolve(make_config(*BESIDE))
    (table,) = study.candidates
    for cell in study.plan.cells:
        at = table.pair(cell.num_generations, cell.problems_per_batch)
        assert cell.device_hours == pytest.approx(8 * table.run_seconds[at][-1] / 3600)
    assert {(s.devices, s.devices_in_use) for s in study.specs.values()} == {(7, 8)}
    size = f"recipe.micro_batch={next(iter(study.specs.values())).micro_batch}"
    alone = "hardware.devices_per_run=7", "generation.overlap=false"
    beside, in_turn = (resolve(make_config(*BESIDE, size, *more)).specs for more in ((), alone))
    assert set(beside) == set(in_turn)
    with pytest.raises(SettingError, match="not a multiple of 7 devices that train"):
        plan_of(make_config(*BESIDE, "grid.problems_per_batch=[32]", "grid.num_generations=[4]"))
