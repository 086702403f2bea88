"""TRL's GRPOTrainer with isosweep's order of problems, its books, and what recipes add.

Every override is a small step around TRL's own: the loss, the sampling and the updates are TRL's.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from isosweep.plan.spec import RunSpec
from isosweep.training.ledger import Ledger
from isosweep.training.stream import ProblemStream
from isosweep.training.weights import advantage_weights, varied

# Far beyond any plan: a run ends by measured compute, and with a constant rate after warm-up its
# steps do not depend on this number.
ENDLESS = 10**9


@dataclass(frozen=True)
class Question:
    """A training problem as the trainer sees it: what the model reads, as text and as tokens."""

    text: str
    tokens: tuple[int, ...]


class _Placeholders:
    """Stands for TRL's data loader, which only says how many rollouts each process makes.

    Which problems they are comes from the ProblemStream. Nothing random is drawn and nothing is
    skipped at a resume.
    """

    def __init__(self, batch: int, batches: int) -> None:
        self.dataset = range(batch * batches)
        self._batch, self._batches = batch, batches

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self._batches):
            yield [0] * self._batch


class CountedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """A GRPOTrainer that draws problems from `stream`, tells `ledger`, and follows `spec.recipe`.

    The first reward function's score says what is right; others only shape the reward.
    """

    def __init__(
        self,
        spec: RunSpec,
        ledger: Ledger,
        stream: ProblemStream,
        questions: Sequence[Question],
        **options: Any,
    ) -> None:
        self._spec, self._ledger, self._stream = spec, ledger, stream
        self._questions = questions
        self._tokens_of = {question.text: list(question.tokens) for question in questions}
        super().__init__(**options)
        # Rollouts and rewards that a filter chose, to be used instead of sampling and scoring.
        self._chosen: tuple[tuple[Any, ...], Any] | None = None
        self._scores = torch.empty(0)
        # Tokens of prompt and completion of this process's rollouts.
        self._lengths: list[tuple[int, int]] = []
        self._phrase: list[int] = []
        if spec.recipe.interruption is not None:
            phrase = self._tokenizer(spec.recipe.interruption, add_special_tokens=False)
            self._phrase = list(phrase["input_ids"])
            room = self.max_completion_length - len(self._phrase) - spec.recipe.interruption_tokens
            if room < 1:
                raise ValueError(
                    f"recipe.interruption takes {len(self._phrase)} tokens and leaves "
                    f"recipe.interruption_tokens={spec.recipe.interruption_tokens} for an answer: "
                    f"no room before it in {self.max_completion_length} tokens"
                )

    def get_train_dataloader(self) -> Any:
        batch = self._train_batch_size * self.args.steps_per_generation
        return _Placeholders(batch, ENDLESS * self.args.gradient_accumulation_steps)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> Any:
        with self._ledger.timing("training"):
            return super().training_step(model, inputs, num_items_in_batch)

    # Rollouts: which problems, sampled how, scored how.

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        with self._ledger.timing("scoring"):
            if self._spec.recipe.zero_variance == "resample":
                problems, self._chosen = self._informative(len(inputs))
            else:
                problems = self._stream.draw(self._spec.problems_per_batch)
            rows = self._rows(problems, len(inputs))
            output: dict[str, Any] = super()._generate_and_score_completions(rows)
            if self._chosen is None:
                self._retire(problems)
            self._chosen = None
        self._weigh(output)
        output["lengths"] = torch.tensor(self._lengths, device=output["advantages"].device)
        self._ledger.scored(*self._all_lengths(output))
        batch = self._due(output)
        self._ledger.trained(*self._all_lengths(batch))
        return batch

    def _due(self, fresh: dict[str, Any]) -> dict[str, Any]:
        """The batch that the coming updates are made with, now that `fresh` was sampled."""
        return fresh

    def _all_lengths(self, batch: dict[str, Any]) -> tuple[list[int], list[int]]:
        """Tokens of prompts and of completions, of all processes."""
        prompts, completions = self.accelerator.gather(batch["lengths"]).T.tolist()
        return prompts, completions

    def _rows(self, problems: Sequence[int], count: int) -> list[dict[str, Any]]:
        """This process's `count` rollouts of the n x B of `problems`, as TRL's dataset rows."""
        n = self.num_generations
        start = self.accelerator.process_index * count
        return [
            {"prompt": self._questions[problems[i // n]].text, "problem": problems[i // n]}
            for i in range(start, start + count)
        ]

    def _retire(self, problems: Sequence[int]) -> None:
        """Retires those of the problems just scored that are solved."""
        if self._spec.recipe.retire_at is not None:
            rates = self._scores.view(-1, self.num_generations).mean(dim=1)
            solved = (rates >= self._spec.recipe.retire_at).tolist()
            self._stream.retire(p for p, done in zip(problems, solved, strict=True) if done)

    def _weigh(self, output: dict[str, Any]) -> None:
        """Puts the recipe's weights of groups and problems on the advantages."""
        recipe, n = self._spec.recipe, self.num_generations
        by_problem = recipe.aggregation == "problem"
        if recipe.zero_variance == "keep" and not by_problem:
            return
        mask = output["completion_mask"]
        bearing = mask * output["tool_mask"] if "tool_mask" in output else mask
        tokens = self.accelerator.gather(bearing.sum(1)).view(-1, n).float()
        kept = varied(self._scores.view(-1, n))
        if recipe.zero_variance == "keep":
            kept = torch.ones_like(kept)
        weights = advantage_weights(kept, tokens, recipe.loss_type, by_problem).flatten()
        local = len(output["advantages"])
        start = self.accelerator.process_index * local
        output["advantages"] = output["advantages"] * weights[start : start + local]

    def _informative(self, count: int) -> tuple[list[int], tuple[tuple[Any, ...], Any]]:
        """Dynamic sampling (DAPO, arXiv 2503.14476): draw until B groups have varied scores.

        After `recipe.max_draws` batches the rest is filled with groups that have not. Returns the
        problems, and as `_generate` and `_calculate_rewards` do: this process's rollouts of them,
        and the rewards of all (n x B, reward functions).
        """
        recipe, n, B = self._spec.recipe, self.num_generations, self._spec.problems_per_batch
        good: list[tuple[int, list[Any], Any]] = []
        spare: list[tuple[int, list[Any], Any]] = []
        for _ in range(recipe.max_draws):
            problems = self._stream.draw(B)
            rows = self._rows(problems, count)
            texts = [row["prompt"] for row in rows]
            prompt_ids, completion_ids, masks, completions, logprobs, *_ = self._generate(texts)
            rewards = self._calculate_rewards(rows, texts, completions, completion_ids)
            self._retire(problems)
            empty = [None] * count
            local = zip(
                prompt_ids, completion_ids, masks or empty, completions, logprobs or empty,
                strict=True,
            )  # fmt: skip
            rollouts = gather_object(list(local))
            for index, teaches in enumerate(varied(self._scores.view(-1, n)).tolist()):
                own = slice(index * n, (index + 1) * n)
                group = problems[index], rollouts[own], rewards[own]
                (good if teaches else spare).append(group)
            if len(good) >= B:
                break
        chosen = (good + spare)[:B]
        start = self.accelerator.process_index * count
        flat = [rollout for _, group, _ in chosen for rollout in group][start : start + count]
        prompt_ids, completion_ids, masks, completions, logprobs = map(
            list, zip(*flat, strict=True)
        )
        self._lengths = [(len(p), len(c)) for p, c in zip(prompt_ids, completion_ids, strict=True)]
        masks = None if masks[0] is None else masks
        logprobs = None if logprobs[0] is None else logprobs
        generated: tuple[Any, ...]
        generated = prompt_ids, completion_ids, masks, completions, logprobs, {}, None, []
        rewards = torch.cat([rewards for *_, rewards in chosen])
        return [problem for problem, *_ in chosen], (generated, rewards)

    def _calculate_rewards(self, *arguments: Any) -> Any:
        if self._chosen is not None:
            rewards = self._chosen[1]
            self._scores = rewards[:, 0]
            return rewards
        with self._ledger.timing("reward"):
            rewards = super()._calculate_rewards(*arguments)
        self._scores = rewards[:, 0]
        share = 1 - varied(self._scores.view(-1, self.num_generations)).float().mean()
        self._metrics["train"]["zero_variance_share"].append(share.item())
        return rewards

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [self._tokens_of[text] for text in prompts], None, {}

    def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
        if self._chosen is not None:
            return self._chosen[0]
        self._forced: list[list[int]] | None = None
        # Of interrupted rollouts: tokens read again, of the phrase, and sampled after it; and of
        # every rollout how many of its tokens came later than an interruption.
        self._continued: list[tuple[int, int, int]] = []
        self._later: list[int] = []
        with self._ledger.timing("generation"):
            generated = list(super()._generate(prompts))
        generated[2] = self._forced
        self._lengths = [(len(p), len(c)) for p, c in zip(*generated[:2], strict=True)]
        later = self._later or [0] * len(self._lengths)
        first = [(p, c - rest) for (p, c), rest in zip(self._lengths, later, strict=True)]
        self._ledger.sampled(*zip(*gather_object(first), strict=True))
        if continued := gather_object(self._continued):
            self._ledger.continued(*zip(*continued, strict=True))
        return tuple(generated)

    def _generate_single_turn(self, prompt_ids: list[list[int]], *rest: Any) -> tuple[Any, Any]:
        if not self._phrase:
            sampled: tuple[Any, Any] = super()._generate_single_turn(prompt_ids, *rest)
            return sampled
        return self._interrupted(prompt_ids, *rest)

    def _interrupted(
        self, prompt_ids: list[list[int]], images: Any, fields: Any, num_generations: int, *_: Any
    ) -> tuple[list[list[int]], Any]:
        """Forced interruption (ScaleRL, arXiv 2510.13786): a long answer is told to finish.

        Answers that have not ended are continued with the phrase and at most
        `interruption_tokens` more. The phrase bears no loss.
        """
        answer = self._spec.recipe.interruption_tokens
        first_limit = self.max_completion_length - len(self._phrase) - answer
        with self._limit(first_limit):
            first, logprobs = super()._generate_single_turn(
                prompt_ids, images, fields, num_generations
            )
        completions = [list(ids) for ids in first]
        masks = [[1] * len(ids) for ids in completions]
        self._later = [0] * len(completions)
        cut = [
            i
            for i, ids in enumerate(completions)
            if len(ids) >= first_limit and ids[-1] not in self.eos_token_ids
        ]
        if cut:
            again = [prompt_ids[i] + completions[i] + self._phrase for i in cut]
            with self._limit(answer):
                more, more_logprobs = super()._generate_single_turn(again, images, fields, 1)
            for position, i in enumerate(cut):
                completions[i] += [*self._phrase, *more[position]]
                masks[i] += [0] * len(self._phrase) + [1] * len(more[position])
                self._later[i] = len(self._phrase) + len(more[position])
                read = len(again[position])
                self._continued.append((read, len(self._phrase), len(more[position])))
                if logprobs is not None:
                    forced = [None] * len(self._phrase)
                    logprobs[i] = [*logprobs[i], *forced, *more_logprobs[position]]
        self._forced = masks
        return completions, logprobs

    @contextmanager
    def _limit(self, tokens: int) -> Iterator[None]:
        """Completions of at most `tokens` within the block, whichever backend samples."""
        target, name = (
            (self.vllm_generation, "max_completion_length")
            if self.use_vllm
            else (self.generation_config, "max_new_tokens")
        )
        before = getattr(target, name)
        setattr(target, name, tokens)
        yield
        setattr(target, name, before)
