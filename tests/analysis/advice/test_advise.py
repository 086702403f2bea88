"""Which sources count for a budget, and the sweep that would decide between them."""

import json
import math
import shlex
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from isosweep.analysis.advice.advise import Advice, SourceAnswer, advise
from isosweep.analysis.schema import GOLDEN
from isosweep.compute import BudgetUnit
from isosweep.config.hydra import config_of
from isosweep.errors import SettingError
from isosweep.files import to_json
from isosweep.plan.cells import predicted
from isosweep.plan.study import resolve
from tests.conftest import make_config

# A model and budget that the Playbook's range holds: 2.7 million rollouts.
QWEN = ("model=qwen-7b", "hardware.devices_per_run=8", "hardware.sharding=fsdp")
INSIDE = (*QWEN, "budget=1e20")


@cache
def advised(*overrides: str) -> Advice:
    (one,) = advise(make_config("mode=advise", *overrides), overrides).advice
    return one


def answer_of(name: str, *overrides: str) -> SourceAnswer:
    return next(each for each in advised(*overrides).answers if each.name == name)


def test_a_budget_is_converted_by_the_planners_cost_of_a_rollout() -> None:
    amounts = advised(*INSIDE).amounts
    (table,) = (resolve(make_config("mode=plan", *INSIDE)).candidates,)
    candidates = table[0]
    i, _ = candidates.pair(16, 32)
    per_rollout = candidates.flops[i, 0] / candidates.completions[i, 0]
    assert amounts["rollouts"] == pytest.approx(1e20 / per_rollout)
    assert amounts["flops"] == 1e20
    hours = candidates.seconds[i, 0] * 8 / 3600
    assert amounts["device_hours"] == pytest.approx(1e20 / candidates.flops[i, 0] * hours)


@pytest.mark.parametrize("unit", ["rollouts", "tokens", "device_hours"])
def test_a_budget_in_another_unit_is_the_same_budget(unit: BudgetUnit) -> None:
    expected = advised(*INSIDE)
    budget = expected.amounts[unit]
    # Naming the hardware that is assumed changes nothing but that it is named.
    other = advised(*QWEN, "hardware=h200", f"budget_unit={unit}", f"budget={budget!r}")
    assert other.amounts == pytest.approx(expected.amounts)
    assert other.disagreement.smallest == expected.disagreement.smallest


def test_sources_in_whose_range_the_budget_lies_count_alone() -> None:
    found = advised(*INSIDE).disagreement
    assert (found.basis, found.comparable, found.beyond) == ("in range", True, 0)
    assert "Playbook, easy, B = 32" in found.sources
    assert not {"ScaleRL", "2-GRPO", "sorter, 32 problems"} & set(found.sources)
    assert found.smallest.n < found.between < found.largest.n
    assert found.doublings == pytest.approx(math.log2(found.largest.n / found.smallest.n))


def test_beyond_all_ranges_the_nearest_count_and_answer_with_their_end() -> None:
    found = advised(*QWEN, "budget=1e24").disagreement
    assert found.basis == "nearest"
    assert found.sources == ("ScaleRL",)
    assert found.beyond > 1
    assert answer_of("Playbook, easy, B = 32", *QWEN, "budget=1e24").n == pytest.approx(
        405, rel=0.01
    )


def test_problems_of_a_known_difficulty_leave_out_sources_on_others() -> None:
    found = advised(*INSIDE, "task.difficulty=hard").disagreement
    assert set(found.sources) == {"Playbook, hard, B = 32", "Playbook, hard, all B"}


def test_where_no_source_has_such_problems_all_count_and_that_is_said() -> None:
    one = advised("model=qwen-0.5b", "task=code", "budget=1e18")
    assert not one.disagreement.comparable
    assert not any(each.comparable for each in one.answers)
    assert {d.kind for d in one.answers[0].differences} == {"model", "task"}


def test_differences_are_kinds_and_numbers() -> None:
    differences = {
        each.kind: each for each in answer_of("ScaleRL", *INSIDE, "hardware=h100").differences
    }
    assert differences["model"].ratio == pytest.approx(7.6156 / 8, rel=1e-3)
    assert (differences["hardware"].there, differences["hardware"].here) == ("GB200", "h100")
    (difficulty,) = answer_of("Playbook, easy, B = 32", *INSIDE).differences
    assert (difficulty.kind, difficulty.there, difficulty.here) == ("difficulty", "easy", "all")
    assert answer_of("sorter, 64 problems", "budget=1e11").differences == ()


def test_countdown_of_reasoning_gym_is_a_task_of_its_source() -> None:
    overrides = ("task=reasoning_gym", "task.reasoning_gym.generator=countdown", "budget=1e12")
    found = advised("model=qwen-1.5b", *overrides).disagreement
    assert found.sources == ("grpo-batch-knobs, Countdown",)


@pytest.mark.parametrize(
    "overrides",
    [
        INSIDE,
        (*INSIDE, "task.difficulty=hard"),
        ("model=qwen-1.5b", "budget=1e20", "name=mine", "grid.num_generations=[8,16]"),
        ("model=qwen-1.5b", "grid=fix_batch", "grid.completions_per_step=[4096]", "budget=1e20"),
        ("budget=1e10",),
        ("budget=3.24e11",),
        ("+experiment=playbook_joint", "grid.axes=null", "budget=2e6"),
    ],
)
def test_the_deciding_sweep_is_a_command_with_the_plan_and_price_that_it_says(
    overrides: tuple[str, ...],
) -> None:
    one = advised(*overrides)
    sweep = one.sweep
    assert sweep is not None
    python, option, module, *typed = shlex.split(sweep.command)
    assert (python, option, module) == ("python", "-m", "isosweep")
    study = resolve(config_of(["mode=plan", *typed]))
    runs = study.plan.runs
    assert len(runs) == sweep.runs
    assert math.fsum(predicted(run.planned_flops) for run in runs) == pytest.approx(sweep.flops)
    assert study.device_hours == pytest.approx(sweep.device_hours)
    assert {run.num_generations for run in runs} == set(sweep.num_generations)
    assert study.plan.budgets == (sweep.budget,)
    assert sweep.budget == pytest.approx(one.budget * sweep.share, rel=0.01)
    assert not sweep.finds.lacks


def test_its_n_reach_two_doublings_beyond_both_ends_at_its_own_budget() -> None:
    one = advised(*INSIDE)
    found, sweep = one.disagreement, one.sweep
    assert sweep is not None
    assert sweep.share < 1
    assert sweep.doublings >= 2
    at = {each.name: each.n for each in advised(*QWEN, f"budget={sweep.budget}").answers}
    ends = sorted(float(at[each.name] or 0) for each in (found.smallest, found.largest))
    assert sweep.doublings == pytest.approx(math.log2(ends[1] / ends[0]), abs=0.01)
    first, last = sweep.num_generations[0], sweep.num_generations[-1]
    assert first <= ends[0] / 4
    assert last >= ends[1] * 4
    assert sweep.left_out == {}
    # A factor of four apart, for two doublings and more.
    assert sweep.stride == 2
    assert all(b == 4 * a for a, b in pairwise(sweep.num_generations))


def test_sources_that_agree_are_checked_at_the_budget_itself() -> None:
    one = advised("budget=1e10")
    assert one.disagreement.doublings < 1
    assert one.sweep is not None
    assert (one.sweep.share, one.sweep.stride) == (1.0, 1)
    assert one.sweep.left_out == {32: "grid.min_steps"}


def test_a_sweep_that_the_planner_refuses_is_none_with_its_reason() -> None:
    one = advised("model=qwen-7b", "budget=1e20")
    assert one.sweep is None
    assert "hardware.memory_gb" in str(one.refused)


@pytest.mark.parametrize(
    ("overrides", "setting", "rule"),
    [
        (("model=qwen-1.5b", "budget_unit=device_hours"), "budget_unit", "names no hardware"),
        (("grid.axes={recipe.num_iterations:[1,2]}",), "grid.axes", "one combination"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    overrides: tuple[str, ...], setting: str, rule: str
) -> None:
    with pytest.raises(SettingError, match=rule) as refused:
        advise(make_config("mode=advise", *overrides), overrides)
    assert refused.value.setting == setting


def test_hours_of_named_hardware_are_answered() -> None:
    one = advised("model=qwen-1.5b", "hardware=h100", "budget_unit=device_hours", "budget=300")
    assert one.amounts["device_hours"] == 300


def test_documents_are_of_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(GOLDEN["advice"].read_text()))
    for overrides in (INSIDE, ("budget=[1e10,1e11]",)):
        document = to_json(asdict(advise(make_config("mode=advise", *overrides), overrides)))
        plain = json.loads(json.dumps(document))
        assert [error.message for error in validator.iter_errors(plain)] == []


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    advise(make_config("mode=advise", "budget=1e11"), ("budget=1e11",))
    assert list(tmp_path.iterdir()) == []
