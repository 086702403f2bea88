"""The seeds by which completions are drawn, where those are not torch's next random numbers.

Rollouts that wait are drawn by the run's seed, the step, the call within it, and their place in the
whole generation: they are the same however many processes sample them. A held-out answer goes by
its problem and its number among that problem's. Other requests of an engine go by its number, and
their own.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from isosweep.plan.spec import RunSpec

# A seed each: (answers,).
Seeds = NDArray[np.uint64]
# What training and evaluation draw from: never the same seeds.
TRAINING, EVALUATION = 0, 1
# Seeds of an engine are below 2^62: vLLM adds small numbers to them.
_TO_ENGINE = np.uint64(2)


def seeds_by_place(entropy: Sequence[int], count: int) -> list[int]:
    """Return `count` seeds below 2^62.

    The seeds of two entropies, and those of one, are independent of each other.
    """
    words = np.random.SeedSequence(entropy).generate_state(count, np.uint64) >> _TO_ENGINE
    return [int(word) for word in words]


def seeds_by_name(seed: int, answers: Sequence[tuple[str, int]]) -> Seeds:
    """Return a seed for each of `answers`, by its problem's name and its number among that
    problem's."""
    digests = [hashlib.sha256(f"{seed}:{name}:{k}".encode()).digest()[:8] for name, k in answers]
    return np.frombuffer(b"".join(digests), dtype=np.dtype("<u8")).astype(np.uint64)


class RunSeeds:
    """Seeds of what `process` of a run samples.

    `lagged`: whether rollouts wait. `evaluation`: the seed, and samples of each problem, of the
    held-out evaluation that an engine is asked for, if one is going on.
    """

    evaluation: tuple[int, int] | None = None

    def __init__(self, spec: RunSpec, process: int, step: Callable[[], int]) -> None:
        self.lagged, self._seed, self._step = spec.recipe.rollout_lag > 0, spec.seed, step
        # The processes of one engine sample everything of theirs together.
        self._together = spec.generation.tensor_parallel
        self._engine = process // self._together
        self._last = -1, -1
        self._entropy: tuple[int, ...] = ()
        self._turn = 0
        # Of the rollouts sampled here, in the whole generation: 0 to n x B - 1.
        self._places: Sequence[int] = ()

    def begin(self, count: int) -> None:
        """Begin a generation, `count` rollouts of each process."""
        if self.lagged:
            own = self._together * count
            self._entropy, self._turn = self._next_call(), 0
            self._places = range(self._engine * own, (self._engine + 1) * own)

    def go_on(self, rows: Sequence[int]) -> None:
        """Of the rollouts sampled here those in `rows` are continued, with new seeds."""
        if self.lagged:
            self._turn, self._places = self._turn + 1, [self._places[row] for row in rows]

    def of_rollouts(self) -> list[int]:
        """Return a seed of each rollout, of those that wait, that is sampled here."""
        everyones = seeds_by_place((*self._entropy, self._turn), max(self._places) + 1)
        return [everyones[place] for place in self._places]

    def of_requests(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        """Return a seed of each request of an engine, by the tokens of its prompt; the answers of a
        problem follow one another."""
        match self.lagged, self.evaluation:
            case True, None:
                return self.of_rollouts()
            case True, (seed, k):
                answers = [(str(list(prompt)), at % k) for at, prompt in enumerate(prompts)]
                return [int(each >> _TO_ENGINE) for each in seeds_by_name(seed, answers)]
            case _, None:
                return seeds_by_place((*self._next_call(), self._engine), len(prompts))
            case _, (seed, _):
                return seeds_by_place((EVALUATION, seed, self._engine), len(prompts))

    def _next_call(self) -> tuple[int, ...]:
        """The entropy of the next call: a recipe that samples again makes several a step."""
        step = self._step()
        self._last = step, self._last[1] + 1 if self._last[0] == step else 0
        return TRAINING, self._seed, *self._last
