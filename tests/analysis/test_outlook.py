"""What a plan could find, the cheapest change that finds more, and what evaluation takes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.analysis import outlook
from isosweep.analysis.outlook import (
    Change,
    Lack,
    Outlook,
    more_problems,
    outlook_of_variants,
)
from isosweep.analysis.simulation.findable import Design, Findable, Odds, findable
from isosweep.config.evaluation import SIZES
from isosweep.modes.analyse import _advice
from isosweep.modes.further import twice_the_largest
from isosweep.modes.stored import described_findings
from isosweep.plan.cells import predicted
from isosweep.plan.study import evaluation_of, resolve
from isosweep.store.paths import SweepPaths
from tests.conftest import make_config, plan_of


def seen(*overrides: str) -> Outlook:
    config = make_config(*overrides)
    return outlook_of_variants(plan_of(config), config, twice_the_largest)


def change(*overrides: str) -> Change:
    found = seen(*overrides).change
    assert found is not None
    return found


def finds(rule: Callable[[Design], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the table one in which a design decides that share in either world."""

    monkeypatch.setattr(outlook, "findable", lambda design: decided(rule(design)))


def decided(share: float) -> Findable:
    """What is found where that share is decided surely, in either kind of world."""
    odds = Odds(surely=share, probably=share, falsely=0.0)
    return Findable(ends=odds, goes_on=odds)


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


def test_more_evaluation_and_more_seeds_are_never_told_to_find_less() -> None:
    one, more, most = (
        findable(Design(runs_of_each_n=runs, problems=problems, below=3.5, headroom=2, decades=2.2))
        for runs, problems in ((2, 200), (2, 2000), (6, 2000))
    )
    for kind in ("ends", "goes_on"):
        odds = [getattr(found, kind) for found in (one, more, most)]
        for share in ("surely", "probably"):
            shares = [getattr(each, share) for each in odds]
            assert shares == sorted(shares)
        assert all(each.surely <= each.probably for each in odds)
    assert most.decided > one.decided


def test_the_cheapest_change_is_the_one_that_gains_most_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All that counts is the evaluation; on a GPU it takes next to no time.
    finds(lambda design: min(1.0, 0.2 + design.problems / 4000), monkeypatch)
    larger = change("model=qwen-1.5b", "budget=1e20")
    assert (larger.settings, larger.problems) == ("evaluation=thorough", 3072)
    assert larger.device_time > 1
    # All that counts is the number of runs.
    finds(lambda design: 1 - 1 / design.runs_of_each_n, monkeypatch)
    more = change()
    assert (more.settings, more.device_time) == ("grid.seeds=[0,1,2,3,4,5]", 2)
    # Evaluation gains more than half of what four times the runs would, for a tenth of the time.
    finds(
        lambda design: 0.2 + 0.35 * (design.problems > 1000) + 0.6 * (design.runs_of_each_n > 15),
        monkeypatch,
    )
    assert change().settings == "evaluation=large"


def test_a_larger_n_is_weighed_beside_evaluation_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    finds(lambda design: design.headroom / 4, monkeypatch)
    own = plan_of(make_config())
    larger = change()
    n = 2 * max(run.num_generations for run in own.runs)
    assert larger.num_generations == n
    # Exactly what a plan with it takes.
    wide = plan_of(make_config(larger.settings))
    assert {run.num_generations for run in wide.runs} - {r.num_generations for r in own.runs} == {n}
    hours = sum(predicted(run.seconds) for run in wide.runs) / 3600
    assert larger.device_hours == pytest.approx(hours)
    assert larger.device_time == pytest.approx(
        hours * 3600 / sum(predicted(r.seconds) for r in own.runs)
    )
    # Ends one and two doublings below the largest n: now one and two quarters.
    found = seen()
    assert (found.finds, found.nearer) == (decided(0.5), decided(0.25))
    assert (larger.finds, larger.nearer) == (decided(0.75), decided(0.5))
    # One that the grid's rules keep out is no change.
    most = own.runs[0].problems_per_batch * n - 1
    assert seen(f"grid.max_completions_per_step={most}").change is None
    # Where evaluation does as much it comes first: on a GPU it takes next to no time.
    finds(lambda design: (design.headroom + (design.problems > 1000)) / 5, monkeypatch)
    assert change("model=qwen-1.5b", "budget=1e20").problems


def test_plan_and_report_weigh_a_larger_n(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    finds(lambda design: design.headroom / 4, monkeypatch)
    study = resolve(make_config())
    (said,) = (line for line in described_findings(study) if line.startswith("to find more"))
    assert "(one n more; " in said
    advice = _advice(study.plan, study.config, SweepPaths(tmp_path, tmp_path))
    assert advice.outlook is not None
    assert advice.outlook.change is not None
    assert advice.outlook.change.num_generations
    assert advice.problems is not None
    more = advice.problems(512)
    assert more is not None
    assert more.problems == 512
    # Of a further set no price is known.
    of_set = replace(study.config, analysis=replace(study.config.analysis, evaluation_set="other"))
    monkeypatch.setattr(outlook, "outlook", lambda *_: None)
    assert _advice(study.plan, of_set, SweepPaths(tmp_path, tmp_path)).problems is None


def test_a_small_gain_is_not_named_for_costing_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    finds(
        lambda design: 0.2 + 0.09 * (design.problems > 1000) + design.runs_of_each_n / 30,
        monkeypatch,
    )
    assert change("model=qwen-1.5b", "budget=1e20").settings.startswith("grid.seeds=")


def test_twice_the_samples_count_as_twice_the_problems() -> None:
    size = "task.num_eval_problems={}", "evaluation.samples_per_problem={}"
    one, other = (
        seen(*(setting.format(value) for setting, value in zip(size, values, strict=True)))
        for values in ((2000, 4), (1000, 8))
    )
    assert one.finds == other.finds != seen().finds


def test_a_change_that_the_task_has_no_problems_for_is_not_named() -> None:
    # Room for 1,250 strings of four digits: `evaluation=thorough` would take 3,072 of them.
    few = seen("task.sort.levels=[4]")
    assert few.finds is not None
    assert few.change is None or few.change.settings != "evaluation=thorough"


def test_more_problems_are_priced_by_the_evaluation_that_they_take() -> None:
    config = make_config("task.num_eval_problems=256")
    plan = plan_of(config)
    hours = sum(predicted(run.seconds) for run in plan.runs) / 3600
    same, more = (more_problems(plan, config, count) for count in (256, 1024))
    assert same is not None
    assert more is not None
    assert (same.device_time, same.device_hours) == pytest.approx((1, hours))
    assert more.settings == "task.num_eval_problems=1024"
    assert more.device_hours == pytest.approx(more.device_time * hours)
    planned = plan_of(make_config("task.num_eval_problems=1024"))
    assert predicted(more.device_hours) == pytest.approx(
        sum(predicted(r.seconds) for r in planned.runs) / 3600
    )
    few = make_config("task.num_eval_problems=64", "task.sort.levels=[4]")
    assert more_problems(plan_of(few), few, 5000) is None


def test_no_change_is_named_that_the_table_cannot_tell_from_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds(lambda design: 0.3 + 0.01 * (design.problems > 1000), monkeypatch)
    assert (seen().change, seen().no_change) == (None, "none gains")
    finds(lambda design: 0.97, monkeypatch)
    assert (seen().change, seen().no_change) == (None, "decided")


def test_what_the_table_does_not_cover_is_said() -> None:
    assert seen("task.num_eval_problems=32").below == ("problems",)
    # Growth would end at the smallest n.
    assert seen("grid.num_generations=[2,4,8]").nearest == {"below": 2}
    assert (seen().below, seen().nearest, seen().judged_by) == ((), {}, {})
    assert seen("analysis.growth_bound=1").judged_by == {"growth_bound": 0.5}
    found = seen("analysis.metric=best")
    assert (found.unknown, found.finds) == ("best", None)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_evaluation_are_those_of_its_choices(name: str) -> None:
    for model in ("tiny", "qwen-0.5b"):
        config = make_config(f"model={model}", f"evaluation={name}")
        found = config.task.num_eval_problems, config.evaluation.samples_per_problem
        assert found == SIZES[name]
        # As in training, whatever the recipe.
        assert config.evaluation.temperature == config.recipe.temperature
    assert make_config(f"evaluation={name}", "task.num_eval_problems=9").task.num_eval_problems == 9


def test_the_playbooks_evaluation_has_its_300_problems() -> None:
    config = make_config("evaluation=playbook")
    assert config.task.num_eval_problems == 300
    assert (config.evaluation.samples_per_problem, config.evaluation.temperature) == (4, 0.6)


def test_evaluations_share_of_flops_is_of_all_that_is_spent() -> None:
    study = resolve(make_config("evaluation=large"))
    evaluation = evaluation_of(study)
    assert evaluation.problems == (1024,)
    assert evaluation.samples_per_problem == 8
    trained = sum(predicted(run.planned_flops) for run in study.plan.runs)
    assert evaluation.share_of_flops == pytest.approx(
        evaluation.flops / (evaluation.flops + trained)
    )
