"""Scores alone, of what a task makes of completions."""

from collections.abc import Callable, Sequence

from isosweep.config.task import TaskConfig
from isosweep.tasks import Problem, judge, judge_later


def scores(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> list[float]:
    """The scores of `judge`."""
    return [judged.score for judged in judge(task, problems, completions)]


def scores_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[float]]:
    """The scores of `judge_later`."""
    later = judge_later(task, problems, completions)
    return lambda: [judged.score for judged in later()]
