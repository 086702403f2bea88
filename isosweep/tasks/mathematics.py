"""Problems of a dataset or file whose answers math-verify (PyPI) checks."""

from collections.abc import Sequence
from functools import partial

from isosweep.config.rows import MathConfig
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.checking import ask_all, judged
from isosweep.tasks.problem import Distinct, Judged, Pool, Problem, in_template, shuffled
from isosweep.tasks.rows import Row, listed, read_problems, source, text


def pool(task: TaskConfig, wanted: int) -> Pool:
    """`wanted` distinct problems, chosen by the hash of their text; all where there are fewer.

    Raises SettingError for a source that cannot be read, a missing column, a row without text,
    or an answer that math-verify cannot read (with its row).
    """
    config, distinct, rows = task.math, Distinct(), dict[str, int]()
    assert config is not None
    problems = []
    columns = {"answer_column": config.answer_column}
    for number, problem in read_problems(config, columns, partial(_answer, config)):
        if distinct.take(problem):
            problems.append(problem)
            rows[problem.problem_id] = number
    chosen, unreadable = _readable(shuffled(problems, task.data_seed), wanted)
    if unreadable and not config.skip_unparseable:
        bad = sorted(rows[problem.problem_id] for problem in unreadable)
        example = next(p for p in unreadable if rows[p.problem_id] == bad[0]).answer
        rule = (
            f"math-verify cannot read {len(bad)} of {len(chosen) + len(bad)} answers: rows "
            f"{listed(bad)} of {source(config)}; row {bad[0]} has {example!r}"
        )
        nearest = "task.math.skip_unparseable=true, which leaves them out"
        raise SettingError("task.math.answer_column", config.answer_column, rule, nearest)
    left_out = f", {len(unreadable)} unreadable answers" if unreadable else ""
    return Pool(
        problems=tuple(in_template(problem, task.template) for problem in chosen),
        source=source(config) + left_out,
        dropped=distinct.dropped,
    )


def judge(_: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]) -> list[Judged]:
    """1 where math-verify finds the completion's answer equal to the problem's, else 0."""
    requests = [
        {"judge": "score_math", "answer": problem.answer, "completion": completion}
        for problem, completion in zip(problems, completions, strict=True)
    ]
    return [judged(answer) for answer in ask_all(requests)]


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


def _answer(config: MathConfig, number: int, row: Row) -> str:
    answer = text(config, number, row, "answer_column", config.answer_column)
    if config.answer_after is not None:
        _, mark, answer = answer.rpartition(config.answer_after)
        if not mark:
            rule = f"row {number} of {source(config)} has no such mark in its answer"
            nearest = "task.math.answer_after=null"
            raise SettingError("task.math.answer_after", config.answer_after, rule, nearest)
    return answer.strip()
