"""What a set is of, what it has of the main evaluation, and what makes it another set."""

from typing import Any

import pytest

from isosweep.config.evaluation import on_all, set_identities
from isosweep.errors import SettingError
from tests.conftest import make_config, set_of
from tests.plan.test_spec import spec_of


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
