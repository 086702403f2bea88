"""Problems of a dataset or file whose answers math-verify (PyPI) checks."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from isosweep.config.rows import MathConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.checking import ask_all, judged
from isosweep.tasks.problem import Judged, Pool, Problem
from isosweep.tasks.rows import Row, first_row, held, read_problems, source, text, usable_pool


def pool(task: TaskConfig, wanted: int) -> Pool:
    """`wanted` distinct problems, chosen by the hash of their text; all where there are fewer.

    Raises SettingError for a source that cannot be read, a missing column, a row without text,
    or an answer that math-verify cannot read (with its row).
    """
    assert task.math is not None
    config = _laid_out(task.math)
    columns = {"answer_column": config.answer_column}
    rows = read_problems(config, columns, partial(_answer, config))
    return usable_pool(task, config, wanted, rows, _readable, "skip_unparseable")


def judge(_: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]) -> list[Judged]:
    """1 where math-verify finds the completion's answer equal to the problem's, else 0."""
    requests = [
        {"judge": "score_math", "answer": problem.answer, "completion": completion}
        for problem, completion in zip(problems, completions, strict=True)
    ]
    return [judged(answer) for answer in ask_all(requests)]


def _readable(problems: Sequence[Problem]) -> Iterator[Problem | str]:
    """Each of the problems, or that its answer cannot be read."""
    requests = [{"judge": "parse_answer", "answer": problem.answer} for problem in problems]
    for problem, answer in zip(problems, ask_all(requests), strict=True):
        readable = answer is not None and answer.get("readable", False)
        yield problem if readable else f"has {problem.answer!r}, which math-verify cannot read"


class _Layout(NamedTuple):
    """How a collection keeps its problems: columns, and the mark that the answer follows."""

    name: str
    problem: str
    answer: str
    after: str | None = None

    def fits(self, row: Row) -> bool:
        problem, answer = held(row, self.problem), held(row, self.answer)
        texts = isinstance(problem, str) and isinstance(answer, str | int | float)
        return texts and (self.after is None or self.after in str(answer))


# In the order in which they are looked for.
_LAYOUTS = (
    _Layout("GSM8K", "question", "answer", "####"),
    # verl/utils/reward_score reads it there (github.com/volcengine/verl, examples/data_preprocess).
    _Layout("verl", "prompt", "reward_model.ground_truth"),
    _Layout("DeepScaleR and MATH-500", "problem", "answer"),
    # math-verify takes the boxed expression of a solution.
    _Layout("MATH", "problem", "solution"),
    _Layout("question and answer", "question", "answer"),
)


def _laid_out(config: MathConfig) -> MathConfig:
    """The settings with columns, which the first row tells where they are null."""
    if config.problem_column is not None:
        return config
    row = first_row(config)
    layout = next((each for each in _LAYOUTS if each.fits(row)), None)
    if layout is None:
        known = ", ".join(f"{each.problem} and {each.answer}" for each in _LAYOUTS)
        rule = f"the first row of {source(config)} has {', '.join(row)}, and none of {known}"
        raise SettingError("task.math.problem_column", None, rule)
    after = layout.after or config.answer_after
    sys.stderr.write(
        f"{source(config)} is laid out as {layout.name}: task.math.problem_column={layout.problem} "
        f"task.math.answer_column={layout.answer} task.math.answer_after={after or 'null'}\n"
    )
    return replace(
        config,
        problem_column=layout.problem,
        answer_column=layout.answer,
        answer_after=after,
    )


def _answer(config: MathConfig, number: int, row: Row) -> str:
    answer = text(config, number, row, "answer_column", config.answer_column)
    if config.answer_after is not None:
        _, mark, answer = answer.rpartition(config.answer_after)
        if not mark:
            rule = f"row {number} of {source(config)} has no such mark in its answer"
            nearest = "task.math.answer_after=null"
            raise SettingError("task.math.answer_after", config.answer_after, rule, nearest)
    return answer.strip()
