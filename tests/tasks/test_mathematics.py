"""Math problems: rows of a file or dataset, splits that never meet, checked by math-verify."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from isosweep.config.task import TaskConfig
from isosweep.errors import RecordError, SettingError
from isosweep.store.paths import RunPaths
from isosweep.tasks import (
    heldout_problems,
    problem_sets,
    problems_digest,
    training_problems,
)
from isosweep.tasks.problem import Problem, normalised
from isosweep.tasks.sets import hold_problems
from tests.conftest import make_config
from tests.tasks.files import ROWS, math_overrides, scores, write_rows


def math_task(path: Path, *more: str) -> TaskConfig:
    return make_config(*math_overrides(path, *more)).task


def test_problems_do_not_depend_on_the_order_of_the_rows(tmp_path: Path) -> None:
    task = math_task(write_rows(tmp_path / "a.jsonl", ROWS))
    turned = math_task(write_rows(tmp_path / "b.jsonl", ROWS[::-1]))
    assert problems_digest(task) == problems_digest(turned)
    other = math_task(tmp_path / "a.jsonl", "task.data_seed=1")
    assert problems_digest(task) != problems_digest(other)
    # Held-out problems stay where more are trained on.
    large = math_task(tmp_path / "a.jsonl", "task.num_train_problems=12")
    assert heldout_problems(task) == heldout_problems(large)
    assert training_problems(task) == training_problems(large)[:8]
    assert "\\boxed{}" in training_problems(task)[0].prompt


def test_duplicates_are_dropped_and_never_straddle_the_split(tmp_path: Path) -> None:
    doubled = [{**row, "problem": f"  what IS {row['problem'][8:]} "} for row in ROWS]
    path = write_rows(tmp_path / "a.jsonl", ROWS + doubled)
    sets = problem_sets(math_task(path, "task.num_train_problems=12"))
    texts = [normalised(problem.prompt) for problem in (*sets.training, *sets.heldout)]
    assert len(set(texts)) == len(ROWS)
    with pytest.raises(SettingError, match="17 distinct problems, and math has 16"):
        problem_sets(math_task(path, "task.num_train_problems=13"))
    for asked in ("task.num_train_problems=100", "task.num_eval_problems=100"):
        with pytest.raises(SettingError) as caught:
            problem_sets(math_task(path, asked))
        assert problem_sets(math_task(path, *caught.value.nearest.split()))


def test_ids_and_levels_come_from_their_columns(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {**row, "uid": i, "level": f"Level {i % 5 + 1}"} for i, row in enumerate(ROWS)
    ]
    path = write_rows(tmp_path / "a.jsonl", rows)
    columns = ("task.math.id_column=uid", "task.math.level_column=level")
    for problem in training_problems(math_task(path, *columns)):
        row = rows[int(problem.problem_id)]
        assert row["problem"] in problem.prompt
        assert f"Level {problem.level:g}" == row["level"]


@pytest.mark.parametrize(
    ("more", "setting", "message"),
    [
        ((), "task.math.skip_unparseable", "1 of 17 .* rows 17 "),
        (("task.math.answer_after=x",), "task.math.answer_after", "row 1 of"),
        (("task.math.problem_column=q",), "task.math.problem_column", "only problem, answer"),
    ],
)
def test_a_bad_row_is_reported_with_its_number(
    more: tuple[str, ...], setting: str, message: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "a.jsonl", [*ROWS, {"problem": "?", "answer": "()"}])
    with pytest.raises(SettingError, match=message) as caught:
        problem_sets(math_task(path, "task.num_train_problems=13", *more))
    assert caught.value.setting == setting


def test_parquet_and_a_dataset_hold_the_same_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    table = datasets.Dataset.from_list(ROWS)
    table.to_parquet(str(tmp_path / "a.parquet"))
    (tmp_path / "data").mkdir()
    table.to_parquet(str(tmp_path / "data" / "train.parquet"))
    wanted = problems_digest(math_task(path))
    assert problems_digest(math_task(tmp_path / "a.parquet")) == wanted
    hub = ("task.math.path=null", f"task.math.dataset={tmp_path / 'data'}")
    assert problems_digest(math_task(path, *hub)) == wanted
    with pytest.raises(SettingError, match="cannot load split 'dev'"):
        problem_sets(math_task(path, *hub, "task.math.split=dev"))


def written(path: Path, rows: Any) -> Path:
    """A file of rows by its name's end; text as it is, and of `.json` a list, lines or both."""
    if isinstance(rows, str):
        path.write_text(rows)
    elif path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        write_rows(path, rows)
    return path


def task_of(path: Path, *more: str) -> TaskConfig:
    sizes = ("task.num_train_problems=4", "task.num_eval_problems=4", "task.template=null")
    return make_config("task=math_file", f"task.math.path={path}", *sizes, *more).task


# Questions with answers, in the layouts of others; what is said of the columns that were found. A
# list is told from lines by what the file holds, not by its name.
SUMS = [(f"Ann has {a} pens and buys {b}. How many?", str(a + b)) for a in range(4) for b in (3, 9)]
LAYOUTS: dict[str, tuple[Any, str]] = {
    "a.json": (
        [{"question": q, "answer": f"She has {a} pens then.\n#### {a}"} for q, a in SUMS],
        "GSM8K: task.math.problem_column=question task.math.answer_column=answer "
        "task.math.answer_after=####",
    ),
    "b.parquet": (
        [
            {
                "data_source": "openai/gsm8k",
                "prompt": [{"role": "user", "content": q}],
                "reward_model": {"style": "rule", "ground_truth": a},
                "extra_info": {"index": i, "answer": a, "question": q},
            }
            for i, (q, a) in enumerate(SUMS)
        ],
        "verl: task.math.problem_column=prompt task.math.answer_column=reward_model.ground_truth",
    ),
    "c.json": (
        json.dumps([{"problem": q, "answer": a, "solution": f"So {a}."} for q, a in SUMS]),
        "DeepScaleR and MATH-500: task.math.problem_column=problem",
    ),
    "d.jsonl": (
        [
            {"problem": q, "level": "Level 1", "solution": f"It is $\\boxed{{{a}}}$."}
            for q, a in SUMS
        ],
        "MATH: task.math.problem_column=problem task.math.answer_column=solution",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_problems_are_read_as_others_keep_them(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows, said = LAYOUTS[name]
    task = task_of(written(tmp_path / name, rows))
    problems = [*training_problems(task), *heldout_problems(task)]
    assert {problem.prompt for problem in problems} == {question for question, _ in SUMS}
    right = [dict(SUMS)[problem.prompt] for problem in problems]
    assert scores(task, problems, [f"\\boxed{{{answer}}}" for answer in right]) == [1.0] * 8
    assert scores(task, problems, ["\\boxed{77}"] * 8) == [0.0] * 8
    assert said in capfd.readouterr().err


GOOD = {"problem": "2 + 2?", "answer": "4"}
TALK = [{"role": "user", "content": "2 + 2?"}]


@pytest.mark.parametrize(
    ("name", "rows", "setting", "rule"),
    [
        ("a.jsonl", "\n\n", "task.math.path", "has no rows"),
        ("a.json", "[1, 2]", "task.math.path", "row 1 is not a JSON object"),
        ("a.jsonl", "problem,answer\n", "task.math.path", "row 1 cannot be read"),
        ("a.jsonl", [{"text": "2 + 2 = 4"}], "task.math.problem_column", "has text, and none"),
        ("a.jsonl", [GOOD, {"problem": "1?"}], "task.math.answer_column", "row 2 of"),
        ("a.jsonl", [GOOD, {**GOOD, "problem": " "}], "task.math.problem_column", "row 2"),
        ("a.jsonl", [GOOD], "task.num_train_problems", "math_file has 1"),
        ("a.parquet", "PAR1", "task.math.path", "is no Parquet file that can be read"),
        ("a.parquet", [{"prompt": TALK}], "task.math.problem_column", "has prompt, and none"),
        ("a.csv", "problem,answer\n", "task.math.path", "must be a .jsonl, .json or"),
        ("absent/a.jsonl", None, "task.math.path", "cannot be read (No such file"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_row(
    name: str, rows: Any, setting: str, rule: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    with pytest.raises(SettingError) as refused:
        training_problems(task_of(path if rows is None else written(path, rows)))
    assert refused.value.setting == setting
    assert rule in refused.value.rule


def test_a_file_is_given_and_columns_are_null_together() -> None:
    with pytest.raises(SettingError, match=r"task\.math\.path=None: has to be given, a file"):
        make_config("task=math_file")
    with pytest.raises(SettingError, match="null is both or none"):
        make_config("task=math", "task.math.problem_column=null")


ANSWERS = [
    ("72", "First 72, but no: \\boxed{71}", 0),
    ("\\frac{3}{4}", "It is $0.75$", 1),
    ("\\frac{3}{4}", "\\boxed{\\frac{6}{8}}", 1),
    ("$x^2+2x+1$", "\\boxed{(x+1)^2}", 1),
    ("x^2+2x+1", "\\boxed{(x-1)^2}", 0),
    ("(1,2)", "\\boxed{(1, 2)}", 1),
    ("1,234", "the answer is 1234", 1),
    ("72", "", 0),
    ("72", "\\boxed{" * 2000, 0),
    ("72", "\\boxed{\\frac{1}{0}}", 0),
    ("72", "7\u0000\ud7ff2", 0),
    # Which of the two is the reference matters.
    ("$x > 2$", "\\boxed{(2,\\infty)}", 1),
    ("(2,\\infty)", "\\boxed{x > 2}", 0),
]


def test_answers_are_compared_as_mathematics() -> None:
    answers, completions, right = zip(*ANSWERS, strict=True)
    problems = [Problem(problem_id="p", prompt="?", answer=answer) for answer in answers]
    assert scores(make_config("task=math").task, problems, completions) == list(right)


# References that math-verify reads, as something else than they mean.
MISREAD = {
    "8%": "\\boxed{8\\%} scores 0",
    "4 1/2": "\\boxed{9/2} scores 0",
    "9 (apples)": "\\boxed{9} scores 0",
    "-9 dollars": "\\boxed{-9} scores 0",
    "1,234 people": "\\boxed{1,234} scores 0",
    "3/4 cup": "\\boxed{3/4} scores 0",
    "2.5e3": "\\boxed{2500} scores 0",
    "1 000": "\\boxed{1000} scores 0",
    "C) 6": "\\boxed{C} scores 0",
    "12:05 PM": "\\boxed{12:05} scores 0",
    "First \\boxed{0} is wrong; so \\boxed{\\frac{1}{2}}.": "\\boxed{\\frac{1}{2}} scores 0",
    "1 hour 30 minutes": "which is no single value",
}
# References that mean what math-verify reads.
MEANT = (
    *("72", "1,234", "10\\%", "$10", "x=5", "3,4,5", "2 or 3", "2xy+3", "18 \\text{ cm}", "7th"),
    *("\\frac{1}{2} \\text{ hour}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\text{June 20}"),
    *(
        "x \\in [-2,7]",
        "(A)",
        "east",
        "It is $\\boxed{\\frac{1}{2}}$.",
        "6 - 5i",
        "50^\\circ",
        "5 cm",
    ),
)


def test_a_reference_whose_plain_value_would_not_score_is_no_reference(tmp_path: Path) -> None:
    rows = [{"problem": f"Row {i}?", "answer": answer} for i, answer in enumerate(MEANT)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    sizes = (f"task.num_train_problems={len(MEANT) - 4}", "task.math.skip_unparseable=true")
    assert problem_sets(math_task(path, *sizes))
    odd = [{"problem": f"Odd {i}?", "answer": answer} for i, answer in enumerate(MISREAD)]
    path = write_rows(path, rows + odd)
    training = training_problems(math_task(path, *sizes))
    assert all(problem.prompt.startswith("Row") for problem in training)
    for answer, why in MISREAD.items():
        (tmp_path / "one.jsonl").unlink(missing_ok=True)
        path = write_rows(tmp_path / "one.jsonl", [*rows[:4], {"problem": "?", "answer": answer}])
        with pytest.raises(SettingError) as caught:
            problem_sets(math_task(path, "task.num_train_problems=1"))
        assert "1 of 5 rows cannot be used: rows 5 of" in caught.value.rule
        assert why in caught.value.rule


def test_data_that_change_after_planning_are_refused(tmp_path: Path) -> None:
    task = math_task(write_rows(tmp_path / "a.jsonl", ROWS))
    write_rows(tmp_path / "a.jsonl", ROWS[::-1])
    with pytest.raises(SettingError, match="has changed: its sha256"):
        problem_sets(task)


def test_a_run_keeps_to_the_problems_it_began_with(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    task = math_task(write_rows(tmp_path / "a.jsonl", ROWS))
    hold_problems(run, task)
    before = run.problems.read_text()
    assert problems_digest(task) in before
    hold_problems(run, task)
    assert run.problems.read_text() == before
    other = math_task(write_rows(tmp_path / "b.jsonl", ROWS[4:]))
    with pytest.raises(RecordError, match=r"problems.json: this run's problems had the sha256"):
        hold_problems(run, other)
    run.problems.write_text("{torn")
    with pytest.raises(RecordError, match=r"problems.json: cannot be read .*remove it"):
        hold_problems(run, task)
