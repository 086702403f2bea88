"""Problems and verifiers of reasoning_gym."""

import os
import subprocess
import sys

import pytest

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks import is_success, problem_sets, problems_digest, training_problems
from tests.conftest import make_config
from tests.tasks.scoring import scores


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
        "": 0.0,
        "<answer></answer>": 0.0,
    }
    assert scores(task, [problem] * len(expected), list(expected)) == list(expected.values())


def test_a_partial_score_is_a_success_from_success_at_on() -> None:
    # Countdown gives little to a well-formed answer that misses the target.
    problem = training_problems(gym("countdown"))[0]
    (score,) = scores(gym("countdown"), [problem], ["<answer>1 + 1</answer>"])
    assert 0 < score < 1
    assert not is_success(gym("countdown"), score)
    assert is_success(gym("countdown", f"task.success_at={score}"), score)


def test_problems_are_the_same_in_every_process() -> None:
    """word_ladder draws others under every hash seed when it is left to itself."""
    code = (
        "from tests.tasks.test_reasoning import gym; from isosweep.tasks import problems_digest\n"
        "print(problems_digest(gym('word_ladder')))"
    )
    # Any that is not this process's.
    seed = {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == problems_digest(gym("word_ladder"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.reasoning_gym.generator=countdwn", "generator=countdwn: must be one of ab, "),
        (
            "task.reasoning_gym.parameters={max_term:3}",
            "parameters=max_term: must be one of min_terms, max_terms",
        ),
        ("task.reasoning_gym.parameters={min_terms:9}", "refuses them: entry 0 .*AssertionError"),
    ],
)
def test_a_wrong_generator_or_parameter_is_reported(override: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        problem_sets(gym("chain_sum", override))
