"""Problems and scores from a function of the user's own.

The function is called with `task.custom.parameters` as keywords and returns its problems, a
sequence of `Problem`, and `score(problems, completions) -> scores`, which takes two sequences of
one length and returns as many numbers in [0, 1], or pairs of a number and the reason of it, a text
that is kept with the completion for people to read. A third item, `answer(problem, completion)`,
returns the text that completions are voted by, or None of one that gives no answer. docs/tasks.md
has an example.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

from isosweep.config.own_function import OwnFunction
from isosweep.config.task import CustomConfig, TaskConfig
from isosweep.config.trust import require_own
from isosweep.tasks.problem import Judged, Problem, distinct, shuffled

# Problems, score and answer (or None) that the user's function returned, by the task's settings.
_returned: dict[str, tuple[Sequence[Problem], Any, Any]] = {}


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` of the function's problems, by the hash of their prompts; all if there are fewer.

    Raises SettingError where the function cannot be imported or returns something else.
    """
    problems, *_ = _load(task)
    chosen = shuffled(distinct(problems), task.data_seed)[:wanted]
    # Its scores are tried before anything is launched.
    _judge(task, chosen[:1], [problem.answer for problem in chosen[:1]])
    return chosen


def tells_answers(task: TaskConfig) -> bool:
    """Whether the user's function returned a third one, for answers."""
    return _load(task)[2] is not None


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
    assert task.custom is not None
    (_, score, answer), own = _load(task), own_function(task.custom)
    values = list(_called(own, "its score", score, problems, completions))
    if len(values) != len(completions):
        raise own.refused(f"its score returned {len(values)} numbers for {len(completions)}")
    pairs = [
        each if isinstance(each, tuple) and len(each) == 2 else (each, None) for each in values
    ]
    for value, reason in pairs:
        if not isinstance(reason, str | None):
            raise own.refused(f"its score returned {reason!r} as a reason, which is no text")
        number = float(value) if isinstance(value, Real) else math.nan
        if not 0 <= number <= 1:
            raise own.refused(f"its score returned {value!r}, which is no number in [0, 1]")
    answers: list[Any] = [None] * len(values)
    if answer is not None:
        given = zip(problems, completions, strict=True)
        answers = [_called(own, "its answer", answer, *each) for each in given]
    for text in answers:
        if not isinstance(text, str | None):
            raise own.refused(f"its answer returned {text!r}, which is neither text nor None")
    return [Judged(float(v), text, why) for (v, why), text in zip(pairs, answers, strict=True)]


def own_function(config: CustomConfig) -> OwnFunction:
    """The task's function, to be looked for and imported."""
    return OwnFunction(
        setting="task.custom.function",
        path=config.function,
        directory=config.directory,
        place="task.custom.directory",
    )


def _called(own: OwnFunction, name: str, function: Any, *values: Any, **named: Any) -> Any:
    """What the user's code returns. Raises SettingError where it ends the process, which would say
    nothing."""
    try:
        return function(*values, **named)
    except SystemExit as error:
        raise own.refused(f"{name} called sys.exit({error.code})") from None


def _load(task: TaskConfig) -> tuple[Sequence[Problem], Any, Any]:
    config, key = task.custom, repr(task.custom)
    assert config is not None
    if key not in _returned:
        require_own(("task.custom", config.model_dump()))
        _returned[key] = _call(own_function(config), config.parameters or {})
    return _returned[key]


def _call(own: OwnFunction, parameters: dict[str, Any]) -> tuple[Sequence[Problem], Any, Any]:
    function = own.load()
    try:
        inspect.signature(function).bind(**parameters)
    except TypeError as error:
        raise own.refused(f"does not take task.custom.parameters: {error}") from None
    returned = _called(own, "it", function, **parameters)
    if not (isinstance(returned, tuple) and len(returned) in (2, 3)):
        raise own.refused(f"returned {type(returned).__name__}, not a pair (problems, score)")
    problems, score, answer = (*returned, None)[:3]
    if not isinstance(problems, Sequence) or not all(isinstance(p, Problem) for p in problems):
        raise own.refused("its problems are no sequence of isosweep.tasks.Problem")
    for problem in problems:
        texts = problem.problem_id, problem.prompt, problem.answer, problem.metadata
        if not all(isinstance(text, str) for text in texts):
            raise own.refused(f"a problem's id, prompt, answer and metadata are text: {problem}")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            half = "a problem has half of a character (a lone surrogate)"
            raise own.refused(f"{half}: {problem!a}") from None
    for name, given in zip(("score", "answer"), returned[1:], strict=False):
        if not callable(given):
            raise own.refused(f"its {name} is {type(given).__name__}, not a function")
    return problems, score, answer
