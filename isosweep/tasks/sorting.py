"""Sorting digits: problems made by chance, judged by their digits."""

import hashlib
import random
import re
from collections.abc import Callable, Sequence

from isosweep.config.task import TaskConfig
from isosweep.tasks.problem import Judged, Problem

# Problems fall by hash into 16 buckets: a quarter is for tasks, the rest for the warm start of
# the built-in model, so that no task problem was ever seen by it.
_BUCKETS = 16
_TASK_BUCKETS = 4


def is_task_problem(digits: str) -> bool:
    """Whether the task may draw these digits, in every process and release; the others are for
    training the built-in model."""
    return hashlib.sha256(f"sort:{digits}".encode()).digest()[0] % _BUCKETS < _TASK_BUCKETS


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` distinct problems, levels in turn; fewer where the levels have no room for them."""
    assert task.sort is not None
    levels, generator = task.sort.levels, random.Random(f"sort:{task.data_seed}")
    # A level with too few strings would loop: what TaskConfig bounds is bounded here as well.
    wanted = min(wanted, 10 ** min(levels) // 8 * len(levels))
    drawn: dict[str, int] = {}
    while len(drawn) < wanted:
        level = levels[len(drawn) % len(levels)]
        digits = "".join(generator.choice("0123456789") for _ in range(level))
        if is_task_problem(digits):
            drawn.setdefault(digits, level)
    return [
        Problem(
            problem_id=f"sort-{digits}",
            level=float(level),
            prompt=digits,
            answer="".join(sorted(digits)),
        )
        for digits, level in drawn.items()
    ]


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """1 if a completion (decoded, special tokens left out) holds the sorted digits, else 0."""
    assert task.sort is not None
    exact = task.sort.answer == "exact"
    pairs = list(zip(problems, completions, strict=True))
    return lambda: [_judged(exact, problem, completion) for problem, completion in pairs]


def _judged(exact: bool, problem: Problem, completion: str) -> Judged:
    numbers = [completion.strip()] if exact else re.findall(r"\d+", completion)
    answer = numbers[-1] if numbers else None
    return Judged(float(answer == problem.answer), answer)
