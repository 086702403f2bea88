"""What a plan could find, and what evaluation takes."""

from dataclasses import replace

import pytest

from isosweep.analysis.outlook import (
    Lack,
    Outlook,
    more_problems,
    outlook_of_variants,
)
from isosweep.config.base import replaced
from isosweep.modes.analyse import advice_on
from isosweep.plan.study import resolve
from tests.conftest import make_config, plan_of


def seen(*overrides: str) -> Outlook:
    config = make_config(*overrides)
    return outlook_of_variants(plan_of(config), config)


SEEDS = Lack(what="seeds", least=2, here=1, mended_by="grid.seeds=[0,1]")
READ = Lack(what="budgets", least=3, here=1, mended_by="analysis.readings_per_decade=5")


@pytest.mark.parametrize(
    ("overrides", "lacks"),
    [
        (("grid.seeds=[3]",), (replace(SEEDS, mended_by="grid.seeds=[0,3]"),)),
        (("grid.num_generations=[2,4]",), (Lack(what="n", least=3, here=2, mended_by=None),)),
        (("budget=1e11", "grid.seeds=[0]", "analysis.readings_per_decade=0"), (READ, SEEDS)),
        (
            ("budget=1e11", "analysis.decades=0"),
            (replace(READ, mended_by="budget=logspace:1e+10:1e+11:3"),),
        ),
    ],
)
def test_a_plan_that_can_come_to_no_verdict_lacks_something(
    overrides: tuple[str, ...], lacks: tuple[Lack, ...]
) -> None:
    assert seen(*overrides) == Outlook(lacks=lacks, nearest={}, judged_by={})


@pytest.mark.parametrize("overrides", [(), ("budget=1e11",), ("analysis.readings_per_decade=0",)])
def test_any_other_plan_is_told_how_often_it_decides(overrides: tuple[str, ...]) -> None:
    found = seen(*overrides)
    assert found.finds is not None
    assert found.sweeps > 0
    assert (found.lacks, found.unknown) == ((), None)


def test_twice_the_samples_count_as_twice_the_problems() -> None:
    size = "task.num_eval_problems={}", "evaluation.samples_per_problem={}"
    one, other = (
        seen(*(setting.format(value) for setting, value in zip(size, values, strict=True)))
        for values in ((2000, 4), (1000, 8))
    )
    assert one.finds == other.finds != seen().finds


def test_more_problems_are_asked_for_where_the_task_has_as_many() -> None:
    assert more_problems(make_config(), 1024) == "task.num_eval_problems=1024"
    few = make_config("task.num_eval_problems=64", "task.sort.levels=[4]")
    assert more_problems(few, 5000) is None


def test_what_the_table_does_not_cover_is_said() -> None:
    assert seen("task.num_eval_problems=32").below == ("problems",)
    # Growth would end at the smallest n.
    assert seen("grid.num_generations=[2,4,8]").nearest == {"below": 2}
    assert (seen().below, seen().nearest, seen().judged_by) == ((), {}, {})
    assert seen("analysis.growth_bound=1").judged_by == {"growth_bound": 0.5}
    found = seen("analysis.metric=best")
    assert (found.unknown, found.finds) == ("best", None)


def test_problems_of_a_further_set_are_not_asked_for() -> None:
    study = resolve(make_config())
    assert advice_on(study.plan, study.config, "sweep=s").problems is not None
    of_set = replaced(
        study.config, analysis=replaced(study.config.analysis, evaluation_set="other")
    )
    assert advice_on(study.plan, of_set, "sweep=s").problems is None
