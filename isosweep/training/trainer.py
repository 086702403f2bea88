"""TRL's GRPOTrainer with isosweep's order of problems, its books, and what recipes add.

What TRL calls is a small step around TRL's own: the updates and, unless the recipe names a
function, the loss are TRL's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from accelerate.utils import gather_object

from isosweep.files import JsonObject
from isosweep.plan.spec import RunSpec
from isosweep.training.beside import Beside
from isosweep.training.draws import Draws
from isosweep.training.interruption import Interruption
from isosweep.training.lag import Waiting
from isosweep.training.ledger import Ledger
from isosweep.training.loss import load_loss
from isosweep.training.microbatches import Shape, bearing
from isosweep.training.rollouts import Batch, Completions, Rollouts, Row
from isosweep.training.stream import Stream
from isosweep.training.trl_adapter import TRLTrainer
from isosweep.training.trl_callback import PART_METRICS
from isosweep.training.weights import advantage_weights, by_their_spread, varied


@dataclass(frozen=True)
class Question:
    """A training problem as the trainer sees it: what the model reads, as text and as tokens, and
    the part of a mixture that it is of."""

    text: str
    tokens: tuple[int, ...]
    part: str | None = None


class _Group(NamedTuple):
    """The n rollouts of one problem, of all processes, and their rewards (n, functions)."""

    problem: int
    rollouts: list[tuple[Any, ...]]
    rewards: Any
    teaches: bool


class _Chosen(NamedTuple):
    """What dynamic sampling chose: this process's rollouts, and the rewards of everyone's."""

    rollouts: Rollouts
    rewards: Any


class CountedGRPOTrainer(TRLTrainer):
    """A trainer that draws problems from `stream`, books in `ledger`, and follows `spec.recipe`.

    The first reward function's score says what is right; others only shape the reward. `verify` is
    told of rollouts as soon as they are sampled: numbers of problems, and texts.
    """

    def __init__(
        self,
        spec: RunSpec,
        ledger: Ledger,
        stream: Stream,
        questions: Sequence[Question],
        *,
        verify: Callable[[list[int], list[str]], None],
        **options: Any,
    ) -> None:
        self._spec, self._ledger, self._stream = spec, ledger, stream
        self.recipe, self.own_loss = spec.recipe, load_loss(spec.recipe, spec.loss_sha256)
        generation = spec.generation
        self.shares_prompts = generation.name == "transformers" and generation.prefix_sharing
        self._questions = questions
        self._tokens_of = {question.text: list(question.tokens) for question in questions}
        self._number_of = {question.text: number for number, question in enumerate(questions)}
        self._verify = verify
        self._waiting = Waiting(spec.recipe.rollout_lag)
        self._beside: Beside | None = None
        # Rollouts of the last generation that this process made or had made.
        self._count = 0
        if spec.recipe.rollout_lag:
            self.draws = Draws(spec.seed, lambda: self.steps_done)
        super().__init__(**options)
        # Rollouts and rewards that a filter chose, to be used instead of sampling and scoring.
        self._chosen: _Chosen | None = None
        # Rewards of everyone's rollouts that were scored last (rollouts, functions).
        self._rewards = torch.empty(0)
        # Tokens of prompt and completion of this process's rollouts.
        self._lengths: list[tuple[int, int]] = []
        self._interruption: Interruption | None = None
        if spec.recipe.interruption is not None:
            phrase = self.processing_class(spec.recipe.interruption, add_special_tokens=False)
            self._interruption = Interruption(
                list(phrase["input_ids"]),
                spec.recipe.interruption_tokens,
                spec.task.completion_limit,
            )

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> Any:
        """TRL's own, counted as seconds of training."""
        with self._ledger.timing("training"):
            return super().training_step(model, inputs, num_items_in_batch)

    def computed(self, phase: Literal["scoring", "training"], shapes: Sequence[Shape]) -> None:
        """Book what the micro-batches of all processes cost their devices."""
        own = torch.tensor(shapes, device=self.own_device)
        self._ledger.computed(phase, self.of_all(own).tolist())

    # A batch: which problems, sampled how, scored how, weighed how.

    def sample_beside(self, beside: Beside) -> None:
        """Have `beside` sample in place of this process."""
        beside.serve(self)
        # TRL asks this where the loss corrects for an engine's log-probabilities.
        self.use_vllm = self._spec.generation.name == "vllm"
        self._beside = beside

    def make_batch(self, count: int) -> Batch:
        """The next batch to train on, of `count` rollouts."""
        if not self.recipe.rollout_lag:
            batch = self.fresh_batch(count)
        else:
            oldest = self._waiting.oldest()
            self._count = count
            if self._beside is None:
                self._waiting.add(self.fresh_batch(count))
            else:
                self._ask(self._beside)
                if oldest is None:
                    self._take(self._beside)
            batch = self._waiting.newest if oldest is None else oldest
        self._ledger.trained(*self._all_lengths(batch))
        return batch

    def settle(self) -> None:
        """Have what another process samples wait too, once it is there, and the next begun."""
        if self._beside is None:
            return
        if self._beside.asked:
            self._take(self._beside)
        # An engine answers the evaluation first, which there may be of this step.
        if not self.use_vllm:
            self._ask(self._beside)

    def _ask(self, beside: Beside) -> None:
        if not beside.asked:
            beside.ask(self._count, self.sampling_state())

    def _take(self, beside: Beside) -> None:
        with self._ledger.timing(None):
            batch, state, metrics = beside.answer()
        self.restore_sampling(state)
        for name, values in metrics.items():
            for value in values:
                self.log_mean(name, value)
        self._waiting.add(batch)

    def fresh_batch(self, count: int) -> Batch:
        """A batch of `count` rollouts by the policy as it is."""
        with self._ledger.timing("scoring"):
            if self._spec.recipe.zero_variance == "resample":
                problems, self._chosen = self._informative(count)
            else:
                problems = self._drawn_problems()
            rows = self._rows(problems, count)
            fresh: Batch = super()._generate_and_score_completions(rows)
            if self._chosen is None:
                self._note_scores(problems)
            self._chosen = None
        if self._spec.recipe.scale_advantages:
            fresh["advantages"] = by_their_spread(fresh["advantages"], self.of_all)
        self._weigh_groups(fresh)
        fresh["lengths"] = torch.tensor(self._lengths, device=self.own_device)
        self._ledger.scored(*self._all_lengths(fresh))
        if self.recipe.rollout_lag:
            with self._ledger.timing("scoring"):
                self.remember_policy(fresh)
        return fresh

    def sampling_state(self) -> JsonObject:
        """What the next generation follows from, besides the policy and the step."""
        return {"stream": self._stream.to_json(), "spent": self._ledger.of_sampling()}

    def restore_sampling(self, state: JsonObject) -> None:
        """Go on where `sampling_state` was called, here or in another process."""
        self._stream.restore(state["stream"])
        self._ledger.restore_sampling(state["spent"])

    def save_beside(self, checkpoint: Path) -> None:
        """Write the batches that wait beside it."""
        if self.recipe.rollout_lag:
            self._waiting.save(self._waiting_file(checkpoint))

    def restore_from(self, checkpoint: Path) -> None:
        """Read back what `save_beside` wrote."""
        if self.recipe.rollout_lag:
            self._waiting.restore(self._waiting_file(checkpoint), self.own_device)

    def _waiting_file(self, checkpoint: Path) -> Path:
        return checkpoint / f"waiting-{self.process}.safetensors"

    def _all_lengths(self, batch: Batch) -> tuple[list[int], list[int]]:
        """Tokens of prompts and of completions, of all processes."""
        prompts, completions = self.of_all(batch["lengths"]).T.tolist()
        return prompts, completions

    def _rows(self, problems: Sequence[int], count: int) -> list[Row]:
        """This process's `count` rollouts of the n x B of `problems`, as TRL's dataset rows."""
        start = self.process * count
        return [
            {"prompt": self._questions[problem].text, "problem": problem}
            for problem in self._repeated(problems)[start : start + count]
        ]

    def _repeated(self, problems: Sequence[int]) -> list[int]:
        """Every problem n times, once for each of its rollouts."""
        return [problem for problem in problems for _ in range(self._spec.num_generations)]

    def _drawn_problems(self) -> list[int]:
        """The next B problems."""
        return self._stream.draw(self._spec.problems_per_batch)

    def _note_scores(self, problems: Sequence[int]) -> None:
        """Retires those of the problems just scored that are solved, and notes successes."""
        scores = self._scores.view(len(problems), -1).tolist()
        self._stream.scored(zip(problems, scores, strict=True))

    @property
    def _scores(self) -> Any:
        """Scores of the rollouts scored last: (rollouts,)."""
        return self._rewards[:, 0]

    def _varied(self) -> Any:
        """Which of the groups scored last teach something: (groups,) bool."""
        return varied(self._scores, self._spec.num_generations)

    def _weigh_groups(self, batch: Batch) -> None:
        """Puts the recipe's weights of groups and problems on the advantages."""
        recipe = self._spec.recipe
        by_problem = recipe.aggregation == "problem"
        if recipe.zero_variance == "keep" and not by_problem:
            return
        tokens = self.of_all(bearing(batch).sum(1)).float()
        kept = self._varied()
        if recipe.zero_variance == "keep":
            kept = torch.ones_like(kept)
        weights = advantage_weights(kept, tokens, recipe.loss_type, by_problem)
        self.weigh(batch, weights)

    # Dynamic sampling.

    def _informative(self, count: int) -> tuple[list[int], _Chosen]:
        """Dynamic sampling (DAPO, arXiv 2503.14476): draw until B groups have varied scores.

        After `recipe.max_draws` batches the rest is filled with groups that have not. Returns the
        problems, and what is used in place of sampling and scoring them.
        """
        wanted = self._spec.problems_per_batch
        good: list[_Group] = []
        spare: list[_Group] = []
        for _ in range(self._spec.recipe.max_draws):
            for group in self._drawn_groups(count):
                (good if group.teaches else spare).append(group)
            if len(good) >= wanted:
                break
        chosen = (good + spare)[:wanted]
        start = self.process * count
        everyones = [rollout for group in chosen for rollout in group.rollouts]
        rollouts = Rollouts.join(everyones[start : start + count])
        self._lengths = rollouts.lengths
        rewards = torch.cat([group.rewards for group in chosen])
        return [group.problem for group in chosen], _Chosen(rollouts, rewards)

    def _drawn_groups(self, count: int) -> list[_Group]:
        """The next B problems, sampled and scored, of which this process samples `count`."""
        n = self._spec.num_generations
        problems = self._drawn_problems()
        rows = self._rows(problems, count)
        rollouts = self.roll_out([row["prompt"] for row in rows])
        rewards = self.score(rows, rollouts.texts, rollouts.completion_ids)
        self._note_scores(problems)
        everyones = gather_object(rollouts.split())
        return [
            _Group(
                problem, everyones[at * n : (at + 1) * n], rewards[at * n : (at + 1) * n], teaches
            )
            for at, (problem, teaches) in enumerate(
                zip(problems, self._varied().tolist(), strict=True)
            )
        ]

    # What TRL asks for while it makes a batch.

    def _generate_and_score_completions(self, inputs: list[Any]) -> Batch:
        return self.make_batch(len(inputs))

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [self._tokens_of[text] for text in prompts], None, {}

    def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
        made = self.roll_out(prompts)
        own = made.prompt_ids, made.completion_ids, made.loss_masks, made.texts, made.logprobs
        # No further columns, and no images of prompts or of tools.
        return *own, {}, None, []

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> Completions:
        return self.sample(prompt_ids, num_generations)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Any:
        return self.score(inputs, completions, completion_ids_list)

    def roll_out(self, prompts: list[str]) -> Rollouts:
        """The prompts' rollouts; those chosen already, if the batch was resampled."""
        if self._chosen is not None:
            return self._chosen.rollouts
        if self._interruption is not None:
            self._interruption.forget()
        if self.draws is not None:
            self.draws.begin(self._places(len(prompts)))
        # An engine in this process draws torch's numbers too: training's go on as without it.
        devices = [self.own_device] if self.own_device.type == "cuda" else []
        apart = torch.random.fork_rng(devices, enabled=self.draws is not None)
        with self._ledger.timing("generation"), apart:
            ids, completions, _, texts, logprobs, *_ = super()._generate(prompts)
        self._verify([self._number_of[prompt] for prompt in prompts], texts)
        masks = None if self._interruption is None else self._interruption.masks
        rollouts = Rollouts(ids, completions, masks, texts, logprobs)
        self._lengths = rollouts.lengths
        self._book_sampled()
        return rollouts

    def _places(self, count: int) -> range:
        """Places in the generation of what is sampled here, of which `count` is this process's.

        The processes of one engine sample everything of theirs together.
        """
        processes = self._spec.generation.tensor_parallel
        start = self.process // processes * processes * count
        return range(start, start + processes * count)

    def _book_sampled(self) -> None:
        """Books the rollouts just sampled, of all processes."""
        interruption = self._interruption
        later = interruption.later if interruption else [0] * len(self._lengths)
        first = [(p, c - rest) for (p, c), rest in zip(self._lengths, later, strict=True)]
        prompts, completions = zip(*gather_object(first), strict=True)
        self._ledger.sampled(prompts, completions)
        if interruption and (continued := gather_object(interruption.continued)):
            self._ledger.continued(*zip(*continued, strict=True))

    def sample(self, prompt_ids: list[list[int]], num_generations: int) -> Completions:
        """Completions of `prompt_ids`, interrupted as the recipe asks."""
        if self._interruption is None:
            return self.trl_sample(prompt_ids, num_generations)
        return self._interruption.sample(self, prompt_ids, num_generations)

    def score(self, rows: list[Row], texts: list[str], ids: list[list[int]]) -> Any:
        """Rewards of the rollouts: (rollouts, 1)."""
        if self._chosen is not None:
            self._rewards = self._chosen.rewards
            return self._rewards
        with self._ledger.timing("reward"):
            prompts = [row["prompt"] for row in rows]
            self._rewards = super()._calculate_rewards(rows, prompts, texts, ids)
        self.log_mean("zero_variance_share", 1 - self._varied().float().mean().item())
        if self._spec.task.parts:
            self._log_parts(rows)
        return self._rewards

    def _log_parts(self, rows: list[Row]) -> None:
        """Log each part's share of the rollouts just scored, and the mean score of those."""
        asked = gather_object([self._questions[row["problem"]].part for row in rows])
        for name in self._spec.task.parts:
            own = torch.tensor([part == name for part in asked], device=self._scores.device)
            self.log_mean(f"{PART_METRICS[0]}{name}", own.float().mean().item())
            if own.any():
                self.log_mean(f"{PART_METRICS[1]}{name}", self._scores[own].mean().item())
