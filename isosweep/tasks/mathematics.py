"""Problems of a dataset or file whose answers math-verify (PyPI) checks."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from isosweep.config.base import replaced
from isosweep.config.task import MathConfig, TaskConfig
from isosweep.tasks.checking import LONGEST_ANSWER, begin, begin_judging
from isosweep.tasks.problem import Judged, Problem
from isosweep.tasks.rows import (
    Row,
    column_value,
    first_row,
    read_problems,
    refused,
    source,
    text,
    usable_problems,
)


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` distinct problems, chosen by the hash of their text; all where there are fewer.

    Raises SettingError for a source that cannot be read, a missing column, a row without text,
    or an answer that math-verify cannot read (with its row).
    """
    assert task.math is not None
    config = _laid_out(task.math)
    rows = read_problems(config, ["answer_column"], partial(_answer, config))
    return usable_problems(task, config, wanted, rows, _readable, "skip_unparseable")


def judge_later(
    _: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """1 where math-verify finds the completion's answer equal to the problem's, else 0."""
    answers = [problem.answer for problem in problems]
    return begin_judging(score, list(zip(answers, completions, strict=True)))


def _readable(problems: Sequence[Problem]) -> Iterator[Problem | str]:
    """Each of the problems, or why its answer cannot be used."""
    answers = [problem.answer for problem in problems]
    odd = [answer for answer in answers if not _ORDINARY.fullmatch(answer)]
    faults = dict(zip(odd, begin(fault, [(answer,) for answer in odd])(), strict=True))
    for problem in problems:
        why = faults.get(problem.answer, "")
        yield problem if why == "" else f"has {problem.answer!r}, {why or _UNREADABLE}"


# math-verify's own limits, by SIGALRM; checking.py kills what they do not end.
_TIMEOUT_S = 5


@lru_cache(maxsize=65536)
def _gold(answer: str) -> list[Any]:
    """The parsed reference answer; [] where math-verify cannot read it.

    Most datasets hold bare LaTeX, which is only recognised as such between dollar signs.
    """
    from math_verify import parse

    marked = "$" in answer or "\\boxed" in answer or "\\[" in answer or "\\(" in answer
    parts = [] if marked else parse(f"${answer}$", parsing_timeout=_TIMEOUT_S)
    return list(parts or parse(answer, parsing_timeout=_TIMEOUT_S))


def score(answer: str, completion: str) -> tuple[float, str | None]:
    """1 if the completion's boxed expression (or else its last one) equals the answer, else 0."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    # Priority 0: a boxed expression goes before any other.
    kinds = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    found = parse(completion, extraction_config=kinds, parsing_timeout=_TIMEOUT_S)
    right = verify(_gold(answer), found, timeout_seconds=_TIMEOUT_S)
    return float(right), _text(found)


def _text(answer: list[Any]) -> str | None:
    """What was parsed, as text; None of nothing, or of a number too long to be written."""
    try:
        return str(answer[0])[:LONGEST_ANSWER]
    except (IndexError, ValueError):
        return None


_UNREADABLE = "which math-verify cannot read"
# Reference answers that need no check.
_ORDINARY = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


def fault(answer: str) -> str:
    """Why a reference answer cannot be used; "" where its plain value in a box scores 1."""
    if all(isinstance(part, str) for part in _gold(answer)):
        return _UNREADABLE
    plain = plain_value(answer)
    if plain is None:
        return "which is no single value"
    if score(answer, f"\\boxed{{{plain}}}")[0] < 1:
        return f"which math-verify reads as something else: \\boxed{{{plain}}} scores 0"
    return ""


# Numbers as people write them: 4 1/2, 1 000, 1,234.5, 2.5e3, 3/4, 12:05.
_NUMBER = re.compile(
    r"(?:(?<!\S)(?P<sign>-))?(?:(?P<whole>\d+)\s+(?P<over>\d+)/(?P<under>\d+)"
    r"|\d{1,3}(?:\s\d{3})+(?!\d)|\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+|[/:]\d+)?)"
)
# Words that are no product of variables, and what of LaTeX is neither.
_WORD = re.compile(r"(?<![^\s(])(?!(?:and|or)\b)[A-Za-z]{2,}")
_LATEX = re.compile(r"\\(?:begin|end|text\w*|math\w*|mbox)\{[^{}]*\}|\\[A-Za-z]+")
_CHOICE = re.compile(r"\(?([A-Z])[.)]\s+\S")


def plain_value(answer: str) -> str | None:
    """What an answer in a box would hold of a reference answer: its last box, its choice, or its
    number alone; else all of it. None where there are several numbers among words."""
    if "\\boxed{" in answer:
        return _braced(answer.rpartition("\\boxed{")[2])
    if choice := _CHOICE.match(answer):
        return choice[1]
    spelled = _LATEX.sub("", answer)
    numbers, words = list(_NUMBER.finditer(spelled)), _WORD.search(spelled)
    if len(numbers) == 1 and (words or numbers[0][0] == answer.strip()):
        number = numbers[0]
        if number["whole"]:
            whole, over, under = map(int, number.group("whole", "over", "under"))
            return f"{number['sign'] or ''}{whole * under + over}/{under}"
        text = "".join(number[0].split())
        return f"{Decimal(text):f}" if "e" in text else text
    if words and numbers:
        return None
    return re.sub(r"(?<!\\)%", r"\\%", answer)


def _braced(text: str) -> str:
    """The text up to the brace that closes what it is in."""
    depth = 1
    for at, sign in enumerate(text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return text[:at]
    return text


# How collections keep their problems, in the order in which they are looked for: the columns of the
# problem and of the answer, and the mark that the answer follows.
_LAYOUTS = (
    ("GSM8K", "question", "answer", "####"),
    # verl/utils/reward_score reads it there (github.com/volcengine/verl, examples/data_preprocess).
    ("verl", "prompt", "reward_model.ground_truth", None),
    ("DeepScaleR and MATH-500", "problem", "answer", None),
    # math-verify takes the boxed expression of a solution.
    ("MATH", "problem", "solution", None),
    ("question and answer", "question", "answer", None),
)


def _laid_out(config: MathConfig) -> MathConfig:
    """The settings with columns, which the first row tells where they are null."""
    if config.problem_column is not None:
        return config
    row = first_row(config)
    layout = next((each for each in _LAYOUTS if _fits(row, *each[1:])), None)
    if layout is None:
        known = ", ".join(f"{problem} and {answer}" for _, problem, answer, _ in _LAYOUTS)
        rule = f"the first row of {source(config)} has {', '.join(row)}, and none of {known}"
        raise refused(config, "problem_column", rule)
    name, problem, answer, after = layout
    after = after or config.answer_after
    sys.stderr.write(
        f"{source(config)} is laid out as {name}: task.math.problem_column={problem} "
        f"task.math.answer_column={answer} task.math.answer_after={after or 'null'}\n"
    )
    return replaced(config, problem_column=problem, answer_column=answer, answer_after=after)


def _fits(row: Row, problem: str, answer: str, after: str | None) -> bool:
    asked, found = column_value(row, problem), column_value(row, answer)
    texts = isinstance(asked, str) and isinstance(found, str | int | float)
    return texts and (after is None or after in str(found))


def _answer(config: MathConfig, number: int, row: Row) -> str:
    answer = text(config, number, row, "answer_column")
    if config.answer_after is not None:
        _, mark, answer = answer.rpartition(config.answer_after)
        if not mark:
            rule = f"row {number} of {source(config)} has no such mark in its answer"
            raise refused(config, "answer_after", rule, "task.math.answer_after=null")
    return answer.strip()
