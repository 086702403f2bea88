"""Files of problems as others keep them, and files that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks import heldout_problems, training_problems
from tests.conftest import make_config
from tests.tasks.files import scores

# Questions and solutions in the form of GSM8K's, with answers.
SUMS = [(f"Ann has {a} pens and buys {b}. How many?", str(a + b)) for a in range(4) for b in (3, 9)]
SOLVED = "She has {answer} pens then."


def gsm8k(path: Path) -> None:
    rows = [{"question": q, "answer": f"{SOLVED.format(answer=a)}\n#### {a}"} for q, a in SUMS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def verl(path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": q}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": a},
            "extra_info": {"split": "train", "index": i, "answer": a, "question": q},
        }
        for i, (q, a) in enumerate(SUMS)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), path)


def deepscaler(path: Path) -> None:
    rows = [{"problem": q, "answer": a, "solution": SOLVED.format(answer=a)} for q, a in SUMS]
    path.write_text(json.dumps(rows))


def hendrycks(path: Path) -> None:
    rows = [
        {
            "problem": q,
            "level": "Level 1",
            "type": "Algebra",
            "solution": f"It is $\\boxed{{{a}}}$.",
        }
        for q, a in SUMS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# A list is told from lines by what the file holds, not by its name.
LAYOUTS = {"a.json": gsm8k, "b.parquet": verl, "c.json": deepscaler, "d.jsonl": hendrycks}
SAID = {
    "a.json": "GSM8K: task.math.problem_column=question task.math.answer_column=answer "
    "task.math.answer_after=####",
    "b.parquet": "verl: task.math.problem_column=prompt "
    "task.math.answer_column=reward_model.ground_truth",
    "c.json": "DeepScaleR and MATH-500: task.math.problem_column=problem",
    "d.jsonl": "MATH: task.math.problem_column=problem task.math.answer_column=solution",
}


def task_of(path: Path, *more: str) -> TaskConfig:
    sizes = ("task.num_train_problems=4", "task.num_eval_problems=4", "task.template=null")
    return make_config("task=math_file", f"task.math.path={path}", *sizes, *more).task


@pytest.mark.parametrize("name", LAYOUTS)
def test_problems_are_read_as_others_keep_them(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    LAYOUTS[name](tmp_path / name)
    task = task_of(tmp_path / name)
    problems = [*training_problems(task), *heldout_problems(task)]
    assert {problem.prompt for problem in problems} == {question for question, _ in SUMS}
    right = [dict(SUMS)[problem.prompt] for problem in problems]
    assert scores(task, problems, [f"\\boxed{{{answer}}}" for answer in right]) == [1.0] * 8
    assert scores(task, problems, ["\\boxed{77}"] * 8) == [0.0] * 8
    assert SAID[name] in capfd.readouterr().err


def lines(*rows: Any) -> Callable[[Path], object]:
    return lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def table(*rows: dict[str, Any]) -> Callable[[Path], object]:
    return lambda path: parquet.write_table(pa.Table.from_pylist(list(rows)), path)


GOOD = {"problem": "2 + 2?", "answer": "4"}
TALK = [{"role": "user", "content": "2 + 2?"}]


@pytest.mark.parametrize(
    ("name", "write", "setting", "rule"),
    [
        ("a.jsonl", text("\n\n"), "task.math.path", "has no rows"),
        ("a.json", text("[1, 2]"), "task.math.path", "row 1 is not a JSON object"),
        ("a.jsonl", text("problem,answer\n"), "task.math.path", "row 1 cannot be read"),
        ("a.jsonl", lines({"text": "2 + 2 = 4"}), "task.math.problem_column", "has text, and none"),
        ("a.jsonl", lines(GOOD, {"problem": "1?"}), "task.math.answer_column", "row 2 of"),
        ("a.jsonl", lines(GOOD, {**GOOD, "problem": " "}), "task.math.problem_column", "row 2"),
        ("a.jsonl", lines(GOOD), "task.num_train_problems", "math_file has 1"),
        ("a.parquet", text("PAR1"), "task.math.path", "is no Parquet file that can be read"),
        ("a.parquet", table({"prompt": TALK}), "task.math.problem_column", "has prompt, and none"),
        ("a.csv", text("problem,answer\n"), "task.math.path", "must be a .jsonl, .json or"),
        ("absent.jsonl", lambda path: None, "task.math.path", "cannot be read (No such file"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_row(
    name: str, write: Callable[[Path], object], setting: str, rule: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(SettingError) as refused:
        training_problems(task_of(tmp_path / name))
    assert refused.value.setting == setting
    assert rule in refused.value.rule


def test_a_file_is_given_and_columns_are_null_together() -> None:
    with pytest.raises(SettingError, match=r"task\.math\.path=None: has to be given, a file"):
        make_config("task=math_file")
    with pytest.raises(SettingError, match="null is both or none"):
        make_config("task=math", "task.math.problem_column=null")
