"""Problems and scores from a function of the user's own.

The function is called with `task.custom.parameters` as keywords and returns its problems, a
sequence of `Problem`, and `score(problems, completions) -> scores`, which takes two sequences of
one length and returns as many numbers in [0, 1]. A third item, `answer(problem, completion)`,
returns the text that completions are voted by, or None of one that gives no answer. docs/tasks.md
has an example.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

from isosweep.config.own_function import OwnFunction
from isosweep.config.task import CustomConfig, TaskConfig
from isosweep.config.trust import require_own
from isosweep.tasks.problem import Judged, Problem, distinct, shuffled


class _Returned(NamedTuple):
    """What the user's function returned, checked."""

    problems: Sequence[Problem]
    score: Any
    answer: Any = None


_loaded: dict[str, _Returned] = {}


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` of the function's problems, by the hash of their prompts; all if there are fewer.

    Raises SettingError where the function cannot be imported or returns something else.
    """
    problems = distinct(_load(_custom(task)).problems)
    chosen = shuffled(problems, task.data_seed)[:wanted]
    # Its scores are tried before anything is launched.
    _judge(task, chosen[:1], [problem.answer for problem in chosen[:1]])
    return chosen


def tells_answers(task: TaskConfig) -> bool:
    """Whether the user's function returned a third one, for answers."""
    return _load(_custom(task)).answer is not None


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """What the user's functions say of each, called in the main thread when it is asked for.

    Raises SettingError unless that is a number in [0, 1], and text or None.
    """
    return partial(_judge, task, problems, completions)


def _judge(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[Judged]:
    config = _custom(task)
    own, wrong = _load(config), own_function(config).refused
    with _exits_refused(config, "its score"):
        returned = list(own.score(problems, completions))
    if len(returned) != len(completions):
        raise wrong(f"its score returned {len(returned)} numbers for {len(completions)}")
    for value in returned:
        number = float(value) if isinstance(value, Real) else math.nan
        if not 0 <= number <= 1:
            raise wrong(f"its score returned {value!r}, which is no number in [0, 1]")
    answers: list[Any] = [None] * len(returned)
    if own.answer is not None:
        with _exits_refused(config, "its answer"):
            answers = list(map(own.answer, problems, completions))
    for answer in answers:
        if not isinstance(answer, str | None):
            raise wrong(f"its answer returned {answer!r}, which is neither text nor None")
    return [Judged(float(value), answer) for value, answer in zip(returned, answers, strict=True)]


def own_function(config: CustomConfig) -> OwnFunction:
    """The task's function, to be looked for and imported."""
    return OwnFunction(
        setting="task.custom.function",
        path=config.function,
        directory=config.directory,
        place="task.custom.directory",
    )


def _custom(task: TaskConfig) -> CustomConfig:
    assert task.custom is not None
    return task.custom


def _load(config: CustomConfig) -> _Returned:
    key = repr(config)
    if key not in _loaded:
        require_own({"task.custom": asdict(config)})
        _loaded[key] = _call(config, own_function(config).load())
    return _loaded[key]


@contextmanager
def _exits_refused(config: CustomConfig, what: str) -> Iterator[None]:
    """Raise SettingError where the user's code ends the process, which would say nothing."""
    try:
        yield
    except SystemExit as error:
        raise own_function(config).refused(f"{what} called sys.exit({error.code})") from None


def _call(config: CustomConfig, function: Callable[..., Any]) -> _Returned:
    parameters, wrong = config.parameters or {}, own_function(config).refused
    try:
        inspect.signature(function).bind(**parameters)
    except TypeError as error:
        raise wrong(f"does not take task.custom.parameters: {error}") from None
    with _exits_refused(config, "it"):
        returned = function(**parameters)
    if not (isinstance(returned, tuple) and len(returned) in (2, 3)):
        raise wrong(f"returned {type(returned).__name__}, not a pair (problems, score)")
    own = _Returned(*returned)
    problems = own.problems
    if not isinstance(problems, Sequence) or not all(isinstance(p, Problem) for p in problems):
        raise wrong("its problems are no sequence of isosweep.tasks.Problem")
    for problem in problems:
        texts = problem.problem_id, problem.prompt, problem.answer, problem.metadata
        if not all(isinstance(text, str) for text in texts):
            raise wrong(f"a problem's id, prompt, answer and metadata are text: {problem}")
    return own
