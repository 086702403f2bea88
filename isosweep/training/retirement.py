"""When a problem counts as solved, whatever the number of rollouts that it gets at a time."""

from collections.abc import Iterable
from typing import Any


class Retirement:
    """Judges problems by their scores over windows of `window` rollouts, one after the other.

    A problem is solved once a window's mean score is `at` or more. The rollouts of a problem are
    one sequence, whichever generations they come from: windows, and so how often a problem of a
    given success rate is taken for solved per rollout, do not depend on n. What has not filled a
    window counts towards the next one. ScaleRL (arXiv 2510.13786, section 3.2) keeps "a history of
    pass rates" and does not say over how many rollouts.
    """

    def __init__(self, at: float, window: int) -> None:
        self._at, self._window = at, window
        # Of each problem: rollouts in the window that is being filled, and the sum of their scores.
        self._open: dict[int, tuple[int, float]] = {}

    def solved(self, problem: int, scores: Iterable[float]) -> bool:
        """Whether `scores` of its newest rollouts, in order, complete a window that shows it."""
        rollouts, total = self._open.get(problem, (0, 0.0))
        solved = False
        for score in scores:
            rollouts, total = rollouts + 1, total + score
            if rollouts == self._window:
                # Sums of floats: 0.9 of 10 rollouts is 9.
                solved = solved or total >= self._at * self._window - 1e-9
                rollouts, total = 0, 0.0
        self._open[problem] = rollouts, total
        return solved

    def to_json(self) -> dict[str, Any]:
        """Windows that are being filled, for a checkpoint."""
        return {str(problem): list(held) for problem, held in self._open.items() if held[0]}

    def restore(self, document: dict[str, Any]) -> None:
        """Go on where `to_json` was called."""
        self._open = {int(key): (held[0], held[1]) for key, held in document.items()}
