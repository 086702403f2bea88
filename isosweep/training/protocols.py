"""What the loop, the evaluator and the trainer ask of each other and of other people's objects."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from isosweep.training.decision import Decision


class Tokenizer(Protocol):
    """Of transformers' tokenizers: what turns problems into tokens, and answers into text."""

    chat_template: str | None
    eos_token_id: int
    pad_token_id: int

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> Mapping[str, Any]:
        """The tokens of `text`, under `input_ids`."""

    def apply_chat_template(
        self,
        conversation: list[dict[str, str]],
        *,
        add_generation_prompt: bool,
        return_dict: bool,
        **template: Any,
    ) -> Mapping[str, Any]:
        """The tokens of a conversation in the model's format, under `input_ids`."""

    def pad(self, encoded: dict[str, Any], *, return_tensors: str) -> Mapping[str, Any]:
        """Sequences as tensors of one length: (sequences, tokens)."""

    def batch_decode(self, sequences: Any, *, skip_special_tokens: bool) -> list[str]:
        """The text of each sequence."""


class Policy(Protocol):
    """Of transformers' language models: what a held-out evaluation uses."""

    training: bool
    generation_config: Any
    config: Any

    @property
    def device(self) -> Any:
        """Where the weights lie."""

    def eval(self) -> Any:
        """Switch dropout off."""

    def train(self, mode: bool = True) -> Any:
        """Switch dropout on, or off where `mode` is false."""

    def __call__(self, **inputs: Any) -> Any:
        """Logits, among others: (sequences, tokens, vocabulary)."""

    def generate(self, **inputs: Any) -> Any:
        """Prompts and completions: (sequences, tokens)."""


class Sampled(Protocol):
    """Completions of each prompt. `texts`, `tokens` (lengths): (prompts, k)."""

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The completions' text: (prompts, k)."""

    @property
    def tokens(self) -> tuple[tuple[int, ...], ...]:
        """The completions' lengths: (prompts, k)."""


class Sampler(Protocol):
    """An engine that samples with the policy's weights."""

    def sample(
        self, prompts: Sequence[Sequence[int]], *, k: int, temperature: float, limit: int, seed: int
    ) -> Sampled:
        """`k` completions of each of the `prompts` (token ids), of at most `limit` tokens."""


class Observer(Protocol):
    """Follows a trainer's steps and decides what comes of them."""

    def begin(self, step: int) -> None:
        """Training starts after `step`."""

    def step_ended(self, step: int, seconds: float) -> Decision:
        """`seconds`: wall time of the step, without the observer's own."""

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        """Metrics come after the step's end: they may put another decision in its place."""

    def complete(self, checkpoint: Path, write: Callable[[], None]) -> None:
        """The trainer's part of `checkpoint` is written, by all ranks, but for what `write` will
        write of a copy of the state; asked of the first."""

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

    def train(self, resume_from_checkpoint: str | None = None) -> Any:
        """Train until the observer ends it; from a checkpoint's directory, if one is given."""
