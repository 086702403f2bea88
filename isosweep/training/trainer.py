"""TRL's GRPOTrainer with isosweep's books and its order of problems, and what recipes add to it.

Every override is a small step around `super()`: the updates and, unless the recipe names a
function, the loss are TRL's.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch.optim.lr_scheduler import LambdaLR
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation
from trl.rewards import get_soft_overlong_punishment
from trl.trainer import utils as trl_utils

from isosweep.plan.spec import RunSpec
from isosweep.store.completions import MOST_ROLLOUTS, AnsweredProblem, Completion
from isosweep.tasks import Judged, Problem, judge_later
from isosweep.tasks.problem import PartProblem
from isosweep.training.changed import changed, without_routing
from isosweep.training.checkpoints import checkpoint_directory, writing
from isosweep.training.evaluate import answered, completion
from isosweep.training.interruption import Interruption
from isosweep.training.lag import RolloutQueue
from isosweep.training.ledger import Ledger
from isosweep.training.loss import load_loss, loss_of_ones_own
from isosweep.training.microbatches import (
    TOKEN_MEANS,
    Batch,
    bearing,
    repacked,
    scored,
    with_shares,
)
from isosweep.training.sampling import Completions, Policy, Sampler
from isosweep.training.seeds import RunSeeds
from isosweep.training.stream import make_stream
from isosweep.training.trl_fsdp import compute_as_replicated
from isosweep.training.weights import advantage_weights, by_their_spread, varied

# A rollout as TRL's data set would give it: `prompt`, and the columns that rewards are given.
Row = dict[str, Any]
# Metrics of a part of a mixture: its share of the rollouts, and their mean score.
PART_METRICS = ("share_of_", "reward_of_")
# What a batch says of each rollout that is kept.
_KEPT = ("completion_ids", "lengths", "problem", "score", "advantages")


class SweepTrainer(GRPOTrainer):  # type: ignore[misc]
    """Trains one run: it draws from `stream`, books in `ledger`, and follows `spec.recipe`.

    The first reward function's score says what is right; others only shape the reward.
    """

    def __init__(
        self,
        spec: RunSpec,
        problems: Sequence[Problem],
        prompts: Sequence[list[int]],
        *,
        generates: bool = False,
        **options: Any,
    ) -> None:
        """`problems` to train on, and the tokens of their `prompts`; `generates`: for the process
        that samples beside the one that trains."""
        recipe = spec.recipe
        self.spec, self.problems, self.prompts = spec, problems, prompts
        self.ledger, self.stream = Ledger(spec, generates=generates), make_stream(spec)
        self.own_loss = load_loss(recipe, spec.loss_sha256)
        # Of the last generation: numbers of everyone's problems, this process's scores once judged,
        # everyone's rewards (rollouts, functions), and tokens of prompt and completion of this
        # process's rollouts.
        self._drawn: list[int] = []
        self._judged: Callable[[], list[Judged]]
        self._rewards = torch.empty(0)
        self._lengths: list[tuple[int, int]] = []
        # What the newest update was made with.
        self._latest: Batch = {}
        # Rollouts, as `_generate` gives them, and rewards that dynamic sampling chose.
        self._chosen: tuple[tuple[Any, ...], Any] | None = None
        rewards: list[Callable[..., list[float]]] = [self.correctness]
        if recipe.overlong_share is not None:
            limit = spec.task.completion_limit
            penalised = max(1, round(recipe.overlong_share * limit))
            rewards.append(get_soft_overlong_punishment(limit, penalised))
        super().__init__(reward_funcs=rewards, **options)
        self._interruption = None
        if recipe.interruption is not None:
            self._interruption = Interruption(spec, self.processing_class)
        self.queue = RolloutQueue(self)
        self.seeds = RunSeeds(spec, self.process, lambda: self.steps_done)

    def correctness(self, **_: Any) -> list[float]:
        """The task's scores of the rollouts sampled last, in order: a reward function of TRL's."""
        return [each.score for each in self._judged()]

    # A batch: which problems, sampled how, scored how, weighed how.

    def _generate_and_score_completions(self, inputs: list[Any]) -> Batch:
        """In place of TRL's, which would sample `inputs`: the batch whose turn it is."""
        return self.make_batch(len(inputs))

    def make_batch(self, count: int) -> Batch:
        """The next batch to train on, of `count` rollouts."""
        batch = self.queue.next_batch(count)
        self.ledger.trained(*self._all_lengths(batch))
        self._latest = {name: batch[name][:MOST_ROLLOUTS].clone().cpu() for name in _KEPT}
        return batch

    def latest_rollouts(self) -> tuple[AnsweredProblem, ...]:
        """Return the first few rollouts of this process that the newest update was made with, by
        problem; none before the first."""
        found: dict[int, list[Completion]] = {}
        batch = [values.tolist() for values in self._latest.values()]
        for ids, (_, tokens), at, score, advantage in zip(*batch, strict=True):
            text = self.processing_class.decode(ids[:tokens], skip_special_tokens=True)
            made = completion(
                self.spec.task,
                self.problems[at],
                (text, ids[:tokens]),
                self.eos_token_ids,
                Judged(score),
            )
            weighed = advantage if math.isfinite(advantage) else None
            found.setdefault(at, []).append(replace(made, advantage=weighed))
        return tuple(answered(self.problems[at], made) for at, made in found.items())

    def fresh_batch(self, count: int) -> Batch:
        """A batch of `count` rollouts by the policy as it is: TRL's own, weighed and booked."""
        recipe, score = self.spec.recipe, super()._generate_and_score_completions
        with self.ledger.timing("scoring"):
            draw = self._varied_rows if recipe.zero_variance == "resample" else self._draw
            rows = draw(count)
            fresh: Batch = score(rows)
            self._chosen = None
        if recipe.scale_advantages:
            fresh["advantages"] = by_their_spread(fresh["advantages"], self.accelerator.gather)
        self._weigh_groups(fresh)
        fresh["lengths"] = torch.tensor(self._lengths, device=self.own_device)
        fresh["problem"] = torch.tensor([row["problem"] for row in rows], device=self.own_device)
        fresh["score"] = self._rewards[self.process * count :][:count, 0]
        self.ledger.scored(*self._all_lengths(fresh))
        if recipe.rollout_lag and "old_per_token_logps" not in fresh:
            # It will be trained on later, by another policy.
            with self.ledger.timing("scoring"):
                fresh["old_per_token_logps"] = self.log_probabilities(fresh)
        return fresh

    def _draw(self, count: int) -> list[Row]:
        """Draw the next B problems: this process's `count` of their rollouts."""
        self._drawn = self.stream.draw(self.spec.problems_per_batch)
        return self._rows(self._drawn, count)

    def _rows(self, problems: Sequence[int], count: int) -> list[Row]:
        everyones = [problem for problem in problems for _ in range(self.spec.num_generations)]
        start = self.process * count
        return [
            {"prompt": str(problem), "problem": problem}
            for problem in everyones[start : start + count]
        ]

    def _varied_rows(self, count: int) -> list[Row]:
        """Dynamic sampling (DAPO, arXiv 2503.14476): draw until B groups have varied scores.

        After `recipe.max_draws` batches the rest is filled with groups that have not. Their
        rollouts and rewards are used in place of sampling and scoring the rows again.
        """
        n, wanted = self.spec.num_generations, self.spec.problems_per_batch
        good: list[tuple[int, list[Any], Any]] = []
        spare: list[tuple[int, list[Any], Any]] = []
        made: tuple[Any, ...] = ()
        for _ in range(self.spec.recipe.max_draws):
            rows = self._draw(count)
            made = self._generate([row["prompt"] for row in rows])
            rewards = self._calculate_rewards(rows, None, made[3], made[1])
            # Ids of prompt and completion, mask of the loss, text, log-probabilities.
            columns = [column or [None] * count for column in made[:5]]
            everyones = gather_object(list(zip(*columns, strict=True)))
            for at, teaches in enumerate(self._varied().tolist()):
                group = slice(at * n, (at + 1) * n)
                kept = good if teaches else spare
                kept.append((self._drawn[at], everyones[group], rewards[group]))
            if len(good) >= wanted:
                break
        problems, groups, scores = zip(*(good + spare)[:wanted], strict=True)
        start = self.process * count
        own = [rollout for group in groups for rollout in group][start : start + count]
        chosen = [None if column[0] is None else [*column] for column in zip(*own, strict=True)]
        self._lengths = [(len(prompt), len(completion)) for prompt, completion, *_ in own]
        self._chosen = (*chosen, *made[5:]), torch.cat(scores)
        return self._rows(problems, count)

    def _varied(self) -> Any:
        """Which of the groups scored last teach something: (groups,) bool."""
        return varied(self._rewards[:, 0], self.spec.num_generations)

    def _weigh_groups(self, batch: Batch) -> None:
        """Puts the recipe's weights of groups and problems on the advantages."""
        recipe, count = self.spec.recipe, len(batch["advantages"])
        tokens = self.accelerator.gather(bearing(batch).sum(1)).float()
        kept = self._varied() | (recipe.zero_variance == "keep")
        by_problem = recipe.aggregation == "problem"
        weights = advantage_weights(kept, tokens, recipe.loss_type, by_problem)
        batch["advantages"] *= weights[self.process * count :][:count]

    def _all_lengths(self, batch: Batch) -> tuple[list[int], list[int]]:
        """Tokens of prompts and of completions, of all processes."""
        prompts, completions = self.accelerator.gather(batch["lengths"]).T.tolist()
        return prompts, completions

    # Sampling and scoring.

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """In place of TRL's: a prompt is the number of a problem, whose tokens are known."""
        return [self.prompts[int(prompt)] for prompt in prompts], None, {}

    def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
        """TRL's own, booked and about to be judged; or what dynamic sampling chose."""
        if self._chosen is not None:
            return self._chosen[0]
        self.seeds.begin(len(prompts))
        # An engine in this process draws torch's numbers too: training's go on as without it.
        devices = [self.own_device] if self.own_device.type == "cuda" else []
        apart = torch.random.fork_rng(devices, enabled=self.seeds.lagged)
        with self.ledger.timing("generation"), apart:
            ids, completions, mask, texts, *more = super()._generate(prompts)
        asked = [self.problems[int(prompt)] for prompt in prompts]
        self._judged = judge_later(self.spec.task, asked, texts)
        self._lengths = [(len(p), len(c)) for p, c in zip(ids, completions, strict=True)]
        self._book_sampled()
        if self._interruption is not None:
            mask = self._interruption.masks
        return ids, completions, mask, texts, *more

    def _book_sampled(self) -> None:
        """Books the rollouts just sampled, of all processes."""
        continued = self._interruption.continued if self._interruption else {}
        own = [
            (prompt, completion - sum(continued[at][1:] if at in continued else ()))
            for at, (prompt, completion) in enumerate(self._lengths)
        ]
        self.ledger.sampled(*zip(*gather_object(own), strict=True))
        if everyones := self._interruption and gather_object([*continued.values()]):
            self.ledger.continued(*zip(*everyones, strict=True))

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], images: Any, fields: Any, n: int, *_: Any
    ) -> Completions:
        """In place of TRL's: sampled by `sample`, and interrupted where the recipe says so."""
        if self._interruption is not None:
            return self._interruption.sample(self, prompt_ids, n)
        return self.sample(prompt_ids, n)

    def sample(self, prompt_ids: list[list[int]], num_generations: int) -> Completions:
        """Completions of `prompt_ids` by TRL's engine, or by transformers; one turn each."""
        if self.use_vllm:
            sampled: Completions = super()._generate_single_turn(
                prompt_ids, None, {}, num_generations
            )
            return sampled
        config, generation = self.generation_config, self.spec.generation
        sampler = Sampler(
            limit=config.max_new_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            ends=config.eos_token_id,
            padding=config.pad_token_id,
            shared=generation.name == "transformers" and generation.prefix_sharing,
        )
        with without_routing(self.model.config), self.whole_policy() as policy:
            seeds = np.array(self.seeds.of_rollouts(), np.uint64) if self.seeds.lagged else None
            return sampler.sample(policy, prompt_ids, seeds), None

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        """Everyone's rewards (rollouts, functions): TRL's own, or what dynamic sampling chose."""
        if self._chosen is not None:
            self._rewards = self._chosen[1]
            return self._rewards
        with self.ledger.timing("reward"):
            prompts = [row["prompt"] for row in inputs]
            self._rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        scores = self._rewards[:, 0]
        self.stream.scored(
            zip(self._drawn, scores.view(len(self._drawn), -1).tolist(), strict=True)
        )
        self.log_mean("zero_variance_share", 1 - self._varied().float().mean().item())
        if self.spec.task.parts:
            self._log_parts(scores)
        return self._rewards

    def _log_parts(self, scores: Any) -> None:
        """Log each part's share of the rollouts just scored, and the mean score of those."""
        drawn = [self.problems[number] for number in self._drawn]
        parts = [each.part for each in drawn if isinstance(each, PartProblem)]
        groups = scores.view(len(parts), -1)
        for name in self.spec.task.parts:
            own = [at for at, part in enumerate(parts) if part == name]
            self.log_mean(f"{PART_METRICS[0]}{name}", len(own) / len(parts))
            if own:
                self.log_mean(f"{PART_METRICS[1]}{name}", groups[own].mean().item())

    # A step: its micro-batches, their log-probabilities, their loss.

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> Any:
        """TRL's own, counted as seconds of training."""
        with self.ledger.timing("training"):
            return super().training_step(model, inputs, num_items_in_batch)

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        """TRL's own, whose micro-batches are packed anew when a generation is made."""
        before = self._buffered_inputs
        inputs: Batch = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is before:
            return inputs
        steps = self.args.steps_per_generation
        # Micro-batches in succession that are sure to be of one update.
        update = math.gcd(steps, self.args.gradient_accumulation_steps)
        # A load-balancing loss is of a micro-batch as a whole.
        made, shapes = repacked(self._buffered_inputs, update, reorder=not self.aux_loss_enabled)
        self._book_computed("training", shapes)
        self._buffered_inputs[:] = with_shares(made, update, self.accelerator.gather)
        packed: Batch = self._buffered_inputs[self._step % steps]
        return packed

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **more: Any,
    ) -> Any:
        """TRL's own; where it is asked to take `batch_size` rollouts at once, ordered and cut."""
        given = (input_ids, attention_mask, logits_to_keep)
        score = partial(super()._get_per_token_logps_and_entropies, model, **more)
        with changed(
            trl_utils,
            _CHUNKED_LOGPROB_CHUNK_SIZE=self._logits_per_token,
            # On a CPU too the head scores only tokens that bear loss, not those of prompts.
            _use_triton=lambda device: True,
        ):
            if batch_size is None or compute_entropy:
                return score(*given, batch_size=batch_size, compute_entropy=compute_entropy)
            logs, shapes = scored(score, *given, batch_size)
        self._book_computed("scoring", shapes)
        return logs, None, None

    @property
    def _logits_per_token(self) -> int:
        """Logits that the head reserves for a token: on a CPU no more than it has, as planned."""
        reserved: int = trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE
        if self.own_device.type != "cpu":
            return reserved
        named = int(self.model.config.get_text_config().vocab_size)
        return min(reserved, max(named, len(self.model.get_output_embeddings().weight)))

    def log_probabilities(self, batch: Batch) -> Any:
        """Of every completion token, by the policy as it is: (rollouts, tokens)."""
        size = self.args.per_device_train_batch_size
        with torch.no_grad():
            return self.score_tokens(self.model, batch, batch_size=size)[0]

    def score_tokens(self, model: Any, batch: Batch, **asked: Any) -> Any:
        """Log-probabilities of the completions' tokens by `model`, and what else is `asked`."""
        return self._get_per_token_logps_and_entropies(
            model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
            **asked,
        )

    def _book_computed(self, phase: Any, shapes: Any) -> None:
        """Book what the micro-batches of all processes cost their devices."""
        own = torch.tensor(shapes, device=self.own_device)
        self.ledger.computed(phase, self.accelerator.gather(own).tolist())

    def _compute_loss(self, model: Any, inputs: Batch) -> Any:
        """TRL's own, or that of the recipe's function; means over tokens are an update's."""
        if self.own_loss is None:
            bonus = self.entropy_coef * inputs.get("entropy_share", 1.0)
            with changed(self, entropy_coef=bonus):
                loss = super()._compute_loss(model, inputs)
        else:
            loss = loss_of_ones_own(self.own_loss, self, model, inputs)
        for name in TOKEN_MEANS:
            if name in self._metrics["train"]:
                self._metrics["train"][name][-1] *= inputs.get("token_share", 1.0)
        return loss

    def log_mean(self, name: str, *values: float) -> None:
        """Add to what the next log gives the mean of as `name`."""
        self._metrics["train"][name] += values

    def take_metrics(self) -> dict[str, list[float]]:
        """What the next log would have given the means of, which it no longer does."""
        taken = {name: [*map(float, own)] for name, own in self._metrics["train"].items()}
        self._metrics["train"].clear()
        return taken

    # How transformers trains.

    def get_train_dataloader(self) -> Any:
        """In place of TRL's: how many rollouts each process makes; which, the stream says.

        Nothing random is drawn, and nothing is skipped at a resume.
        """
        return repeat([0] * self._train_batch_size * self.args.steps_per_generation)

    def create_accelerator_and_postprocess(self) -> None:
        """TRL's own, whose devices compute what one does."""
        super().create_accelerator_and_postprocess()
        if self.is_fsdp_enabled:
            compute_as_replicated(self.accelerator)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Constant after warm-up, whose first update has a rate: transformers' own gives it 0.

        How long the run will be does not matter, so a larger budget changes no step before it.
        """
        steps = max(self.args.warmup_steps, 1)
        self.lr_scheduler = LambdaLR(
            optimizer or self.optimizer, lambda done: min(1.0, (done + 1) / steps)
        )
        return self.lr_scheduler

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """TRL's own, with the rollouts that wait."""
        directory = checkpoint_directory(self.args, self.state)
        with writing(directory):
            super()._save_checkpoint(model, trial)
            self.queue.save(directory)

    # The policy and its backends.

    @property
    def steps_done(self) -> int:
        """Optimiser steps of the run."""
        return int(self.state.global_step)

    @property
    def process(self) -> int:
        """This process's number."""
        return int(self.accelerator.process_index)

    @property
    def own_device(self) -> Any:
        """This process's device."""
        return self.accelerator.device

    @contextmanager
    def whole_policy(self) -> Iterator[Policy]:
        """The policy with all its weights on every process, to sample from or to look at.

        Where an engine samples each process keeps its part: looked at, it is gathered in passing.
        """
        if self.use_vllm or not self.is_fsdp_enabled:
            yield self.model
            return
        with (
            unwrap_model_for_generation(self.model_wrapped, self.accelerator) as policy,
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            yield policy

    def limited(self, tokens: int) -> AbstractContextManager[None]:
        """Completions of at most `tokens` within the block, whichever backend samples."""
        if self.use_vllm:
            return changed(self.vllm_generation, max_completion_length=tokens)
        return changed(self.generation_config, max_new_tokens=tokens)
