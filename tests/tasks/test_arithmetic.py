"""Arithmetic of graded difficulty: what a level is, and which number of an answer counts."""

from collections import Counter

import pytest

from isosweep.tasks import heldout_problems, judge, tells_answers, training_problems
from isosweep.tasks.arithmetic import graded
from tests.conftest import make_config


def test_levels_have_as_many_problems_each_as_the_smallest() -> None:
    problems, score, _ = graded(["2..4 x 2..3", "10..99 - 1..9", "1..3 + 7..9"])
    assert Counter(problem.level for problem in problems) == {1.0: 6, 2.0: 6, 3.0: 6}
    assert {p.prompt for p in problems if p.level == 1} == {
        f"What is {a} x {b}?" for a in (2, 3, 4) for b in (2, 3)
    }
    for problem in problems:
        a, sign, b = problem.prompt.removeprefix("What is ").rstrip("?").split()
        assert problem.answer == str(
            {"x": int(a) * int(b), "-": int(a) - int(b), "+": int(a) + int(b)}[sign]
        )
    assert score(problems, [problem.answer for problem in problems]) == [1.0] * 18


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("12 x 8 = 96.", 1.0),
        ("The answer is 96", 1.0),
        ("12 x 8 = 096", 1.0),
        ("96 is 12 x 8", 0.0),
        ("-96", 0.0),
        ("ninety-six", 0.0),
        ("", 0.0),
        ("1,096", 0.0),
    ],
)
def test_the_last_number_counts(completion: str, right: float) -> None:
    problems, score, _ = graded(["12..12 x 8..8"])
    assert score(problems, [completion]) == [right]


@pytest.mark.parametrize("level", ["2..9", "2..9 * 2..9", "2-9 x 2-9", "hard"])
def test_what_is_no_level_is_refused(level: str) -> None:
    with pytest.raises(ValueError, match="is no level: two ranges"):
        graded([level])


def test_the_packaged_task_holds_out_256_problems_and_votes_by_the_number() -> None:
    task = make_config("task=arithmetic").task
    training, heldout = training_problems(task), heldout_problems(task)
    assert (len(training), len(heldout)) == (128, 256)
    assert not {p.prompt for p in training} & {p.prompt for p in heldout}
    assert {p.level for p in training} == {1.0, 2.0, 3.0}
    assert tells_answers(task)
    (judged,) = judge(task, heldout[:1], [f"It is {heldout[0].answer}."])
    assert (judged.score, judged.answer) == (1.0, heldout[0].answer)
