"""A task of the user's own: what its function must be, and what is said if it is not."""

from pathlib import Path

import pytest

from isosweep.config.axes import combinations
from isosweep.config.task import TaskConfig
from isosweep.difficulty.selection import ChosenVariant
from isosweep.errors import SettingError
from isosweep.preflight.plan import require_functions
from isosweep.tasks import (
    Judged,
    heldout_problems,
    judge,
    problem_sets,
    tells_answers,
    training_problems,
)
from tests.conftest import make_config
from tests.tasks.files import scores

_MODULE = """
import sys
from isosweep.tasks import Problem

def letters(count=26):
    problems = [
        Problem(problem_id=str(i), prompt=f"Letter {i}?", answer=chr(97 + i)) for i in range(count)
    ]
    def score(problems, completions):
        return [float(p.answer == c) for p, c in zip(problems, completions, strict=True)]
    return problems, score

def voted(silent=False):
    problems, score = letters()
    return problems, score, lambda problem, completion: None if silent else completion[:1]
def wordy(): return (*letters(), lambda problem, completion: 1)
def numbers(): return [1, 2], None
def unscored(): return letters()[0], "score"
def half(): return [Problem(problem_id="a", prompt=chr(0xd835), answer="!")], lambda p, c: [1.0]
def high(): return letters()[0], lambda problems, completions: [2.0 for _ in problems]
def short(): return letters()[0], lambda problems, completions: []
def leaving(): return letters()[0], lambda problems, completions: sys.exit(3)
def single():
    import numpy
    return letters()[0], lambda problems, completions: numpy.full(len(problems), 0.5, "float32")
def reasoned():
    problems, score = letters()
    def told(problems, completions):
        return [(number, "as asked" if number else None) for number in score(problems, completions)]
    return problems, told
def mute(): return letters()[0], lambda problems, completions: [(1.0, 2) for _ in problems]
value = 3
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_tasks.py").write_text(_MODULE)
    (folder / "leaving.py").write_text("raise SystemExit(4)")
    (folder / "broken.py").write_text("def letters(:")
    (folder / "stars.py").write_text("from os.path import *")
    (folder / "heavy").mkdir()
    (folder / "heavy" / "__init__.py").write_text("raise SystemExit('executed')")
    text = "from elsewhere import hard as imported\nraise SystemExit\ndef hidden():\n  inner = 1"
    (folder / "heavy" / "tasks.py").write_text(text)
    return folder


def own(directory: Path, function: str, *more: str) -> TaskConfig:
    place = (f"task.custom.function={function}", f"task.custom.directory={directory}")
    sizes = ("task.num_train_problems=16", "task.num_eval_problems=4")
    return make_config("task=custom", *place, *sizes, *more).task


def test_a_function_of_ones_own_gives_problems_scores_and_answers(directory: Path) -> None:
    task = own(directory, "own_tasks:letters")
    training, heldout = training_problems(task), heldout_problems(task)
    assert (len(training), len(heldout)) == (16, 4)
    assert not {p.problem_id for p in training} & {p.problem_id for p in heldout}
    answers = [training[0].answer, "?", training[2].answer]
    assert scores(task, training[:3], answers) == [1.0, 0.0, 1.0]
    assert not tells_answers(task)
    single = own(directory, "own_tasks:single")
    assert scores(single, training_problems(single)[:2], ["?", "!"]) == [0.5, 0.5]
    voted = own(directory, "own_tasks:voted")
    assert tells_answers(voted)
    assert judge(voted, training[:2], ["?!", "x"]) == [Judged(0.0, "?"), Judged(0.0, "x")]
    reasoned = own(directory, "own_tasks:reasoned")
    given = judge(reasoned, training[:2], [training[0].answer, "?"])
    assert given == [Judged(1.0, None, "as asked"), Judged(0.0)]
    silent = own(directory, "own_tasks:voted", "task.custom.parameters={silent: true}")
    assert judge(silent, training[:1], ["?"]) == [Judged(0.0)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("own_task:letters", "cannot be imported: .*No module named 'own_task'"),
        ("own_tasks:leters", "has no function leters; it has .*letters"),
        ("own_tasks:value", "has no function value"),
        ("own_tasks:numbers", "its problems are no sequence of isosweep.tasks.Problem"),
        ("own_tasks:unscored", "its score is str, not a function"),
        ("own_tasks:half", "half of a character"),
        ("own_tasks:wordy", "its answer returned 1, which is neither text nor None"),
        ("own_tasks:high", "returned 2.0, which is no number in"),
        ("own_tasks:mute", "its score returned 2 as a reason, which is no text"),
        ("own_tasks:short", "returned 0 numbers for 1"),
        ("own_tasks:leaving", r"its score called sys.exit\(3\)"),
        ("leaving:letters", "cannot be imported: SystemExit: 4"),
        ("own_tasks:letters task.custom.parameters={many:3}", "does not take .*many"),
    ],
)
def test_a_wrong_path_or_return_type_is_reported(
    directory: Path, function: str, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        problem_sets(own(directory, *function.split()))


def look_for(directory: Path, function: str) -> None:
    place = (f"task.custom.function={function}", f"task.custom.directory={directory}")
    made = combinations(make_config("budget=1e12", "task=custom", *place))
    require_functions([ChosenVariant(axes=each.axes, config=each.config) for each in made])


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        ("nowhere:letters", "no module 'nowhere' is on the import path, nor in"),
        ("json.nowhere:letters", "no module 'json.nowhere' is on"),
        ("own_tasks:lettres", "own_tasks.py has no lettres; it has Problem, "),
        ("broken:letters", "broken.py cannot be imported: "),
        ("heavy.tasks:inner", "has no inner"),
    ],
)
def test_a_plan_refuses_a_function_that_is_not_there(
    function: str, rule: str, directory: Path
) -> None:
    with pytest.raises(SettingError) as caught:
        look_for(directory, function)
    assert caught.value.setting == "task.custom.function"
    assert rule in caught.value.rule


# What a module imports by a star cannot be told.
@pytest.mark.parametrize("function", ["heavy.tasks:imported", "stars:join"])
def test_a_plan_executes_nothing_of_a_function_that_is_there(
    function: str, directory: Path
) -> None:
    look_for(directory, function)
