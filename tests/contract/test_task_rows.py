"""Rows of problems that are no text are refused with their number."""

from pathlib import Path

import pytest

from tests.contract.surface import refused

QUESTIONS = [
    f'{{"problem": "What is {a} + {b}?", "answer": "{a + b}"}}' for a in range(9) for b in (3, 9)
]
ODD_ROWS = {
    "e": '{"problem": "o\u00f9?", "answer": "3"}',
    "half": '{"problem": "\\ud835?", "answer": "3"}',
    "half in an answer": '{"problem": "x?", "answer": "\\uDC00"}',
}


def lines(row: str) -> str:
    """Sixteen rows and an odd one."""
    return "\n".join([*QUESTIONS[:16], ODD_ROWS[row]])


def listed(row: str) -> str:
    """A list of three rows and an odd one, each on its line."""
    return "[" + ",\n".join([*QUESTIONS[:3], ODD_ROWS[row]]) + "]"


# How a file of problems is written, and what is said of it.
ODD: dict[str, tuple[str, bytes, str]] = {
    "latin-1": ("jsonl", lines("e").encode("latin-1"), "row 17 is not UTF-8"),
    "utf-16": ("jsonl", lines("e").encode("utf-16"), "row 1 is not UTF-8"),
    "half": ("jsonl", lines("half").encode(), "row 17 has half of a character"),
    "answer": ("jsonl", lines("half in an answer").encode(), "row 17 has half of a character"),
    "list in latin-1": ("json", listed("e").encode("latin-1"), "line 4 is not UTF-8"),
    "list with half": ("json", listed("half").encode(), "row 4 has half of a character"),
}


@pytest.mark.parametrize("case", ODD)
def test_problems_that_are_no_text_are_refused_with_their_row(tmp_path: Path, case: str) -> None:
    ending, data, rule = ODD[case]
    (tmp_path / f"a.{ending}").write_bytes(data)
    said = refused(
        "model=tiny",
        "task=math_file",
        f"task.math.path=a.{ending}",
        "task.template=null",
        "task.num_train_problems=8",
        "task.num_eval_problems=4",
        "task.prompt_tokens=10",
        "task.completion_tokens=6",
        "task.max_completion_tokens=8",
        "budget=[400]",
        "budget_unit=rollouts",
        cwd=tmp_path,
    )
    assert rule in said
