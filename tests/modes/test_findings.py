"""What mode=plan says that a plan could find, and what evaluation takes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from isosweep.analysis.simulation.findable import Design, Findable, findable
from isosweep.config.evaluation import SIZES
from isosweep.modes import findings
from isosweep.modes.findings import described_evaluation, described_findings, surer
from isosweep.plan.study import evaluation_of, resolve
from tests.conftest import make_config, plan_of


def said(*overrides: str) -> str:
    config = make_config(*overrides)
    return described_findings(plan_of(config), config)


def finds(rule: Callable[[Design], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the table one in which a design decides that share in either world."""

    def found(design: Design) -> Findable:
        return Findable(ends=rule(design), grew=1.0, goes_on=rule(design))

    monkeypatch.setattr(findings, "findable", found)


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        (
            ("grid.seeds=[3]",),
            "2 seeds, to know the spread between them (here 1), e.g. grid.seeds=[0,3]",
        ),
        (("grid.num_generations=[2,4]",), "3 n, to tell a best n from an edge (here 2)"),
        (
            ("budget=1e11", "grid.seeds=[0]", "analysis.readings_per_decade=0"),
            "3 budgets at which 3 or more n are read, to show growth and its end (here 1); and 2 "
            "seeds, to know the spread between them (here 1), e.g. analysis.readings_per_decade=5 "
            "grid.seeds=[0,1]",
        ),
        (
            ("budget=1e11", "analysis.decades=0"),
            "(here 1), e.g. budget=logspace:1e+10:1e+11:3",
        ),
    ],
)
def test_a_plan_that_can_come_to_no_verdict_is_told_the_rule(
    overrides: tuple[str, ...], rule: str
) -> None:
    line = said(*overrides)
    assert line.startswith("can find: nothing, its verdict would be `not identified`: ")
    assert rule in line


@pytest.mark.parametrize("overrides", [(), ("budget=1e11",), ("analysis.readings_per_decade=0",)])
def test_any_other_plan_is_told_how_often_it_decides(overrides: tuple[str, ...]) -> None:
    line = said(*overrides)
    assert line.startswith("can find: that the best n grows, in ")
    assert "of 100 sweeps like this; that growth has ended, where it has, in " in line
    assert "docs/simulation.md" in line


def test_more_evaluation_and_more_seeds_are_never_told_to_find_less() -> None:
    one, more, most = (
        findable(Design(runs_of_each_n=runs, problems=problems, doublings=5, decades=2.2))
        for runs, problems in ((2, 200), (2, 2000), (6, 2000))
    )
    assert one.ends <= more.ends <= most.ends
    assert one.goes_on <= more.goes_on <= most.goes_on
    assert most.decided > one.decided


def test_the_cheapest_change_is_the_one_that_gains_most_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All that counts is the evaluation; on a GPU it takes next to no time.
    finds(lambda design: min(1.0, 0.2 + design.problems / 4000), monkeypatch)
    llm = ("model=qwen-1.5b", "budget=1e20")
    assert "cheapest change: evaluation=thorough (3,072 problems x 8; " in said(*llm)
    # All that counts is the number of runs.
    finds(lambda design: 1 - 1 / design.runs_of_each_n, monkeypatch)
    assert "cheapest change: grid.seeds=[0,1,2,3,4,5] (twice the device time)" in said()
    # Evaluation gains more than half of what four times the runs would, for a tenth of the time.
    finds(
        lambda design: 0.2 + 0.35 * (design.problems > 1000) + 0.6 * (design.runs_of_each_n > 15),
        monkeypatch,
    )
    assert "cheapest change: evaluation=large" in said()


def test_a_small_gain_is_not_named_for_costing_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    finds(
        lambda design: 0.2 + 0.09 * (design.problems > 1000) + design.runs_of_each_n / 30,
        monkeypatch,
    )
    assert "cheapest change: grid.seeds=" in said("model=qwen-1.5b", "budget=1e20")


def test_twice_the_samples_count_as_twice_the_problems() -> None:
    size = "task.num_eval_problems={}", "evaluation.samples_per_problem={}"
    one, other = (
        said(*(setting.format(value) for setting, value in zip(size, values, strict=True)))
        for values in ((2000, 4), (1000, 8))
    )
    assert one.splitlines()[0] == other.splitlines()[0]
    assert one.splitlines()[0] != said().splitlines()[0]


def test_a_change_that_the_task_has_no_problems_for_is_not_named() -> None:
    # Room for 1,250 strings of four digits: `evaluation=thorough` would take 3,072 of them.
    few = said("task.sort.levels=[4]")
    assert "can find" in few
    assert "thorough" not in few


def test_no_change_is_named_that_the_table_cannot_tell_from_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds(lambda design: 0.3 + 0.01 * (design.problems > 1000), monkeypatch)
    assert "cheapest change: none is known" in said()
    finds(lambda design: 0.97, monkeypatch)
    assert "cheapest change" not in said()


def test_what_the_table_does_not_cover_is_said() -> None:
    assert "; at most that: the table begins at more held-out problems" in said(
        "task.num_eval_problems=32"
    )
    narrow = said("grid.num_generations=[2,3,4]")
    assert "; by the table's nearest, 4 doublings of n: docs" in narrow
    assert "nearest" not in said()
    assert "; with analysis.growth_bound=0.5: docs" in said("analysis.growth_bound=1")
    assert said("analysis.method=playbook").startswith("can find: not known for analysis.method")
    assert said("analysis.metric=best").startswith("can find: not known for analysis.metric=best")


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


def test_the_line_on_evaluation_has_its_shares_of_flops_and_time() -> None:
    study = resolve(make_config("evaluation=large"))
    evaluation, runs = evaluation_of(study), study.plan.runs
    line = described_evaluation(evaluation, len(runs))
    assert line.startswith("evaluation: 1,024 problems x 8 samples, about 16 times a run; ")
    trained = sum(run.planned_flops for run in runs)
    assert evaluation.share_of_flops == pytest.approx(
        evaluation.flops / (evaluation.flops + trained)
    )
    assert f"{evaluation.share_of_flops:.0%} of the sweep's FLOPs" in line
    assert f"{evaluation.share_of_time:.0%} of its device time" in line
    none = replace(evaluation, share_of_flops=1e-6)
    assert "under 0.1% of the sweep's FLOPs" in described_evaluation(none, len(runs))


def test_a_report_is_told_the_change_first_and_then_what_it_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds(lambda design: min(0.9, design.runs_of_each_n / 10), monkeypatch)
    config = make_config()
    change, brings = surer(plan_of(config), config)
    assert change.startswith("grid.seeds=[")
    assert change.endswith("the device time)")
    odds = (
        "Simulated, of 100 sweeps like this whose growth has ended, about 90 would say so (about 30"
    )
    assert brings.startswith(odds)
    assert brings.endswith("; of 100 whose best n goes on growing, about 90 (about 30).")
    finds(lambda design: min(0.9, design.problems / 4000), monkeypatch)
    change, brings = surer(plan_of(config), config)
    assert change.startswith("evaluation=")
    assert brings.startswith("Its runs are trained anew, from step 0. Simulated, of 100 sweeps")


def test_a_report_of_a_sweep_too_small_for_a_verdict_is_told_the_rule() -> None:
    config = make_config("grid.seeds=[0]")
    (said,) = surer(plan_of(config), config)
    assert "2 seeds, to know the spread between them (here 1)" in said
    other = make_config("analysis.metric=best")
    assert surer(plan_of(other), other) == ()
