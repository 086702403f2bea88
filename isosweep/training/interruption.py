"""Forced interruption (ScaleRL, arXiv 2510.13786): a long answer is asked to finish.

Answers that have not ended are continued with a phrase and at most `answer` more tokens. The
phrase bears no loss.
"""

from typing import TYPE_CHECKING

from isosweep.plan.spec import RunSpec
from isosweep.training.sampling import Completions, Tokenizer

if TYPE_CHECKING:
    from isosweep.training.trainer import SweepTrainer


class Interruption:
    """Interrupts the rollouts of one generation after another.

    Of the newest: `masks`, 0 for a token of the phrase; `continued`, of every interrupted rollout
    by its place the tokens read again, of the phrase, and sampled after it.
    """

    masks: list[list[int]]
    continued: dict[int, tuple[int, int, int]]

    def __init__(self, spec: RunSpec, tokenizer: Tokenizer) -> None:
        recipe, limit = spec.recipe, spec.task.completion_limit
        self._phrase: list[int] = tokenizer(recipe.interruption, add_special_tokens=False).input_ids
        self._answer = recipe.interruption_tokens
        self._first_limit = limit - len(self._phrase) - self._answer
        if self._first_limit < 1:
            raise ValueError(
                f"recipe.interruption takes {len(self._phrase)} tokens and leaves "
                f"recipe.interruption_tokens={self._answer} for an answer: "
                f"no room before it in {limit} tokens"
            )

    def sample(
        self, trainer: "SweepTrainer", prompt_ids: list[list[int]], num_generations: int
    ) -> Completions:
        """Completions of `prompt_ids` that end in time, or were interrupted."""
        with trainer.limited(self._first_limit):
            first, logprobs = trainer.sample(prompt_ids, num_generations)
        completions = [list(ids) for ids in first]
        self.masks, self.continued = [[1] * len(ids) for ids in completions], {}
        cut = [
            i
            for i, ids in enumerate(completions)
            if len(ids) >= self._first_limit and ids[-1] not in trainer.eos_token_ids
        ]
        if not cut:
            return completions, logprobs
        again = [prompt_ids[i] + completions[i] + self._phrase for i in cut]
        trainer.seeds.go_on(cut)
        with trainer.limited(self._answer):
            more, more_logprobs = trainer.sample(again, 1)
        for position, i in enumerate(cut):
            completions[i] += [*self._phrase, *more[position]]
            sampled = len(more[position])
            self.masks[i] += [0] * len(self._phrase) + [1] * sampled
            self.continued[i] = len(again[position]), len(self._phrase), sampled
            if logprobs is not None and more_logprobs is not None:
                forced = [None] * len(self._phrase)
                logprobs[i] = [*logprobs[i], *forced, *more_logprobs[position]]
        return completions, logprobs
