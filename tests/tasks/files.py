"""Data files as small as tests need them, the settings of tasks on them, and scores of answers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isosweep.config.task import TaskConfig
from isosweep.tasks import Problem, judge

ROWS = [{"problem": f"What is {a} + {b}?", "answer": str(a + b)} for a in range(8) for b in (3, 9)]


def scores(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[float]:
    """The scores of `judge`."""
    return [judged.score for judged in judge(task, problems, completions)]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_sums(path: Path, first: int, count: int, question: str = "What is") -> Path:
    """Rows that are numbered from 0, of the sums of 1 and the numbers from `first` on."""
    numbers = range(first, first + count)
    rows = [
        {"id": str(i), "problem": f"{question} {number} + 1?", "answer": str(number + 1)}
        for i, number in enumerate(numbers)
    ]
    return write_rows(path, rows)


def math_overrides(path: Path, *more: str) -> tuple[str, ...]:
    """Settings of a math task on the rows of `path`: 8 problems to train on, 4 held out."""
    columns = ("task.math.problem_column=problem", "task.math.answer_after=null")
    return ("task=math", *_of_file("math", path), *columns, *more)


def code_overrides(path: Path, *more: str) -> tuple[str, ...]:
    """Settings of a code task on the rows of `path`: 8 problems to train on, 4 held out."""
    return ("task=code", *_of_file("code", path), "task.code.skip_unusable=false", *more)


def _of_file(kind: str, path: Path) -> tuple[str, ...]:
    place = (f"task.{kind}.path={path}", f"task.{kind}.dataset=null", f"task.{kind}.subset=null")
    return (*place, "task.num_train_problems=8", "task.num_eval_problems=4")
