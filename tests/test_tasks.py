"""The sorting task: splits that never meet, the same in every process."""

import os
import subprocess
import sys

from isosweep.tasks import heldout_problems, is_correct, is_task_problem, training_problems
from tests.conftest import make_config


def test_training_heldout_and_warm_start_problems_are_disjoint() -> None:
    task = make_config("task.levels=[5,6]").task
    training = {problem.problem_id for problem in training_problems(task)}
    heldout = {problem.problem_id for problem in heldout_problems(task)}
    assert len(training) == task.num_train_problems
    assert len(heldout) == task.num_eval_problems
    assert not training & heldout
    # The warm start draws from all other strings.
    assert all(is_task_problem(name.removeprefix("sort-")) for name in training | heldout)


def test_levels_have_equal_shares() -> None:
    task = make_config("task.levels=[5,6]").task
    levels = [problem.level for problem in heldout_problems(task)]
    assert levels.count(5) == levels.count(6) == task.num_eval_problems // 2


def test_problems_are_the_same_in_every_process() -> None:
    code = (
        "from tests.conftest import make_config; from isosweep.tasks import heldout_problems\n"
        "print(*(p.problem_id for p in heldout_problems(make_config().task)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [p.problem_id for p in heldout_problems(make_config().task)]


def test_an_answer_is_judged_by_the_tasks_rule() -> None:
    exact, worded = make_config().task, make_config("task=sort_instruct").task
    assert is_correct(exact, "1234", "1234")
    assert not is_correct(exact, "1234", "12344")
    assert not is_correct(exact, "1234", "so 1234")
    assert is_correct(worded, "1234", "3 < 4, so the digits are 1234.")
    assert not is_correct(worded, "1234", "1234, or rather 1243")
    assert not is_correct(worded, "1234", "I cannot tell")
