"""Rollouts judged while their log-probabilities are computed."""

from collections.abc import Callable, Sequence
from typing import Any

from isosweep.config.task import TaskConfig
from isosweep.tasks import Judged, Problem, judge_later


class Verification:
    """The task's scores of completions, begun as soon as these are sampled."""

    def __init__(self, task: TaskConfig, problems: Sequence[Problem]) -> None:
        self._task, self._problems = task, problems
        self._begun: tuple[list[int], list[str]] | None = None
        self._judged: Callable[[], list[Judged]]

    def begin(self, problem: list[int], completions: list[str]) -> None:
        """Have `completions` of the problems with these numbers judged."""
        self._begun = problem, completions
        asked = [self._problems[index] for index in problem]
        self._judged = judge_later(self._task, asked, completions)

    def correctness(self, completions: list[str], problem: list[int], **_: Any) -> list[float]:
        """The scores, in order: a reward function of TRL's."""
        if self._begun != (problem, completions):
            self.begin(problem, completions)
        self._begun = None
        return [each.score for each in self._judged()]
