"""Data files of math problems, as small as tests need them."""

import json
from pathlib import Path
from typing import Any

ROWS = [{"problem": f"What is {a} + {b}?", "answer": str(a + b)} for a in range(8) for b in (3, 9)]


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
    return (
        "task=math",
        f"task.math.path={path}",
        "task.math.dataset=null",
        "task.math.subset=null",
        "task.math.problem_column=problem",
        "task.math.answer_after=null",
        "task.num_train_problems=8",
        "task.num_eval_problems=4",
        *more,
    )


def _add(i: int) -> Any:
    """Tests of a program that adds `i`, of one form or the other."""
    if i % 2:
        return [f"assert add({x}) == {x + i}" for x in (1, 5)]
    return [{"input": f"{x}\n", "output": f"{x + i}\n"} for x in (1, 5)]


CODE_ROWS = [{"problem": f"Add {i}.", "tests": _add(i)} for i in range(16)]


def code_overrides(path: Path, *more: str) -> tuple[str, ...]:
    """Settings of a code task on the rows of `path`: 8 problems to train on, 4 held out."""
    return (
        "task=code",
        f"task.code.path={path}",
        "task.code.dataset=null",
        "task.code.subset=null",
        "task.code.skip_unusable=false",
        "task.num_train_problems=8",
        "task.num_eval_problems=4",
        *more,
    )
