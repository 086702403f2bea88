"""Mixtures and evaluation sets: how they are composed, what follows, and what makes another."""

from typing import Any

import pytest

from isosweep.config.axes import combinations
from isosweep.config.evaluation import on_all, set_identities
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from tests.conftest import make_config, set_of
from tests.plan.test_spec import spec_of

PART = "+task@task.mixture.parts."
TWO = ("task=mixture", f"{PART}a=sort", f"{PART}b=sort", "task.mixture.parts.b.sort.levels=[4]")


def parts(*overrides: str) -> dict[str, TaskConfig]:
    return make_config(*overrides).task.parts


def test_parts_are_packaged_tasks_with_settings_of_their_own() -> None:
    found = parts("task=math_and_code", "task.mixture.parts.math.math.split=test")
    assert [*found] == ["code", "math"]
    assert found["math"].math is not None
    assert found["math"].math.split == "test"
    assert found["code"] == make_config("task=code").task
    typed = parts(*TWO)
    assert [task.sort.levels for task in typed.values() if task.sort] == [[6], [4]]


def test_numbers_of_problems_are_the_sums_of_the_parts() -> None:
    own = (*TWO, "task.mixture.parts.a.num_train_problems=96")
    task = make_config(*own).task
    assert (task.num_train_problems, task.num_eval_problems) == (128, 512)
    with pytest.raises(SettingError, match="is the sum of the parts', 128") as caught:
        make_config(*own, "task.num_train_problems=10")
    assert caught.value.nearest == "task.mixture.parts.a.num_train_problems=10"


def test_the_longest_completion_of_any_part_is_the_limit_of_all() -> None:
    assert {part.completion_limit for part in parts(*TWO).values()} == {7}
    given = parts(*TWO, "task.max_completion_tokens=9")
    assert {part.completion_limit for part in given.values()} == {9}


def test_planned_lengths_are_means_by_the_shares() -> None:
    shares = "task.mixture.shares={a:0.75,b:0.25}"
    task = make_config(*TWO, shares).task
    assert task.planned_completion_tokens == 0.75 * 7 + 0.25 * 5
    assert task.planned_prompt_tokens == 0.75 * 8 + 0.25 * 6


def test_what_changes_the_numbers_of_a_mixture_makes_another_run_and_nothing_else_does() -> None:
    same = spec_of(*TWO).run_id
    alike = [
        *("task.mixture.shares={b:0.5,a:0.5}", "task.mixture.parts.a.name=other"),
        *("task.mixture.parts.a.prompt_tokens=9", "task.mixture.parts.a.completion_tokens=5"),
    ]
    assert {spec_of(*TWO, each).run_id for each in alike} == {same}
    others = [
        *("task.mixture.shares={a:0.6,b:0.4}", "task.mixture.parts.a.data_seed=1"),
        *("task.mixture.parts.b.success_at=0.5", "task.mixture.parts.b.sort.levels=[5]"),
        *("task.mixture.parts.a.num_train_problems=33", "task.max_completion_tokens=8"),
    ]
    assert len({same, *(spec_of(*TWO, each).run_id for each in others)}) == len(others) + 1


def variants(*overrides: str) -> list[SweepConfig]:
    return [variant.config for variant in combinations(make_config(*overrides))]


def test_shares_numbers_and_whole_mixtures_are_axes() -> None:
    shares = "grid.axes={task.mixture.shares:[{a:1,b:0},{a:0.5,b:0.5}]}"
    found = [config.task.mixture for config in variants(*TWO, shares)]
    assert [m.share_of["a"] for m in found if m] == [1, 0.5]
    sizes = "grid.axes={task.mixture.parts.a.num_train_problems:[8,16]}"
    assert [config.task.num_train_problems for config in variants(*TWO, sizes)] == [40, 48]
    assert [c.task.kind for c in variants("grid.axes={task:[sort,sort_mix]}")] == [
        "sort",
        "mixture",
    ]


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


def test_a_set_without_a_task_is_the_main_evaluation_sampled_otherwise() -> None:
    config = make_config("evaluation.seed=3", "evaluation.sets={same:{},cool:{temperature:0.5}}")
    found = on_all(config)
    assert [*found] == ["same", "cool"]
    assert found["same"].task == found["cool"].task == config.task
    assert found["cool"].evaluation.temperature == 0.5
    assert found["cool"].evaluation.seed == 3
    assert found["same"].evaluation == make_config("evaluation.seed=3").evaluation


def test_a_set_is_the_task_that_is_typed_whatever_the_sweeps_task_is() -> None:
    long = ("sort.levels=[9]", "num_eval_problems=16", "template='d{digits}='")
    alone = make_config("task=sort", *(f"task.{setting}" for setting in long)).task
    for own in ("task=sort", "task=sort_mix", "task=arithmetic"):
        config = make_config(own, *set_of("other", "sort", *long), "task.max_completion_tokens=40")
        assert on_all(config)["other"].task == alone


def test_training_problems_as_a_set_are_at_most_as_many_as_held_out_ones() -> None:
    for training, heldout in ((24, 64), (64, 24)):
        sizes = (f"task.num_train_problems={training}", f"task.num_eval_problems={heldout}")
        config = make_config(*sizes, "evaluation.sets={train:{problems:train}}")
        assert on_all(config)["train"].task.num_eval_problems == 24
    with pytest.raises(SettingError, match="has no task of its own"):
        make_config(*set_of("train", "sort"), "+evaluation.sets.train.problems=train")


def test_what_changes_a_sets_numbers_and_nothing_else_makes_it_another_set() -> None:
    def identity(*more: str) -> Any:
        return set_identities(spec_of(*set_of("a", "sort"), *more))["a"]

    own = "evaluation.sets.a.task."
    same = identity()
    assert identity("+evaluation.sets.a.samples_per_problem=8", f"{own}name=other") == same
    others = [
        *("+evaluation.sets.a.temperature=0.5", "+evaluation.sets.a.samples_per_problem=4"),
        *(f"{own}sort.levels=[9]", f"{own}num_eval_problems=9", f"{own}data_seed=1"),
        f"{own}max_completion_tokens=5",
    ]
    found = [str(identity(text)) for text in others]
    assert len({str(same), *found}) == len(others) + 1
