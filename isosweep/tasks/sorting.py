"""Sorting digits: problems made by chance, judged by their digits."""

import hashlib
import random
import re
from collections.abc import Callable, Sequence

from isosweep.config.task import SortConfig, TaskConfig
from isosweep.tasks.problem import Judged, Pool, Problem

# Problems fall by hash into 16 buckets: a quarter is for tasks, the rest for the warm start of
# the built-in model, so that no task problem was ever seen by it.
_BUCKETS = 16
_TASK_BUCKETS = 4


def bucket(digits: str) -> int:
    """Bucket of a problem, by hash: the same in every process and release."""
    return hashlib.sha256(f"sort:{digits}".encode()).digest()[0] % _BUCKETS


def is_task_problem(digits: str) -> bool:
    """Whether the task may draw these digits: the others are for training the built-in model."""
    return bucket(digits) < _TASK_BUCKETS


def pool(task: TaskConfig, wanted: int) -> Pool:
    """`wanted` distinct problems, levels in turn; fewer where the levels have no room for them."""
    sort, template = _sort(task), task.template or ""
    generator = random.Random(f"sort:{task.data_seed}")
    # A level with too few strings would loop: what TaskConfig bounds is bounded here as well.
    wanted = min(wanted, 10 ** min(sort.levels) // 8 * len(sort.levels))
    seen: set[str] = set()
    problems: list[Problem] = []
    while len(problems) < wanted:
        level = sort.levels[len(problems) % len(sort.levels)]
        digits = "".join(generator.choice("0123456789") for _ in range(level))
        if digits in seen or not is_task_problem(digits):
            continue
        seen.add(digits)
        problems.append(
            Problem(
                problem_id=f"sort-{digits}",
                level=float(level),
                prompt=template.replace("{digits}", digits),
                answer="".join(sorted(digits)),
            )
        )
    return Pool(problems=tuple(problems), source="sort")


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """1 if a completion (decoded, special tokens left out) holds the sorted digits, else 0."""
    exact = _sort(task).answer == "exact"
    pairs = list(zip(problems, completions, strict=True))
    return lambda: [_judged(exact, problem, completion) for problem, completion in pairs]


def _judged(exact: bool, problem: Problem, completion: str) -> Judged:
    numbers = [completion.strip()] if exact else re.findall(r"\d+", completion)
    answer = numbers[-1] if numbers else None
    return Judged(float(answer == problem.answer), answer)


def _sort(task: TaskConfig) -> SortConfig:
    assert task.sort is not None
    return task.sort
