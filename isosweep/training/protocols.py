"""What the loop, the evaluator and the trainer hand to each other, and other people's objects."""

from typing import Any, NamedTuple

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
