"""The sorting task: problems, disjoint splits, and how a completion is judged."""

import hashlib
import random
import re
from dataclasses import dataclass

from isosweep.settings import TaskConfig

# Problems fall by hash into 16 buckets: a quarter is for tasks, the rest for the warm start of
# the built-in model, so that no task problem was ever seen by it.
_BUCKETS = 16
_TASK_BUCKETS = 4


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One question: `problem_id` is stable, `level` its number of digits."""

    problem_id: str
    level: int
    prompt: str
    answer: str


def bucket(digits: str) -> int:
    """Bucket of a problem, by hash: the same in every process and release."""
    return hashlib.sha256(f"sort:{digits}".encode()).digest()[0] % _BUCKETS


def is_task_problem(digits: str) -> bool:
    return bucket(digits) < _TASK_BUCKETS


def _draw(task: TaskConfig) -> list[Problem]:
    """Distinct problems, levels in turn, training ones first."""
    generator = random.Random(f"sort:{task.data_seed}")
    wanted = task.num_train_problems + task.num_eval_problems
    seen: set[str] = set()
    problems: list[Problem] = []
    while len(problems) < wanted:
        # A level with too few strings would loop: TaskConfig bounds how many may be asked for.
        level = task.levels[len(problems) % len(task.levels)]
        digits = "".join(generator.choice("0123456789") for _ in range(level))
        if digits in seen or not is_task_problem(digits):
            continue
        seen.add(digits)
        problems.append(
            Problem(
                problem_id=f"sort-{digits}",
                level=level,
                prompt=task.template.replace("{digits}", digits),
                answer="".join(sorted(digits)),
            )
        )
    return problems


def training_problems(task: TaskConfig) -> list[Problem]:
    return _draw(task)[: task.num_train_problems]


def heldout_problems(task: TaskConfig) -> list[Problem]:
    """The problems that every run is evaluated on; disjoint from the training problems."""
    return _draw(task)[task.num_train_problems :]


def is_correct(task: TaskConfig, answer: str, completion: str) -> bool:
    """Whether `completion` (decoded, special tokens left out) answers the problem."""
    match task.answer:
        case "exact":
            return completion.strip() == answer
        case _:
            numbers = re.findall(r"\d+", completion)
            return bool(numbers) and numbers[-1] == answer
