"""Problems of further evaluation sets: never among those trained on, unless they are asked for."""

from pathlib import Path

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.tasks import Problem, heldout_problems, training_problems
from isosweep.tasks.sets import problems_of_sets
from tests.conftest import make_config
from tests.tasks.files import write_sums


def drawn(config: SweepConfig) -> dict[str, list[Problem]]:
    return problems_of_sets(config, training_problems(config.task))


def ids(problems: list[Problem]) -> set[str]:
    return {problem.problem_id for problem in problems}


def test_problems_that_are_trained_on_have_others_in_their_place() -> None:
    # 625 strings of four digits for tasks: another seed draws many of them again.
    config = make_config(
        *("task.sort.levels=[4]", "task.num_train_problems=600", "task.num_eval_problems=64"),
        "evaluation.sets={other:{task:{data_seed:1,template:'d{digits}='}}}",
    )
    plain = heldout_problems(make_config("task.data_seed=1", *TASK).task)
    trained, own = ids(training_problems(config.task)), drawn(config)["other"]
    assert ids(plain) & trained
    assert not ids(own) & trained
    assert len(ids(own)) == 64
    # In the order of those that such a task holds out.
    kept = [problem.problem_id for problem in plain if problem.problem_id not in trained]
    assert [problem.problem_id for problem in own][: len(kept)] == kept


TASK = ("task.sort.levels=[4]", "task.num_train_problems=600", "task.num_eval_problems=64")


def of_files(tmp_path: Path, more: str) -> SweepConfig:
    write_sums(tmp_path / "a.jsonl", 0, 60)
    write_sums(tmp_path / "b.jsonl", 40, 60)
    return make_config(
        *("task=math", "task.math.dataset=null", f"task.math.path={tmp_path / 'a.jsonl'}"),
        *("task.math.id_column=id", "task.math.problem_column=problem"),
        *("task.math.answer_after=null", "task.math.subset=null"),
        *("task.num_train_problems=32", "task.num_eval_problems=16"),
        *("task.max_completion_tokens=8", "task.completion_tokens=4", "task.prompt_tokens=9"),
        f"evaluation.sets={{other:{{task:{{{more}}}}}}}",
    )


def test_ids_of_two_files_are_not_mistaken_for_each_other_and_equal_problems_are(
    tmp_path: Path,
) -> None:
    other = f"num_eval_problems:30,math:{{path:{tmp_path / 'b.jsonl'},id_column:id}}"
    config = of_files(tmp_path, other)
    prompts = {problem.prompt for problem in training_problems(config.task)}
    found = drawn(config)["other"]
    assert len(found) == 30
    assert not prompts & {problem.prompt for problem in found}
    # 20 problems are in both files under different ids, and all ids are in both.
    assert ids(found) & ids(training_problems(config.task))


def test_more_problems_than_there_are_beside_those_trained_on_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as caught:
        drawn(of_files(tmp_path, "num_eval_problems:40"))
    assert caught.value.setting == "evaluation.sets.other.task.num_eval_problems"
    assert caught.value.nearest == "evaluation.sets.other.task.num_eval_problems=28"
    assert len(drawn(of_files(tmp_path, "num_eval_problems:28"))["other"]) == 28
