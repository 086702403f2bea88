"""Problems of a dataset or file whose answers math-verify (PyPI) checks."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from isosweep.config.choices import closest
from isosweep.config.task import MathConfig, TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.checking import ask_all
from isosweep.tasks.problem import (
    Distinct,
    Pool,
    Problem,
    content_id,
    in_template,
    normalised,
    shuffled,
)
from isosweep.tasks.rows import read_rows

# Row numbers named in a message.
_NAMED_ROWS = 8


def pool(task: TaskConfig, config: MathConfig, wanted: int) -> Pool:
    """`wanted` distinct problems, chosen by the hash of their text; all where there are fewer.

    Raises SettingError for a source that cannot be read, a missing column, a row without text,
    or an answer that math-verify cannot read (with its row).
    """
    distinct, rows = Distinct(), dict[str, int]()
    problems = []
    for number, problem in _problems(config):
        if distinct.take(problem):
            problems.append(problem)
            rows[problem.problem_id] = number
    chosen, unreadable = _readable(shuffled(problems, task.data_seed), wanted)
    if unreadable and not config.skip_unparseable:
        bad = sorted(rows[problem.problem_id] for problem in unreadable)
        listed = ", ".join(map(str, bad[:_NAMED_ROWS])) + (
            ", ..." if len(bad) > _NAMED_ROWS else ""
        )
        example = next(p for p in unreadable if rows[p.problem_id] == bad[0]).answer
        rule = (
            f"math-verify cannot read {len(bad)} of {len(chosen) + len(bad)} answers: rows "
            f"{listed} of {_source(config)}; row {bad[0]} has {example!r}"
        )
        nearest = "task.math.skip_unparseable=true, which leaves them out"
        raise SettingError("task.math.answer_column", config.answer_column, rule, nearest)
    left_out = f", {len(unreadable)} unreadable answers" if unreadable else ""
    return Pool(
        problems=tuple(in_template(problem, task.template) for problem in chosen),
        source=_source(config) + left_out,
        dropped=distinct.dropped,
    )


def scores(problems: Sequence[Problem], completions: Sequence[str]) -> list[float]:
    """1 where math-verify finds the completion's answer equal to the problem's, else 0."""
    requests = [
        {"judge": "score_math", "answer": problem.answer, "completion": completion}
        for problem, completion in zip(problems, completions, strict=True)
    ]
    return [answer["score"] if answer is not None else 0.0 for answer in ask_all(requests)]


def _readable(problems: list[Problem], wanted: int) -> tuple[list[Problem], list[Problem]]:
    """The first `wanted` problems whose answers can be read, and those passed over for it."""
    chosen: list[Problem] = []
    unreadable: list[Problem] = []
    start = 0
    while len(chosen) < wanted and start < len(problems):
        batch = problems[start : start + wanted - len(chosen)]
        start += len(batch)
        requests = [{"judge": "parse_answer", "answer": problem.answer} for problem in batch]
        for problem, answer in zip(batch, ask_all(requests), strict=True):
            readable = answer is not None and answer.get("readable", False)
            (chosen if readable else unreadable).append(problem)
    return chosen, unreadable


def _problems(config: MathConfig) -> Iterator[tuple[int, Problem]]:
    """Row numbers, from 1, and the problems of the rows."""
    columns = {
        "task.math.problem_column": config.problem_column,
        "task.math.answer_column": config.answer_column,
        "task.math.id_column": config.id_column,
        "task.math.level_column": config.level_column,
    }
    for number, row in read_rows(config):
        for setting, name in columns.items():
            if name is not None and name not in row:
                known = tuple(row) or ("",)
                rule = f"row {number} of {_source(config)} has only {', '.join(row)}"
                raise SettingError(setting, name, rule, f"{setting}={closest(name, known)}")
        yield number, _problem(config, number, row)


def _problem(config: MathConfig, number: int, row: dict[str, Any]) -> Problem:
    prompt = _text(config, number, row, "problem_column", config.problem_column)
    answer = _text(config, number, row, "answer_column", config.answer_column)
    if config.answer_after is not None:
        _, mark, answer = answer.rpartition(config.answer_after)
        if not mark:
            rule = f"row {number} of {_source(config)} has no such mark in its answer"
            nearest = "task.math.answer_after=null"
            raise SettingError("task.math.answer_after", config.answer_after, rule, nearest)
    if config.id_column is None:
        problem_id = content_id("math", prompt)
    else:
        problem_id = _text(config, number, row, "id_column", config.id_column)
    level = None if config.level_column is None else _number(row[config.level_column])
    return Problem(problem_id=problem_id, level=level, prompt=prompt, answer=answer.strip())


def _text(config: MathConfig, number: int, row: dict[str, Any], kind: str, column: str) -> str:
    value = row[column]
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if normalised(text):
            return text
    rule = f"row {number} of {_source(config)} has {value!r} in that column, which is no text"
    nearest = f"task.math.{kind}=COLUMN of text, or a file without that row"
    raise SettingError(f"task.math.{kind}", column, rule, nearest)


def _number(value: Any) -> float | None:
    """The first number in `value` ("Level 5": 5), if it has any."""
    number = re.search(r"-?\d+(?:\.\d+)?", str(value))
    return float(number[0]) if number else None


def _source(config: MathConfig) -> str:
    if config.path is not None:
        return config.path
    return ":".join(part for part in (config.dataset, config.subset, config.split) if part)
