"""Plans of runs whose n, B and learning rate change at amounts of compute."""

import pytest

from isosweep.config.axes import combinations
from isosweep.config.schedule import amounts, changes, checked, largest
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.make import make_plan
from isosweep.plan.spec import RunSpec
from tests.conftest import make_config

GRID = ("grid.num_generations=[4,8]", "grid.problems_per_batch=[4]", "grid.seeds=[0]")
SERIES = "recipe.schedule={num_generations:{from:8192,times:2,every:2,to:32}}"
ROLLOUTS = ("budget_unit=rollouts", "budget=[4096,16384,65536]", "task.num_train_problems=4096")


def planned(*overrides: str) -> tuple[Plan, dict[str, RunSpec]]:
    config = make_config(*GRID, *overrides)
    return make_plan(config, enumerate_candidates(combinations(config)))


def test_a_series_ends_at_its_last_value() -> None:
    series = checked({"num_generations": {"from": 100, "times": 2, "every": 3, "to": 20}})
    assert series is not None
    assert changes(series, "num_generations", 4) == [(100, 8), (300, 16), (900, 20)]
    assert changes(series, "num_generations", 20) == []
    assert changes(series, "problems_per_batch", 4) == []
    assert amounts(series, {"num_generations": [4, 16]}) == [100, 300, 900]
    rate = checked({"learning_rate": {"from": 1, "times": 0.5, "every": 2, "to": 0.3}})
    assert rate is not None
    assert changes(rate, "learning_rate", 1.0) == [(1, 0.5), (2, 0.3)]


def test_every_phase_is_counted_with_its_own_n() -> None:
    plan, specs = planned(SERIES, *ROLLOUTS, "recipe.learning_rate_rule=sqrt")
    # 16 rollouts a step up to 8192, 32 up to 16384, 64 to 32768, 128 then.
    cells = [c for c in plan.cells if c.num_generations == 4]
    steps = [256, 512 + 256, 512 + 256 + 256 + 256]
    assert [cell.num_steps for cell in cells] == steps
    assert [cell.planned_compute for cell in cells] == [4096, 16384, 65536]
    means = [4, (4 + 8) / 2, (8192 * 4 + 8192 * 8 + 16384 * 16 + 32768 * 32) / 65536]
    assert [cell.mean_num_generations for cell in cells] == means
    spec = next(spec for spec in specs.values() if spec.num_generations == 4)
    assert [phase.num_generations for phase in spec.phases or ()] == [8, 16, 32]
    # The rate follows n x B by the recipe's rule.
    rates = [phase.learning_rate / spec.learning_rate for phase in spec.phases or ()]
    assert rates == pytest.approx([2**0.5, 2, 8**0.5])
    assert RunSpec.from_json(spec.to_json()) == spec


def test_a_run_serves_every_budget_and_is_another_with_another_schedule() -> None:
    small = {*planned(SERIES, *ROLLOUTS[:1], "budget=[4096]", ROLLOUTS[2])[1]}
    assert small == {*planned(SERIES, *ROLLOUTS)[1]}
    assert small.isdisjoint(planned(SERIES.replace("8192", "9000"), *ROLLOUTS)[1])
    assert small.isdisjoint(planned(SERIES, "budget=[1e11]")[1])
    # Where n is at its last value from the start, the run is that of no schedule.
    ended = planned(SERIES.replace("to:32", "to:8"), *ROLLOUTS)[1]
    assert len({*ended} & {*planned(*ROLLOUTS)[1]}) == 1


def test_a_candidate_keeps_the_rules_in_every_phase() -> None:
    # 9 rollouts of 4 problems are no two micro-batches of 4.
    plan, _ = planned(
        "recipe.schedule={num_generations:{8192:9}}",
        "recipe.micro_batch=8",
        *ROLLOUTS[:2],
        "task.num_train_problems=9000",
        "grid.num_generations=[4]",
        "grid.axes={growth:{none:{recipe.schedule:null},by9:{}}}",
    )
    assert {c.axes["growth"] for c in plan.cells} == {"none"}
    reasons = {(r.rule, r.reason) for r in plan.rejected}
    product = "n x B = 9 x 4 = 36, from 8192 on,"
    assert reasons == {("recipe.micro_batch", f"{product} is not a multiple of 8")}
    (count, mend) = plan.mends["recipe.micro_batch"]
    assert (count, mend) == (3, "recipe.micro_batch=4")


def test_passes_count_the_problems_of_every_phase() -> None:
    growth = "recipe.schedule={problems_per_batch:{4096:16}}"
    plan, _ = planned(growth, *ROLLOUTS[:2], "task.num_train_problems=2048", "grid.max_epochs=1")
    assert {(r.num_generations, r.budget) for r in plan.rejected} == {
        (4, 16384),
        (4, 65536),
        (8, 65536),
    }
    assert plan.mends["grid.max_epochs"][1].startswith("budget=")


def test_a_server_needs_what_the_largest_phase_asks() -> None:
    series = checked({"num_generations": {"from": 100, "times": 2, "every": 3, "to": 20}})
    assert largest(series, "num_generations", [4, 8]) == 20
    assert largest(series, "num_generations", [4, 64]) == 64
    assert largest(series, "problems_per_batch", [4, 8]) == 8
    assert largest(None, "num_generations", [4, 8]) == 8
