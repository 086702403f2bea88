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
class KnownThen:
    """What was believed once the runs had `spent` so much compute together.

    `chances` of each verdict; `loss`: reward expected to be lost at the worst budget by the n that
    seemed best there, None where it was not written down.
    """

    spent: float
    chances: dict[str, float]
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class Course:
    """Both by compute, ascending. Steps taken up from elsewhere, of which no compute is known, are
    left out. `over`: whether the search has ended."""

    steps: tuple[AskedStep, ...]
    known: tuple[KnownThen, ...]
    over: bool = False


def read_course(
    trials: Sequence[tuple[str, Mapping[str, Any]]],
    decision: Mapping[str, Any] | None,
    *,
    over: bool = False,
) -> Course:
    """The course by a study's trials, each with its run's id, and its newest decision."""
    entries = [(run_id, step) for run_id, trial in trials for step in trial["steps"]]
    steps = [
        AskedStep(
            run_id=run_id,
            milestone=step["milestone"],
            spent=step["known"]["compute"],
            value=step["value"],
            why=step["why"],
        )
        for run_id, step in entries
        if "compute" in step["known"]
    ]
    documents = [step["known"] for _, step in entries]
    if decision is not None:
        documents.append(decision["known"])
    known = {
        document["compute"]: KnownThen(
            spent=document["compute"], chances=document["chances"], loss=document.get("loss")
        )
        for document in documents
        if document.get("chances")
    }
    return Course(
        steps=tuple(sorted(steps, key=lambda step: (step.spent, step.milestone))),
        known=tuple(known[spent] for spent in sorted(known)),
        over=over,
    )
