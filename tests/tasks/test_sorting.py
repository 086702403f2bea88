"""The sorting task: splits that never meet, the same in every process."""

from isosweep.tasks import heldout_problems, problems_digest, training_problems
from isosweep.tasks.sorting import is_task_problem
from tests.conftest import make_config
from tests.tasks.scoring import scores


def test_training_heldout_and_warm_start_problems_are_disjoint() -> None:
    task = make_config("task.sort.levels=[5,6]").task
    training = {problem.problem_id for problem in training_problems(task)}
    heldout = {problem.problem_id for problem in heldout_problems(task)}
    assert len(training) == task.num_train_problems
    assert len(heldout) == task.num_eval_problems
    assert not training & heldout
    # Levels have equal shares.
    levels = [problem.level for problem in heldout_problems(task)]
    assert levels.count(5) == levels.count(6) == task.num_eval_problems // 2
    # The warm start draws from all other strings.
    assert all(is_task_problem(name.removeprefix("sort-")) for name in training | heldout)


def test_problems_are_the_same_in_every_process_and_release() -> None:
    # As drawn since the first release: other problems would be other runs.
    task = make_config("task.num_train_problems=1024").task
    assert problems_digest(task).startswith("3fde242960719457")


def test_an_answer_is_judged_by_the_tasks_rule() -> None:
    exact, worded = make_config().task, make_config("task=sort_instruct").task
    problem = training_problems(exact)[0]
    right = problem.answer
    completions = [right, right + "4", "so " + right, " " + right + "\n"]
    assert scores(exact, [problem] * 4, completions) == [1, 0, 0, 1]
    completions = [
        f"3 < 4, so the digits are {right}.",
        f"{right}, or rather 1243",
        "I cannot tell",
    ]
    assert scores(worded, [problem] * 3, completions) == [1, 0, 0]
