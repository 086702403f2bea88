"""What a set takes over from the main evaluation, what it has of its own, and what is refused."""

from typing import Any

from isosweep.config.evaluation import on_sets, set_identities
from tests.conftest import make_config
from tests.plan.test_spec import spec_of

MATH = (
    *("task=math", "task.max_completion_tokens=64", "task.completion_tokens=32"),
    *("task.math.answer_after='##'", "task.template='Q: {problem}'", "task.difficulty=hard"),
)


def sets(text: str, *overrides: str) -> dict[str, Any]:
    return on_sets(make_config(*overrides, f"evaluation.sets={{{text}}}"))


def test_what_a_set_does_not_say_is_as_in_the_main_evaluation() -> None:
    config = make_config("evaluation.seed=3", "evaluation.sets={same:{},cool:{temperature:0.5}}")
    found = on_sets(config)
    assert [*found] == ["same", "cool"]
    assert found["same"].task == found["cool"].task == config.task
    assert found["cool"].evaluation.temperature == 0.5
    assert found["cool"].evaluation.seed == 3
    assert found["same"].evaluation == make_config("evaluation.seed=3").evaluation


def test_a_set_is_what_its_settings_typed_for_the_task_would_be() -> None:
    typed = "long:{task:{sort:{levels:[9]},num_eval_problems:16,template:'d{digits}='}}"
    alone = ("task.sort.levels=[9]", "task.num_eval_problems=16", "task.template='d{digits}='")
    assert sets(typed)["long"].task == make_config(*alone).task


def test_a_source_of_its_own_takes_over_nothing_of_the_sweeps() -> None:
    other = sets("aime:{task:{math:{dataset:other/aime}}}", *MATH)["aime"].task
    assert other.math is not None
    assert (other.math.dataset, other.math.answer_after) == ("other/aime", None)
    assert (other.difficulty, other.template) == (None, "Q: {problem}")
    columns = sets("raw:{task:{math:{answer_after:null}}}", *MATH)["raw"].task
    assert columns.math is not None
    assert columns.math.dataset == make_config(*MATH).task.math.dataset  # type: ignore[union-attr]
    assert columns.difficulty == "hard"


def test_a_set_of_another_kind_brings_its_own_template_and_lengths() -> None:
    sort = "digits:{task:{kind:sort,template:'s{digits}=',sort:{levels:[5],answer:exact}}}"
    task = sets(sort, *MATH)["digits"].task
    assert (task.kind, task.math, task.completion_limit) == ("sort", None, 6)


def test_training_problems_as_a_set_are_as_many_as_held_out_ones_or_as_asked() -> None:
    few = ("task.num_train_problems=24", "task.num_eval_problems=64")
    assert sets("train:{problems:train}", *few)["train"].task.num_eval_problems == 24
    asked = "train:{problems:train,task:{num_eval_problems:7}}"
    assert sets(asked, *few)["train"].task.num_eval_problems == 7


def test_what_changes_a_sets_numbers_and_nothing_else_makes_it_another_set() -> None:
    def identity(text: str) -> Any:
        return set_identities(spec_of(f"evaluation.sets={{a:{text}}}"))["a"]

    same = identity("{}")
    assert identity("{samples_per_problem:8,task:{name:other}}") == same
    others = [
        *("{temperature:0.5}", "{samples_per_problem:4}", "{problems:train}"),
        *("{task:{sort:{levels:[9]}}}", "{task:{num_eval_problems:9}}"),
        *("{task:{data_seed:1}}", "{task:{max_completion_tokens:5}}"),
    ]
    found = [str(identity(text)) for text in others]
    assert len({str(same), *found}) == len(others) + 1
