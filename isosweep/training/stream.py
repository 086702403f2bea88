"""The order in which training meets its problems: a function of the seed and of what was drawn."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from isosweep.training.retirement import Retirement


class ProblemStream:
    """Problems in a new random order each epoch, without end.

    The order depends on `seed` and the number of problems alone: runs that differ in n or B meet
    the same problems in the same order (common random numbers). A problem that is retired is
    passed over from then on (no positive resampling, arXiv 2510.13786), unless fewer than `least`
    would be left. `retirement` says when; without it none is.
    """

    def __init__(
        self, problems: int, seed: int, least: int = 1, retirement: Retirement | None = None
    ) -> None:
        self._retirement = retirement
        self._problems, self._seed = problems, seed
        self._least = min(least, problems)
        self._epoch, self._position = 0, 0
        self._retired: set[int] = set()
        self._order = self._shuffled()

    def draw(self, count: int) -> list[int]:
        """Indices of the next `count` problems that are not retired."""
        drawn: list[int] = []
        while len(drawn) < count:
            if self._position == self._problems:
                self._epoch, self._position = self._epoch + 1, 0
                self._order = self._shuffled()
            index = self._order[self._position]
            self._position += 1
            if index not in self._retired:
                drawn.append(index)
        return drawn

    def scored(self, scores: Iterable[tuple[int, Sequence[float]]]) -> None:
        """Take note of problems' newest `scores`, and retire those that are solved."""
        if self._retirement is not None:
            judge = self._retirement
            self.retire([problem for problem, given in scores if judge.solved(problem, given)])

    def retire(self, problems: Iterable[int]) -> None:
        """Draw these no more, as long as a batch's worth of problems is left."""
        for index in problems:
            if self._problems - len(self._retired) > self._least:
                self._retired.add(index)

    @property
    def retired(self) -> Sequence[int]:
        """The problems that are drawn no more, ascending."""
        return sorted(self._retired)

    def to_json(self) -> dict[str, Any]:
        """Where the stream is, for a checkpoint."""
        windows = {} if self._retirement is None else {"windows": self._retirement.to_json()}
        place = {"epoch": self._epoch, "position": self._position}
        return {**place, "retired": list(self.retired), **windows}

    def restore(self, document: dict[str, Any]) -> None:
        """Go on where `to_json` was called."""
        self._epoch, self._position = document["epoch"], document["position"]
        self._retired = set(document["retired"])
        if self._retirement is not None:
            self._retirement.restore(document["windows"])
        self._order = self._shuffled()

    def _shuffled(self) -> list[int]:
        order = list(range(self._problems))
        random.Random(f"{self._seed}:{self._epoch}").shuffle(order)
        return order
