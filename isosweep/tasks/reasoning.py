"""Problems and verifiers of reasoning_gym (PyPI): a hundred procedural generators.

The generator's seed is `data_seed` x 2^20, since it adds an entry's number to its seed: two data
seeds share no entry. Problems are drawn in order, duplicates left out.
"""

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from isosweep.config.base import one_of
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks.checking import LONGEST_ANSWER, begin, begin_judging
from isosweep.tasks.problem import Judged, Problem, content_id, distinct

_SEED_STRIDE = 2**20
# Numbers of numpy's generators, which some use, are below this.
_SEEDS = 2**32
# What generators are given as the number of entries, which some look at. All but a few
# give more.
_SIZE = 2**14
# A generator that repeats itself more often has too few problems for what is asked.
_DRAWS_PER_PROBLEM = 10
_DRAW_LIMIT_S = 120.0

# A generator's entries: its name, its seed, and its parameters as JSON.
Entries = tuple[str, int, str]


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` distinct problems; fewer where the generator does not give them in ten times as
    many draws. Raises SettingError for an unknown generator or parameters that it refuses."""
    from reasoning_gym.factory import DATASETS

    config, entries = task.reasoning_gym, _entries(task)
    assert config is not None
    one_of("task.reasoning_gym.generator", config.generator, tuple(sorted(DATASETS)))
    problems, index, most = list[Problem](), 0, wanted * _DRAWS_PER_PROBLEM
    while len(problems) < wanted and index < most:
        indices = range(index, min(most, index + wanted - len(problems)))
        drawn = begin(draw, [(entries, i) for i in indices], _DRAW_LIMIT_S)()
        for i, entry in zip(indices, drawn, strict=True):
            question, answer, error = entry or ("", "", f"took over {_DRAW_LIMIT_S:.0f} s")
            if i >= _SIZE and "IndexError" in error:
                most = 0
                break
            if error:
                raise SettingError(
                    "task.reasoning_gym.parameters",
                    config.parameters,
                    f"{config.generator} refuses them: entry {i} could not be made: {error}",
                    "task.reasoning_gym.parameters=null, its own defaults, or fewer problems",
                )
            problem = Problem(
                problem_id=content_id(config.generator, question),
                prompt=question,
                answer=answer,
                metadata=json.dumps({"index": i}),
            )
            problems.append(problem)
        problems, index = distinct(problems), indices.stop
    return problems


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """The generator's own score of each completion, held to [0, 1]; 0 where it fails."""
    entries = _entries(task)
    indices = [json.loads(problem.metadata)["index"] for problem in problems]
    pairs = zip(indices, completions, strict=True)
    return begin_judging(score, [(entries, index, text) for index, text in pairs])


def _entries(task: TaskConfig) -> Entries:
    config = task.reasoning_gym
    assert config is not None
    parameters = json.dumps(config.parameters or {}, sort_keys=True)
    return config.generator, task.data_seed * _SEED_STRIDE % _SEEDS, parameters


@lru_cache(maxsize=4)
def _generator(entries: Entries) -> Any:
    import reasoning_gym

    generator, seed, parameters = entries
    own = json.loads(parameters)
    return reasoning_gym.create_dataset(generator, seed=seed, size=_SIZE, **own)


@lru_cache(maxsize=65536)
def _entry(entries: Entries, index: int) -> Any:
    return _generator(entries)[index]


def draw(entries: Entries, index: int) -> tuple[str, str, str]:
    """Question and answer of one entry; and why the generator fails, or ""."""
    try:
        entry = _entry(entries, index)
    except Exception as error:
        return "", "", f"{type(error).__name__}: {error}"
    return str(entry["question"]), str(entry["answer"] or ""), ""


def score(entries: Entries, index: int, completion: str) -> tuple[float, str | None]:
    """The generator's own score of the answer in `<answer>` tags, else of the last line.

    The entry is made again, rather than sent, which would change it.
    """
    from reasoning_gym.utils import extract_answer

    answer = extract_answer(completion)
    if answer is None:
        lines = [line.strip() for line in completion.splitlines() if line.strip()]
        answer = lines[-1] if lines else None
    given = float(_generator(entries).score_answer(answer, _entry(entries, index)))
    held = min(1.0, max(0.0, given)) if math.isfinite(given) else 0.0
    return held, answer and answer.strip()[:LONGEST_ANSWER]
