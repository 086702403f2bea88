"""What a generation consists of before and after it is scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# A generation's tensors by TRL's names, a row a rollout of this process.
Batch = dict[str, Any]
# A rollout as TRL's data set would give it: `prompt`, and the columns that rewards are given.
Row = dict[str, Any]
# Tokens of completions, and the sampler's log-probabilities of them where it gives any.
Completions = tuple[list[list[int]], list[list[float | None]] | None]


@dataclass(frozen=True)
class Rollouts:
    """This process's rollouts of one generation, before they are scored: a list's place for each.

    `loss_masks`: 1 for a token that bears loss, 0 for another; None where all do.
    """

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    loss_masks: list[list[int]] | None
    texts: list[str]
    logprobs: list[list[float | None]] | None

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Tokens of prompt and completion of each."""
        pairs = zip(self.prompt_ids, self.completion_ids, strict=True)
        return [(len(prompt), len(completion)) for prompt, completion in pairs]

    def split(self) -> list[tuple[Any, ...]]:
        """The fields of each rollout."""
        none = [None] * len(self.texts)
        masks, logprobs = self.loss_masks or none, self.logprobs or none
        columns = self.prompt_ids, self.completion_ids, masks, self.texts, logprobs
        return list(zip(*columns, strict=True))

    @staticmethod
    def join(parts: Sequence[tuple[Any, ...]]) -> "Rollouts":
        """Of what `split` gave, in any order."""
        prompt_ids, completion_ids, masks, texts, logprobs = map(list, zip(*parts, strict=True))
        return Rollouts(
            prompt_ids,
            completion_ids,
            None if masks[0] is None else masks,
            texts,
            None if logprobs[0] is None else logprobs,
        )
