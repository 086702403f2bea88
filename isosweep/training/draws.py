"""By which random numbers completions are drawn where those are not torch's next ones.

Rollouts that wait are drawn by the run's seed, the step, the call within it, and their place in the
whole generation. So they are the same however many processes sample them.
"""

from collections.abc import Callable, Sequence

import numpy as np

# What training and evaluation draw from: never the same seeds.
TRAINING, EVALUATION = 0, 1


def request_seeds(entropy: Sequence[int], count: int) -> list[int]:
    """`count` seeds below 2^62: vLLM adds small numbers to them.

    The seeds of two entropies, and those of one, are independent of each other.
    """
    words = np.random.SeedSequence(entropy).generate_state(count, np.uint64) >> np.uint64(2)
    return [int(word) for word in words]


class Calls:
    """Counts the calls within a step, of which a recipe that samples again makes several."""

    def __init__(self, step: Callable[[], int]) -> None:
        self._step, self._last = step, (-1, -1)

    def next(self) -> tuple[int, int]:
        """The step, and the number of this call within it."""
        step = self._step()
        self._last = step, self._last[1] + 1 if self._last[0] == step else 0
        return self._last


class Draws:
    """Seeds of a generation's rollouts, by their places: 0 to n x B - 1 over all processes."""

    def __init__(self, seed: int, step: Callable[[], int]) -> None:
        self._seed, self._calls = seed, Calls(step)
        self._entropy: tuple[int, ...] = ()
        self._turn = 0
        self._places: Sequence[int] = ()

    def begin(self, places: Sequence[int]) -> None:
        """A generation begins, whose rollouts at `places` are sampled here."""
        self._entropy = TRAINING, self._seed, *self._calls.next()
        self._turn, self._places = 0, places

    def go_on(self, rows: Sequence[int]) -> None:
        """Of the rollouts sampled here those in `rows` are continued, with new numbers."""
        self._turn, self._places = self._turn + 1, [self._places[row] for row in rows]

    def seeds(self) -> list[int]:
        """A seed of each rollout that is sampled here, below 2^62."""
        everyones = request_seeds((*self._entropy, self._turn), max(self._places) + 1)
        return [everyones[place] for place in self._places]
