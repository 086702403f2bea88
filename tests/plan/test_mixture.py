"""What a plan of a mixture counts: passes over its parts, and the evaluation of each."""

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.plan.evaluation import evaluation_flops, evaluation_seconds
from isosweep.plan.study import evaluation_of, resolve
from tests.conftest import make_config

MIXED = ("task=sort_mix", "budget=[4096,8192]", "budget_unit=rollouts", "grid.seeds=[0]")


def test_a_batch_holds_no_problem_of_a_part_twice() -> None:
    # 32 long problems at a share of 0.75 are 42 draws.
    assert resolve(make_config(*MIXED, "grid.problems_per_batch=[42]", "grid.tolerance=0.1")).plan
    mixed = (*MIXED, "grid.problems_per_batch=[42,50]", "grid.tolerance=0.1")
    for problems, broken in ((74, True), (75, False)):
        rejected = resolve(make_config(*mixed, f"task.num_train_problems={problems}")).plan.rejected
        rules = {rule for rejection in rejected for rule in rejection.rules}
        assert ("task.num_train_problems" in rules) is broken


def test_passes_are_counted_over_the_part_that_is_gone_through_first() -> None:
    n, batch = "grid.num_generations=[16]", "grid.problems_per_batch=[4]"
    # 8192 rollouts draw 512 problems, 384 of them long: 12 passes.
    assert resolve(make_config(*MIXED, n, batch, "grid.max_epochs=12")).plan.runs
    (rejection,) = resolve(make_config(*MIXED, n, batch, "grid.max_epochs=11")).plan.rejected
    assert "pass 12.0 times over 32 problems of part long, at a share of 0.75" in rejection.reason


def test_the_parts_are_the_main_evaluation_and_are_counted_once() -> None:
    config = make_config(*MIXED)

    def alone(levels: int) -> SweepConfig:
        limit = ("task.max_completion_tokens=7", "task.num_eval_problems=128")
        return make_config(f"task.sort.levels=[{levels}]", *limit)

    assert evaluation_flops(config) == evaluation_flops(alone(6)) + evaluation_flops(alone(4))
    assert evaluation_seconds(config) == pytest.approx(
        evaluation_seconds(alone(6)) + evaluation_seconds(alone(4))
    )
    planned = evaluation_of(resolve(config))
    assert planned.problems == (256,)
    assert [(part.name, part.problems, part.part) for part in planned.sets] == [
        ("long", 128, True),
        ("short", 128, True),
    ]


def test_more_held_out_problems_are_more_of_each_part() -> None:
    large = make_config(*MIXED, "evaluation=large")
    assert [p.problems for p in evaluation_of(resolve(large)).sets] == [512, 512]
