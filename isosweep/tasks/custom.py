"""Problems and scores from a function of the user's own.

The function is called with `task.custom.parameters` as keywords and returns a pair: its problems,
a sequence of `Problem`, and `score(problems, completions) -> scores`, which takes two sequences of
one length and returns as many numbers in [0, 1]. docs/tasks.md has an example.
"""

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from numbers import Real
from pathlib import Path
from typing import Any

from isosweep.config.executed import require_own
from isosweep.config.task import CustomConfig, TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.problem import Distinct, Pool, Problem, in_template, shuffled

_SIGNATURE = "a function that returns (problems, score), as docs/tasks.md describes"

_loaded: dict[str, tuple[Sequence[Problem], Callable[..., Any]]] = {}


def pool(task: TaskConfig, wanted: int) -> Pool:
    """`wanted` of the function's problems, by the hash of their prompts; all if there are fewer.

    Raises SettingError where the function cannot be imported or returns something else.
    """
    problems, _ = _load(_custom(task))
    distinct = Distinct()
    kept = [problem for problem in problems if distinct.take(problem)]
    chosen = shuffled(kept, task.data_seed)[:wanted]
    scores(task, chosen[:1], [problem.answer for problem in chosen[:1]])
    return Pool(
        problems=tuple(in_template(problem, task.template) for problem in chosen),
        source=_custom(task).function,
        dropped=distinct.dropped,
    )


def scores(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[float]:
    """What the user's function says; SettingError unless it is a number in [0, 1] for each."""
    config = _custom(task)
    _, score = _load(config)
    returned = list(score(problems, completions))
    if len(returned) != len(completions):
        raise _wrong(config, f"its score returned {len(returned)} numbers for {len(completions)}")
    for value in returned:
        number = float(value) if isinstance(value, Real) else math.nan
        if not 0 <= number <= 1:
            raise _wrong(config, f"its score returned {value!r}, which is no number in [0, 1]")
    return [float(value) for value in returned]


def _custom(task: TaskConfig) -> CustomConfig:
    assert task.custom is not None
    return task.custom


def _load(config: CustomConfig) -> tuple[Sequence[Problem], Callable[..., Any]]:
    key = repr(config)
    if key not in _loaded:
        _loaded[key] = _call(config, _function(config))
    return _loaded[key]


def _function(config: CustomConfig) -> Callable[..., Any]:
    require_own({"task.custom": asdict(config)})
    module_name, _, name = config.function.partition(":")
    directory = str(Path(config.directory or "").absolute())
    if directory not in sys.path:
        # The working directory comes last: what lies there is in the place of no library.
        sys.path.insert(len(sys.path) if config.directory is None else 0, directory)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise _wrong(config, f"cannot be imported: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        defined = [key for key, value in vars(module).items() if callable(value)]
        own = [key for key in defined if not key.startswith("_")]
        raise _wrong(config, f"{module_name} has no function {name}; it has {', '.join(own)}")
    checked: Callable[..., Any] = function
    return checked


def _call(
    config: CustomConfig, function: Callable[..., Any]
) -> tuple[Sequence[Problem], Callable[..., Any]]:
    parameters = config.parameters or {}
    try:
        inspect.signature(function).bind(**parameters)
    except TypeError as error:
        raise _wrong(config, f"does not take task.custom.parameters: {error}") from None
    returned = function(**parameters)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise _wrong(config, f"returned {type(returned).__name__}, not a pair (problems, score)")
    problems, score = returned
    if not isinstance(problems, Sequence) or not all(isinstance(p, Problem) for p in problems):
        kinds = {type(p).__name__ for p in problems} if isinstance(problems, Sequence) else None
        given = f"a sequence of {', '.join(sorted(kinds))}" if kinds else type(problems).__name__
        raise _wrong(config, f"its problems are {given}, not a sequence of isosweep.tasks.Problem")
    for problem in problems:
        if not all(isinstance(text, str) for text in _texts(problem)):
            raise _wrong(config, f"a problem's id, prompt, answer and metadata are text: {problem}")
    if not callable(score):
        raise _wrong(config, f"its score is {type(score).__name__}, not a function")
    return problems, score


def _texts(problem: Problem) -> tuple[Any, ...]:
    return problem.problem_id, problem.prompt, problem.answer, problem.metadata


def _wrong(config: CustomConfig, rule: str) -> SettingError:
    return SettingError("task.custom.function", config.function, rule, _SIGNATURE)
