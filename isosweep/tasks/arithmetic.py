"""Arithmetic of graded difficulty, for language models that are small: a task=custom.

A level is a text such as `10..20 x 2..9`: two ranges of whole numbers, and `+`, `-` or `x` between
them. docs/tasks.md says how often a model of 135M parameters is right at which.
"""

import operator
import re
from collections.abc import Callable, Sequence

from isosweep.tasks.problem import Problem, content_id

_LEVEL = re.compile(r"(\d+)\.\.(\d+) ([-+x]) (\d+)\.\.(\d+)")
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "x": operator.mul,
}
_NUMBER = re.compile(r"-?\d+")


def graded(
    levels: Sequence[str],
) -> tuple[
    Sequence[Problem],
    Callable[[Sequence[Problem], Sequence[str]], list[float]],
    Callable[[Problem, str], str | None],
]:
    """Problems of `levels`, of each as many as the smallest has; 1 for a completion whose last
    number is the answer, else 0; and that number. Raises ValueError for what is no level."""
    graded = [_problems(number, level) for number, level in enumerate(levels, start=1)]
    count = min(map(len, graded))
    return [problem for each in graded for problem in each[:count]], _score, _answer


def _problems(number: int, level: str) -> list[Problem]:
    """All problems of a level, in the order of their ids, which is one of chance."""
    match = _LEVEL.fullmatch(level)
    if match is None:
        raise ValueError(f"{level!r} is no level: two ranges, as in '10..20 x 2..9'")
    sign, operation = match[3], _OPERATIONS[match[3]]
    problems = []
    for a in range(int(match[1]), int(match[2]) + 1):
        for b in range(int(match[4]), int(match[5]) + 1):
            prompt = f"What is {a} {sign} {b}?"
            problems.append(
                Problem(
                    problem_id=content_id("arithmetic", prompt),
                    level=float(number),
                    prompt=prompt,
                    answer=str(operation(a, b)),
                )
            )
    return sorted(problems, key=lambda problem: problem.problem_id)


def _score(problems: Sequence[Problem], completions: Sequence[str]) -> list[float]:
    pairs = zip(problems, completions, strict=True)
    return [float(_answer(problem, text) == problem.answer) for problem, text in pairs]


def _answer(_: Problem, completion: str) -> str | None:
    numbers = _NUMBER.findall(completion.replace(",", ""))
    return str(int(numbers[-1])) if numbers else None
