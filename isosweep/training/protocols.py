"""What the loop, the evaluator and the trainer ask of each other and of other people's objects."""

from contextlib import AbstractContextManager
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


class Learner(Protocol):
    """Of the trainer: what the loop uses."""

    @property
    def model(self) -> Policy:
        """The policy, as far as this process has it."""

    def follow(self, observer: Observer) -> None:
        """Let `observer` decide what comes of every step."""

    def whole_policy(self) -> AbstractContextManager[Policy]:
        """The policy with all its weights in this process, while the context lasts."""

    def write_whole(self, checkpoint: Path) -> None:
        """Put weights that lie in a checkpoint in parts together, as a model is loaded."""

    def train(self, resume_from_checkpoint: str | None = None) -> Any:
        """Train until the observer ends it; from a checkpoint's directory, if one is given."""
