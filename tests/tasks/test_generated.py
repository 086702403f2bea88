"""Problems that are generated: sorting, arithmetic and reasoning_gym's puzzles."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks import (
    Judged,
    heldout_problems,
    is_success,
    judge,
    problem_sets,
    problems_digest,
    tells_answers,
    training_problems,
)
from isosweep.tasks.arithmetic import graded
from isosweep.tasks.sorting import is_task_problem
from tests.conftest import make_config
from tests.tasks.files import scores


def test_training_heldout_and_warm_start_problems_are_disjoint() -> None:
    task = make_config("task.sort.levels=[5,6]").task
    training = {problem.problem_id for problem in training_problems(task)}
    heldout = {problem.problem_id for problem in heldout_problems(task)}
    assert (len(training), len(heldout)) == (task.num_train_problems, task.num_eval_problems)
    assert not training & heldout
    # Levels have equal shares.
    levels = [problem.level for problem in heldout_problems(task)]
    assert levels.count(5) == levels.count(6) == task.num_eval_problems // 2
    # The warm start draws from all other strings.
    assert all(is_task_problem(name.removeprefix("sort-")) for name in training | heldout)


def test_sorting_problems_are_the_same_in_every_process_and_release() -> None:
    # As drawn since the first release: other problems would be other runs.
    task = make_config("task.num_train_problems=1024").task
    assert problems_digest(task).startswith("3fde242960719457")


def test_sorted_digits_are_judged_by_the_tasks_rule() -> None:
    exact, worded = make_config().task, make_config("task=sort_instruct").task
    problem = training_problems(exact)[0]
    right = problem.answer
    completions = [right, right + "4", "so " + right, " " + right + "\n"]
    assert scores(exact, [problem] * 4, completions) == [1, 0, 0, 1]
    completions = [f"3 < 4, so they are {right}.", f"{right}, or rather 1243", "I cannot tell"]
    assert scores(worded, [problem] * 3, completions) == [1, 0, 0]


def test_levels_of_arithmetic_have_as_many_problems_each_as_the_smallest() -> None:
    problems, score, _ = graded(["2..4 x 2..3", "10..99 - 1..9", "1..3 + 7..9"])
    assert Counter(problem.level for problem in problems) == {1.0: 6, 2.0: 6, 3.0: 6}
    assert {p.prompt for p in problems if p.level == 1} == {
        f"What is {a} x {b}?" for a in (2, 3, 4) for b in (2, 3)
    }
    for problem in problems:
        a, sign, b = problem.prompt.removeprefix("What is ").rstrip("?").split()
        assert int(problem.answer) == eval(f"{a} {sign} {b}".replace("x", "*"))
    assert score(problems, [problem.answer for problem in problems]) == [1.0] * 18
    with pytest.raises(ValueError, match="is no level: two ranges"):
        graded(["2..9 * 2..9"])


def test_the_packaged_arithmetic_counts_the_last_number_of_an_answer() -> None:
    task = make_config("task=arithmetic").task
    training, heldout = training_problems(task), heldout_problems(task)
    assert (len(training), len(heldout)) == (128, 256)
    assert not {p.prompt for p in training} & {p.prompt for p in heldout}
    assert tells_answers(task)
    problem = next(p for p in heldout if len(p.answer) > 1)
    right = problem.answer
    for completion, score, answer in (
        (f"It is {right}.", 1, right),
        (f"0{right}", 1, right),
        (f"{right} is 12 x 8", 0, "8"),
        (f"-{right}", 0, f"-{right}"),
        (f"1,0{right}", 0, f"10{right}"),
        ("ninety", 0, None),
    ):
        assert judge(task, [problem], [completion]) == [Judged(score, answer)]


def gym(generator: str, *more: str) -> TaskConfig:
    sizes = ("task.num_train_problems=24", "task.num_eval_problems=8")
    chosen = f"task.reasoning_gym.generator={generator}"
    return make_config("task=reasoning_gym", *sizes, chosen, *more).task


# Among them what JSON would not hold (arc_agi) and what iterates over sets (word_ladder).
@pytest.mark.parametrize("generator", ["chain_sum", "countdown", "arc_agi", "word_ladder"])
def test_a_generators_answers_score_1_by_its_own_verifier(generator: str) -> None:
    task = gym(generator)
    problems = training_problems(task)
    assert len(problems) == 24
    completions = [f"Well.\n<answer>{problem.answer}</answer>" for problem in problems]
    assert scores(task, problems, completions) == [1.0] * 24
    shifted = scores(task, problems, completions[1:] + completions[:1])
    assert sum(shifted) < 12
    assert all(0 <= score <= 1 for score in shifted)


def test_an_answer_is_the_last_tag_or_else_the_last_line() -> None:
    task = gym("chain_sum")
    problem = training_problems(task)[0]
    right = problem.answer
    expected = {
        f"<answer>1</answer> no, <answer>{right}</answer>": 1.0,
        f"<answer>{right}</answer> no, <answer>1</answer>": 0.0,
        f"Let me think.\n{right}\n\n": 1.0,
        "<answer></answer>": 0.0,
    }
    assert scores(task, [problem] * len(expected), list(expected)) == list(expected.values())
    # Countdown gives little to a well-formed answer that misses the target.
    problem = training_problems(gym("countdown"))[0]
    (score,) = scores(gym("countdown"), [problem], ["<answer>1 + 1</answer>"])
    assert 0 < score < 1
    assert not is_success(gym("countdown"), score)
    assert is_success(gym("countdown", f"task.success_at={score}"), score)


def test_puzzles_are_the_same_in_every_process() -> None:
    """word_ladder draws others under every hash seed when it is left to itself."""
    code = (
        "from tests.tasks.test_generated import gym; from isosweep.tasks import problems_digest\n"
        "print(problems_digest(gym('word_ladder')))"
    )
    # Any that is not this process's.
    seed = {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    command, environment = [sys.executable, "-c", code], {**os.environ, **seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == problems_digest(gym("word_ladder"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.reasoning_gym.generator=countdwn", "generator=countdwn: must be one of ab, "),
        ("task.reasoning_gym.parameters={max_term:3}", "refuses them: entry 0 .*'max_term'"),
        ("task.reasoning_gym.parameters={min_terms:9}", "refuses them: entry 0 .*AssertionError"),
    ],
)
def test_a_wrong_generator_or_parameter_is_reported(override: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        problem_sets(gym("chain_sum", override))
