"""By which seeds completions are drawn, where those are not torch's next random numbers.

Rollouts that wait are drawn by the run's seed, the step, the call within it, and their place in the
whole generation: they are the same however many processes sample them. Other requests of an engine
go by its number, and their own.
"""

from collections.abc import Callable, Sequence

import numpy as np

from isosweep.training.sampling import streams

# What training and evaluation draw from: never the same seeds.
TRAINING, EVALUATION = 0, 1


def make_seeds(entropy: Sequence[int], count: int) -> list[int]:
    """Return `count` seeds below 2^62: vLLM adds small numbers to them.

    The seeds of two entropies, and those of one, are independent of each other.
    """
    words = np.random.SeedSequence(entropy).generate_state(count, np.uint64) >> np.uint64(2)
    return [int(word) for word in words]


class Draws:
    """Seeds of a generation's rollouts, by their places: 0 to n x B - 1 over all processes."""

    def __init__(self, seed: int, step: Callable[[], int]) -> None:
        self._seed, self._step, self._last = seed, step, (-1, -1)
        self._entropy: tuple[int, ...] = ()
        self._turn = 0
        self._places: Sequence[int] = ()

    def next_call(self) -> tuple[int, ...]:
        """Return the entropy of the next call: a recipe that samples again makes several a step."""
        step = self._step()
        self._last = step, self._last[1] + 1 if self._last[0] == step else 0
        return TRAINING, self._seed, *self._last

    def begin(self, places: Sequence[int]) -> None:
        """A generation begins, whose rollouts at `places` are sampled here."""
        self._entropy, self._turn, self._places = self.next_call(), 0, places

    def go_on(self, rows: Sequence[int]) -> None:
        """Of the rollouts sampled here those in `rows` are continued, with new seeds."""
        self._turn, self._places = self._turn + 1, [self._places[row] for row in rows]

    def seeds(self) -> list[int]:
        """Return a seed of each rollout that is sampled here."""
        everyones = make_seeds((*self._entropy, self._turn), max(self._places) + 1)
        return [everyones[place] for place in self._places]


class RequestSeeds:
    """Seeds of an engine's requests: of rollouts, or of the `evaluation` (its seed, and samples of
    each problem) that is going on.

    With `draws` both follow from a rollout's place, and an answer's problem; without, from the
    number of the engine and of the request.
    """

    evaluation: tuple[int, int] | None = None

    def __init__(
        self, seed: int, step: Callable[[], int], engine: int = 0, draws: Draws | None = None
    ) -> None:
        self._calls, self._engine, self._draws = Draws(seed, step), engine, draws

    def __call__(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        """Return a seed of each request, by the tokens of its prompt; the answers of a problem
        follow one another."""
        if self._draws is None:
            of = self.evaluation
            entropy = self._calls.next_call() if of is None else (EVALUATION, of[0])
            return make_seeds((*entropy, self._engine), len(prompts))
        if self.evaluation is None:
            return self._draws.seeds()
        seed, k = self.evaluation
        answers = [(str(list(prompt)), at % k) for at, prompt in enumerate(prompts)]
        return [int(stream) >> 2 for stream in streams(seed, answers)]
