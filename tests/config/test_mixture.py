"""A mixture's parts and shares: how they are composed, what is derived of them, what is refused."""

import json
import shlex
from typing import Any

import pytest

from isosweep.config.axes import combinations
from isosweep.config.evaluation_sets import on_all, on_sets
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.plan.spec import RunSpec, run_spec
from tests.conftest import make_config

PART = "+task@task.mixture.parts."
TWO = ("task=mixture", f"{PART}a=sort", f"{PART}b=sort", "task.mixture.parts.b.sort.levels=[4]")


def parts(*overrides: str) -> dict[str, TaskConfig]:
    return make_config(*overrides).task.parts


def spec_of(*overrides: str) -> RunSpec:
    sizes = {"num_generations": 4, "problems_per_batch": 4, "seed": 0, "micro_batch": 16}
    return run_spec(make_config(*overrides), **sizes)


def test_parts_are_packaged_tasks_with_settings_of_their_own() -> None:
    found = parts("task=math_and_code", "task.mixture.parts.math.math.split=test")
    assert [*found] == ["code", "math"]
    assert found["math"].math is not None
    assert found["math"].math.split == "test"
    assert found["code"] == make_config("task=code").task
    typed = parts(*TWO)
    assert [task.sort.levels for task in typed.values() if task.sort] == [[6], [4]]


def test_numbers_of_problems_are_the_sums_of_the_parts_or_shared_out_as_theirs() -> None:
    own = (*TWO, "task.mixture.parts.a.num_train_problems=96")
    task = make_config(*own).task
    assert (task.num_train_problems, task.num_eval_problems) == (128, 512)
    fewer = make_config(*own, "task.num_train_problems=10", "evaluation=small").task
    assert [part.num_train_problems for part in fewer.parts.values()] == [8, 2]
    assert [part.num_eval_problems for part in fewer.parts.values()] == [64, 64]


def test_the_longest_answer_of_a_part_holds_for_all() -> None:
    assert {part.completion_limit for part in parts(*TWO).values()} == {7}
    assert {p.completion_limit for p in parts(*TWO, "task.max_completion_tokens=9").values()} == {9}


def test_a_mixture_s_data_seed_is_added_to_the_parts() -> None:
    seeds = [
        p.data_seed
        for p in parts(*TWO, "task.data_seed=3", "task.mixture.parts.b.data_seed=1").values()
    ]
    assert seeds == [3, 4]


def test_planned_lengths_are_means_by_the_shares_at_the_end_of_the_schedule() -> None:
    shares = "task.mixture.shares={a:0.75,b:0.25}"
    task = make_config(*TWO, shares).task
    assert task.planned_completion_tokens == 0.75 * 7 + 0.25 * 5
    assert task.planned_prompt_tokens == 0.75 * 8 + 0.25 * 6
    later = "task.mixture.schedule=[{at:0,a:0,b:1},{at:100,a:1,b:0}]"
    assert make_config(*TWO, later).task.planned_completion_tokens == 7


def test_shares_change_evenly_between_the_points_of_a_schedule() -> None:
    mixture = make_config(
        *TWO, "task.mixture.schedule=[{at:0,a:1,b:0},{at:100,a:0.5,b:0.5},{at:200,a:0.5,b:0.5}]"
    ).task.mixture
    assert mixture is not None
    found = [mixture.shares_at(drawn)["a"] for drawn in (0, 50, 100, 150, 10_000)]
    assert found == [1, 0.75, 0.5, 0.5, 0.5]
    equal = make_config(*TWO).task.mixture
    assert equal is not None
    assert equal.shares_at(7) == {"a": 0.5, "b": 0.5}


def test_what_changes_the_numbers_of_a_mixture_makes_another_run_and_nothing_else_does() -> None:
    same = spec_of(*TWO).run_id
    alike = [
        *("task.mixture.shares={b:0.5,a:0.5}", "task.mixture.parts.a.name=other"),
        *("task.mixture.parts.a.prompt_tokens=9", "task.num_eval_problems=512"),
        "task.mixture.schedule=[{at:0,a:0.5,b:0.5}]",
    ]
    assert {spec_of(*TWO, each).run_id for each in alike} == {same}
    others = [
        *("task.mixture.shares={a:0.6,b:0.4}", "task.mixture.parts.a.data_seed=1"),
        *("task.mixture.parts.b.success_at=0.5", "task.mixture.parts.b.sort.levels=[5]"),
        *("task.mixture.parts.a.num_train_problems=33", "task.max_completion_tokens=8"),
        "task.mixture.schedule=[{at:0,a:0.5,b:0.5},{at:9,a:0.6,b:0.4}]",
    ]
    assert len({same, *(spec_of(*TWO, each).run_id for each in others)}) == len(others) + 1


def test_a_mixture_is_stored_and_read_as_it_is() -> None:
    spec = spec_of("task=sort_mix")
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))).run_id == spec.run_id


def test_each_part_is_a_set_that_is_evaluated_as_its_task() -> None:
    config = make_config(*TWO, "evaluation.sets={cool:{temperature:0.5}}")
    found = on_all(config)
    assert [*found] == ["a", "b", "cool"]
    assert found["b"].task == config.task.parts["b"]
    assert [*on_sets(config)] == ["cool"]
    assert found["cool"].task.mixture == config.task.mixture


def variants(*overrides: str) -> list[SweepConfig]:
    return [variant.config for variant in combinations(make_config(*overrides))]


def test_shares_numbers_and_whole_mixtures_are_axes() -> None:
    shares = "grid.axes={task.mixture.shares:[{a:1,b:0},{a:0.5,b:0.5}]}"
    found = [config.task.mixture for config in variants(*TWO, shares)]
    assert [m.last_shares["a"] for m in found if m] == [1, 0.5]
    sizes = "grid.axes={task.mixture.parts.a.num_train_problems:[8,16]}"
    assert [config.task.num_train_problems for config in variants(*TWO, sizes)] == [40, 48]
    total = "grid.axes={task.num_train_problems:[8,16]}"
    numbers = [config.task.parts["a"].num_train_problems for config in variants(*TWO, total)]
    assert numbers == [4, 8]
    assert [c.task.kind for c in variants("grid.axes={task:[sort,sort_mix]}")] == [
        "sort",
        "mixture",
    ]


def test_shares_of_an_axis_are_refused_as_the_axis_s() -> None:
    with pytest.raises(SettingError, match=r"0\.5\}' *, in grid.axes$"):
        variants(*TWO, "grid.axes={task.mixture.shares:[{a:0.75,b:0.5},{a:1,b:0}]}")


def test_shares_beside_a_schedule_would_have_no_effect() -> None:
    shares = "task.mixture.shares={a:1,b:0}"
    schedule = "task.mixture.schedule=[{at:0,a:0,b:1},{at:100,a:1,b:0}]"
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, shares, schedule)
    assert caught.value.setting == "task.mixture.schedule"
    assert make_config(*TWO, shares, schedule, caught.value.nearest).task.mixture


@pytest.mark.parametrize("name", ["1", "true", "Null", "at"])
def test_a_part_has_a_name_that_shares_can_name(name: str) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, f"{PART}{name}=sort")
    fixed = caught.value.nearest.rpartition(".")[2]
    assert fixed == f"part_{name}"
    shares = f"++task.mixture.shares={{a:0.5,b:0.25,{fixed}:0.25}}"
    level = f"task.mixture.parts.{fixed}.sort.levels=[9]"
    mixture = make_config(*TWO, f"{PART}{fixed}=sort", level, shares).task.mixture
    assert mixture
    assert fixed in mixture.names


REFUSED = [
    ("shares={a:0.75,b:0.5}", "shares", "add up to 1.25, not 1"),
    ("shares={a:0.75,bb:0.25}", "shares", "has a share of 'bb', and the parts are a, b"),
    ("shares={a:1}", "shares", "lacks b"),
    ("shares={}", "shares", "lacks a, b"),
    ("shares={a:2,b:-1}", "shares", "has b: -1, which is no finite number, 0 or more"),
    ("shares={a:1,b:x}", "shares", "has b: x"),
    ("shares={a:0,b:0}", "shares", "add up to 0"),
    ("shares=0.5", "shares", "gives each part its share"),
    ("schedule=[{a:1,b:0}]", "schedule", "lacks at"),
    ("schedule={at:0,a:1,b:0}", "schedule", "is a list of shares"),
    ("schedule=[]", "schedule", "is a list of shares"),
    ("schedule=[3]", "schedule", "gives each part its share"),
    ("schedule=[{at:9,a:1,b:0}]", "schedule", "has points at 9: whole numbers"),
    ("schedule=[{at:0,a:1,b:0},{at:0,a:0.5,b:0.5}]", "schedule", "which ascend from 0"),
    ("schedule=[{at:0,a:1,b:0},{at:5.5,a:1,b:0}]", "schedule", "points at 0, 5.5: whole numbers"),
    ("parts.b.template=x", "parts.b.template", "digits"),
    ("parts.b.num_eval_problems=4000", "parts.b.num_train_problems", ""),
]


@pytest.mark.parametrize(("typed", "setting", "rule"), REFUSED)
def test_what_no_mixture_can_be_is_refused(typed: str, setting: str, rule: str) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, f"task.mixture.{typed}")
    assert caught.value.setting == f"task.mixture.{setting}"
    assert rule in caught.value.rule
    if setting in ("shares", "schedule"):
        # Equal shares can be typed in the place of any.
        (nearest,) = shlex.split(caught.value.nearest)
        assert make_config(*TWO, nearest).task.parts


@pytest.mark.parametrize("typed", [f"{PART}c=mixture", "+task.mixture.parts.c=3"])
def test_what_is_no_part_is_refused_with_a_choice_of_one(typed: str) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, typed)
    assert caught.value.setting in ("task.mixture.parts.c.kind", "task.mixture.parts.c")
    assert make_config(*TWO, caught.value.nearest).task.parts


@pytest.mark.parametrize(
    ("typed", "setting", "nearest"),
    [
        ("task.success_at=0.5", "success_at", "task.mixture.parts.a.success_at=0.5"),
        ("task.difficulty=hard", "difficulty", "task.mixture.parts.a.difficulty=hard"),
        ("task.num_eval_problems=1", "num_eval_problems", "task.num_eval_problems=null"),
    ],
)
def test_what_parts_have_is_not_the_mixture_s(typed: str, setting: str, nearest: str) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, typed)
    assert (caught.value.setting, caught.value.nearest) == (f"task.{setting}", nearest)
    assert make_config(*TWO, nearest).task.parts


@pytest.mark.parametrize(
    ("typed", "setting", "nearest"),
    [
        ("kind=math", "sort", "+task@task.mixture.parts.b=math"),
        ("sort.levels=[1]", "sort.levels", "task.mixture.parts.b.sort.levels=[2]"),
        ("num_eval_problems=0", "num_eval_problems", "task.mixture.parts.b.num_eval_problems=1"),
    ],
)
def test_what_no_task_can_be_is_refused_under_the_part_s_name(
    typed: str, setting: str, nearest: str
) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, f"task.mixture.parts.b.{typed}")
    assert caught.value.setting == f"task.mixture.parts.b.{setting}"
    assert caught.value.nearest == nearest


def test_a_mixture_without_parts_is_refused() -> None:
    with pytest.raises(SettingError) as caught:
        make_config("task=mixture")
    assert make_config("task=mixture", caught.value.nearest).task.parts


@pytest.mark.parametrize("name", ["at", "x.y", "ä"])
def test_a_part_has_a_name_that_files_and_metrics_can_have(name: str) -> None:
    from isosweep.config.mixture import MixtureConfig

    task: dict[str, Any] = {}
    with pytest.raises(SettingError) as caught:
        MixtureConfig(parts={name: task})
    given = caught.value.nearest.removeprefix("task.mixture.parts.")
    assert MixtureConfig(parts={given: task}).names == (given,)


def test_a_set_cannot_have_the_name_of_a_part() -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, "evaluation.sets={a:{}}")
    assert caught.value.setting == "evaluation.sets.a"
    assert make_config(*TWO, "evaluation.sets={a_2:{}}").evaluation.sets


def test_a_set_of_one_task_is_refused_what_only_a_part_has() -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, "evaluation.sets={t:{task:{kind:sort,sort:{levels:[5]}}}}")
    assert caught.value.setting == "evaluation.sets.t.task.sort.answer"
    assert "takes over nothing of a mixture's parts" in caught.value.rule


@pytest.mark.parametrize("more", ["{shares:{a:1,b:0}}", "{parts:{a:{data_seed:1}}}"])
def test_a_set_is_of_the_sweep_s_own_mixture_or_of_one_task(more: str) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*TWO, f"evaluation.sets={{t:{{task:{{mixture:{more}}}}}}}")
    assert caught.value.setting == "evaluation.sets.t.task.mixture"


def test_a_part_s_data_file_is_found_and_hashed(tmp_path: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    math = ("task=mixture", f"{PART}m=math", "task.mixture.parts.m.math.dataset=null")
    one = parts(*math, f"task.mixture.parts.m.math.path={path}")["m"].math
    assert one is not None
    assert one.data_sha256 is not None
    with pytest.raises(SettingError) as caught:
        parts(*math, "task.mixture.parts.m.math.path=/none.jsonl")
    assert caught.value.setting == "task.mixture.parts.m.math.path"
