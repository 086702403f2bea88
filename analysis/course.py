"""The course of a search: what it asked for, at which compute, and what was known then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class AskedStep:
    """A run asked for up to `milestone`, in the plan's budget unit.

    `spent`: compute of all the sweep's runs when it was asked for, in the same unit; `value`:
    expected of it, in reward.
    """

    run_id: str
    milestone: float
    spent: float
    value: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Course:
    """`steps`: by compute, ascending; those taken up from elsewhere, of which no compute is known,
    are left out. `over`: whether the search has ended."""

    steps: tuple[AskedStep, ...]
    over: bool = False


def read_course(trials: Sequence[tuple[str, Mapping[str, Any]]], *, over: bool = False) -> Course:
    """The course by a study's trials, each with its run's id."""
    steps = [
        AskedStep(
            run_id=run_id,
            milestone=step["milestone"],
            spent=step["known"]["compute"],
            value=step["value"],
            why=step["why"],
        )
        for run_id, trial in trials
        for step in trial["steps"]
        if "compute" in step["known"]
    ]
    return Course(
        steps=tuple(sorted(steps, key=lambda step: (step.spent, step.milestone))), over=over
    )
