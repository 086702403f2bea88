"""What the loop, the evaluator and the trainer ask of each other and of other people's objects."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

# A tokenizer and a language model of transformers.
Tokenizer = Any
Policy = Any


class Decision(NamedTuple):
    """What comes of a step: whether it is checkpointed, and whether it is the last."""

    save: bool = False
    stop: bool = False


class Sampled(NamedTuple):
    """Completions of each prompt. `texts`, `tokens` (lengths): (prompts, k)."""

    texts: list[list[str]]
    tokens: list[list[int]]


class Observer(Protocol):
    """Follows a trainer's steps and decides what comes of them."""

    def begin(self, step: int) -> None:
        """Training starts after `step`."""

    def step_ended(self, step: int, seconds: float) -> Decision:
        """`seconds`: wall time of the step, without the observer's own."""

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        """Metrics come after the step's end: they may put another decision in its place."""

    def complete(self, checkpoint: Path) -> None:
        """The trainer's part of `checkpoint` is written, by all ranks; asked of the first."""

    def saved(self, seconds: float) -> None:
        """`seconds`: wall time that training stood still for a checkpoint."""
