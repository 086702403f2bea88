"""Problems and verifiers of reasoning_gym (PyPI): a hundred procedural generators.

The generator's seed is `data_seed` x 2^20, since it adds an entry's number to its seed: two data
seeds share no entry. Problems are drawn in order, duplicates left out.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from isosweep.config.choices import one_of
from isosweep.config.task import ReasoningGymConfig, TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.checking import ask_all, judged
from isosweep.tasks.problem import Distinct, Judged, Pool, Problem, content_id, in_template

_SEED_STRIDE = 2**20
# Numbers of numpy's generators, which some use, are below this.
_SEEDS = 2**32
# What generators are given as the number of entries, which some look at. All but a few
# give more.
_SIZE = 2**14
# A generator that repeats itself more often has too few problems for what is asked.
_DRAWS_PER_PROBLEM = 10
_DRAW_LIMIT_S = 120.0


def pool(task: TaskConfig, wanted: int) -> Pool:
    """`wanted` distinct problems; fewer where the generator does not give them in ten times as
    many draws. Raises SettingError for an unknown generator or parameters that it refuses."""
    config = _require_generator(task)
    distinct, problems = Distinct(), list[Problem]()
    most = wanted * _DRAWS_PER_PROBLEM
    index = 0
    while len(problems) < wanted and index < most:
        indices = range(index, min(most, index + wanted - len(problems)))
        requests = [_request(task, "draw_entry") | {"index": i} for i in indices]
        for i, entry in zip(indices, ask_all(requests, _DRAW_LIMIT_S), strict=True):
            if i >= _SIZE and entry is not None and "IndexError" in entry.get("error", ""):
                most = 0
                break
            if entry is None or "question" not in entry:
                why = f"took over {_DRAW_LIMIT_S:.0f} s" if entry is None else entry["error"]
                raise SettingError(
                    "task.reasoning_gym.parameters",
                    config.parameters,
                    f"{config.generator} refuses them: entry {i} could not be made: {why}",
                    "task.reasoning_gym.parameters=null, its own defaults, or fewer problems",
                )
            bare = Problem(
                problem_id=content_id(config.generator, entry["question"]),
                prompt=entry["question"],
                answer=entry["answer"],
                metadata=json.dumps({"index": i}),
            )
            problem = in_template(bare, task.template)
            if distinct.take(problem):
                problems.append(problem)
        index = indices.stop
    source = f"reasoning_gym's {config.generator}"
    return Pool(problems=tuple(problems), source=source, dropped=distinct.dropped)


def judge(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[Judged]:
    """The generator's own score of each completion, held to [0, 1]; 0 where it fails."""
    request = _request(task, "score_reasoning")
    requests = [
        {**request, "index": json.loads(problem.metadata)["index"], "completion": completion}
        for problem, completion in zip(problems, completions, strict=True)
    ]
    given = [judged(answer) for answer in ask_all(requests)]
    return [each._replace(score=_held(each.score)) for each in given]


def _held(score: float) -> float:
    return min(1.0, max(0.0, score)) if math.isfinite(score) else 0.0


def _request(task: TaskConfig, judge: str) -> dict[str, Any]:
    config = task.reasoning_gym
    assert config is not None
    return {
        "judge": judge,
        "generator": config.generator,
        "parameters": config.parameters or {},
        "seed": task.data_seed * _SEED_STRIDE % _SEEDS,
        "size": _SIZE,
    }


def _require_generator(task: TaskConfig) -> ReasoningGymConfig:
    """The task's settings, of a generator that there is and whose parameters have these names."""
    from reasoning_gym.factory import DATASETS

    config = task.reasoning_gym
    assert config is not None
    one_of("task.reasoning_gym.generator", config.generator, tuple(sorted(DATASETS)))
    known = tuple(item.name for item in fields(DATASETS[config.generator][1]))
    for name in config.parameters or {}:
        one_of("task.reasoning_gym.parameters", name, known)
    return config
