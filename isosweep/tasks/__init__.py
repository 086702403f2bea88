"""Tasks: problems with checkable answers, of one of five kinds, or of several.

`training_problems` and `heldout_problems` draw them, `judge` judges completions. Training is
rewarded with the score; evaluation counts successes.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from isosweep.config.task import PARTS, TaskConfig, errors_at
from isosweep.tasks.problem import Judged, Problem, ProblemSets, mixed, split, task_of

__all__ = [
    "Judged",
    "Problem",
    "ProblemSets",
    "heldout_problems",
    "is_success",
    "judge",
    "judge_later",
    "problem_pool",
    "problem_sets",
    "problems_digest",
    "tells_answers",
    "training_problems",
    "use_problems",
]

# Of each kind of task the module with its `pool` and `judge_later`.
_MODULES = {
    "sort": "sorting",
    "reasoning_gym": "reasoning",
    "math": "mathematics",
    "code": "code",
    "custom": "custom",
}
_drawn: dict[str, ProblemSets] = {}


def problem_sets(task: TaskConfig) -> ProblemSets:
    """The problems of `task`, drawn once a process; training and held-out ones never overlap.

    Raises SettingError where they cannot be drawn: too few, unreadable, or a broken source.
    """
    key = _key(task)
    if key not in _drawn:
        if task.selection_sha256 is not None:
            raise LookupError(f"the problems of selection {task.selection_sha256} are not loaded")
        _drawn[key] = _draw(task)
    return _drawn[key]


def use_problems(task: TaskConfig, sets: ProblemSets) -> None:
    """Take `sets` for the problems of `task` in this process."""
    _drawn[_key(task)] = sets


def _key(task: TaskConfig) -> str:
    return json.dumps(task.model_dump(), sort_keys=True)


def _draw(task: TaskConfig) -> ProblemSets:
    if task.parts:
        return mixed(task, {name: _part_problems(task, name) for name in task.parts})
    pool = problem_pool(task, task.num_train_problems + task.num_eval_problems)
    if task.sort is None:
        return split(task, pool)
    number = task.num_train_problems
    return ProblemSets(training=tuple(pool[:number]), heldout=tuple(pool[number:]))


def _part_problems(task: TaskConfig, name: str) -> ProblemSets:
    with errors_at(f"{PARTS}.{name}"):
        return problem_sets(task.parts[name])


def problem_pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` distinct problems of the task's source, whatever `task` says of their number and
    difficulty; fewer where it has fewer. Raises SettingError where they cannot be drawn."""
    pool: list[Problem] = _module(task).pool(task, wanted)
    if task.template is None:
        return pool
    template, place = task.template, "{digits}" if task.sort else "{problem}"
    return [replace(each, prompt=template.replace(place, each.prompt)) for each in pool]


def training_problems(task: TaskConfig) -> list[Problem]:
    """The `num_train_problems` problems that runs are trained on."""
    return list(problem_sets(task).training)


def heldout_problems(task: TaskConfig) -> list[Problem]:
    """The problems that every run is evaluated on; disjoint from the training problems."""
    return list(problem_sets(task).heldout)


def judge(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[Judged]:
    """Score and answer of each completion: `problems`, `completions`: (rollouts,), in pairs.

    Completions are decoded text without special tokens.
    """
    return judge_later(task, problems, completions)()


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """Begin to judge; the function that is returned waits for what `judge` returns.

    Verifiers that run in processes of their own begin at once. Scores that this process computes
    wait until they are asked for: sorting's are cheap, and a user's function runs in the main
    thread, one call at a time, in the order of the batches.
    """
    if task.mixture is not None:
        return _judged_by_parts(task, problems, completions)
    later: Callable[[], list[Judged]] = _module(task).judge_later(task, problems, completions)
    return later


def _judged_by_parts(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """`judge_later` of a mixture: every part judges the completions of its problems."""
    owners = [task_of(task, problem) for problem in problems]
    begun: list[tuple[list[int], Callable[[], list[Judged]]]] = []
    for part in task.parts.values():
        places = [place for place, owner in enumerate(owners) if owner is part]
        if places:
            own = [problems[place] for place in places], [completions[place] for place in places]
            begun.append((places, judge_later(part, *own)))

    def gathered() -> list[Judged]:
        found: dict[int, Judged] = {}
        for places, judged in begun:
            found |= dict(zip(places, judged(), strict=True))
        return [found[place] for place in range(len(problems))]

    return gathered


def tells_answers(task: TaskConfig) -> bool:
    """Whether completions have answers that can be voted on."""
    if task.parts:
        return all(tells_answers(part) for part in task.parts.values())
    if task.custom is not None:
        told: bool = _module(task).tells_answers(task)
        return told
    return task.code is None


def is_success(task: TaskConfig, score: float, problem: Problem | None = None) -> bool:
    """Whether a completion of this score, an answer to `problem`, counts as a success in
    evaluation."""
    return score >= (task if problem is None else task_of(task, problem)).success_at


def problems_digest(
    task: TaskConfig, further: Mapping[str, Sequence[Problem]] | None = None
) -> str:
    """Sha256 of the task's problems: ids, prompts and answers of both sets, in order, and of the
    `further` ones, by the name of their set."""
    sets, others = problem_sets(task), [own for _, own in sorted((further or {}).items())]
    document = [
        [[problem.problem_id, problem.prompt, problem.answer] for problem in problems]
        for problems in (sets.training, sets.heldout, *others)
    ]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _module(task: TaskConfig) -> Any:
    return import_module(f"isosweep.tasks.{_MODULES[task.kind]}")
