"""What a simulated world is to those who measure an analysis with it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isosweep.plan.cells import PlannedRun

Floats = NDArray[np.float64]
# The B that a design offers at every n: (B, n) of (n,).
Batches = Callable[[Floats], Floats]


class KnownWorld(Protocol):
    """A world whose rewards, and so whose best n, are known. Compute is in the budget's unit."""

    @property
    def name(self) -> str:
        """Name of the world."""

    @property
    def base_reward(self) -> float:
        """Reward before training."""

    @property
    def difficulty_sd(self) -> float:
        """Spread of the difficulty of held-out problems, in logits."""

    def reward(self, compute: Floats, n: Floats | float, B: Floats | float) -> Floats:
        """Mean reward over all runs that there could be, those that collapse included."""

    def best_n(
        self, compute: float, least: float, most: float, batches: Batches | None = None
    ) -> float:
        """n*(C) over real n in [least, most], each at the best of `batches`; None: at any B."""

    def asymptote(self, n: float, B: float) -> float | None:
        """A: the reward of (n, B) with unlimited compute; None where runs approach none."""

    def curves(
        self, runs: Sequence[PlannedRun], compute: Sequence[Floats], rng: np.random.Generator
    ) -> Iterator[Floats | None]:
        """Each run's own reward at each of its `compute`, before it is evaluated with noise.

        (records,) of (records,); None for a run that left no records. Drawn as they are asked for.
        """


def searched_best_n(
    world: KnownWorld, compute: float, least: float, most: float, batches: Batches
) -> float:
    """n*(C) by trying every n in [least, most], 1e-4 doublings apart."""
    x = np.arange(np.log2(least), np.log2(most) + 5e-5, 1e-4)
    n = 2.0**x
    rewards = world.reward(np.array(compute), n, batches(n)).max(axis=0)
    return float(n[int(np.argmax(rewards))])
