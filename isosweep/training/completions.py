"""Judged completions, and the one place where training and evaluation hand them on."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Completion:
    """A completion of a problem: its text and tokens, whether it came to its end before the limit,
    and its score."""

    problem_id: str
    text: str
    tokens: Sequence[int]
    ended: bool
    score: float


def hand_on(source: str, step: int, completions: Sequence[Completion]) -> None:
    """Receive this process's `completions` of the policy after `step` updates, once all are judged.

    `source`: "training", "heldout", or the name of an evaluation set. Nothing keeps them yet.
    """
