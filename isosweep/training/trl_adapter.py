"""What touches what TRL and transformers do not document: this file, those called trl_*, and the
overrides of trainer.py."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR
from trl.models import unwrap_model_for_generation
from trl.trainer import utils as trl_utils

from isosweep.config.recipe import RecipeConfig
from isosweep.training.arguments import ENDLESS
from isosweep.training.changed import changed, without_routing
from isosweep.training.checkpoints import CheckpointedTrainer
from isosweep.training.draws import Draws
from isosweep.training.loss import Loss, LossInputs
from isosweep.training.microbatches import (
    TOKEN_MEANS,
    Shape,
    bearing,
    repacked,
    scored,
    with_shares,
)
from isosweep.training.protocols import Policy
from isosweep.training.rollouts import Batch, Completions
from isosweep.training.sampling import Sampler
from isosweep.training.trl_callback import LOSS_METRIC, StepCallback
from isosweep.training.trl_fsdp import compute_as_replicated

if TYPE_CHECKING:
    from isosweep.training.loop import TrainingLoop


class _Placeholders:
    """In place of TRL's data loader, which only says how many rollouts each process makes.

    Which problems they are is the hook's to say. Nothing random is drawn and nothing is skipped
    at a resume.
    """

    def __init__(self, batch: int, batches: int) -> None:
        self.dataset = range(batch * batches)
        self._batch, self._batches = batch, batches

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self._batches):
            yield [0] * self._batch


class TRLTrainer(CheckpointedTrainer):
    """TRL's GRPOTrainer, taken apart into hooks: the loss and the updates stay TRL's."""

    lr_scheduler: Any
    _buffered_inputs: Any
    # A loss of one's own in the place of TRL's.
    own_loss: Loss | None = None
    recipe: RecipeConfig
    # What rollouts are drawn by; None where by torch's numbers, or by an engine's.
    draws: Draws | None = None
    # The prompt of n rollouts is read once, by transformers as it samples.
    shares_prompts: bool = False

    # Hooks: what a subclass does where this class asks.
    settle: Callable[[], None]
    """Called when an update was made: what was to be ready by then is waited for."""
    computed: Callable[[Literal["scoring", "training"], Sequence[Shape]], None]
    """Told of the micro-batches that this process computes with."""

    def trl_sample(self, prompt_ids: list[list[int]], num_generations: int) -> Completions:
        """Completions of `prompt_ids` by TRL's engine, or by transformers; one turn each."""
        if self.use_vllm:
            sampled: Completions = super()._generate_single_turn(
                prompt_ids, None, {}, num_generations
            )
            return sampled
        numbers = None
        if self.draws is not None:
            numbers = np.array(self.draws.seeds(), dtype=np.uint64)
        with without_routing(self.model.config), self.whole_policy() as policy:
            return self._sampler.sample(policy, prompt_ids, numbers), None

    @property
    def _sampler(self) -> Sampler:
        config = self.generation_config
        return Sampler(
            limit=config.max_new_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            ends=config.eos_token_id,
            padding=config.pad_token_id,
            shared=self.shares_prompts,
        )

    # Overrides: TRL calls them.

    def get_train_dataloader(self) -> Any:
        """Placeholders without end: the stream of problems says what a batch is."""
        batch = self._train_batch_size * self.args.steps_per_generation
        return _Placeholders(batch, ENDLESS * self.args.gradient_accumulation_steps)

    def create_accelerator_and_postprocess(self) -> None:
        """TRL's own, whose devices compute what one does."""
        super().create_accelerator_and_postprocess()
        if self.is_fsdp_enabled:
            compute_as_replicated(self.accelerator)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Constant after warm-up, whose first update has a rate: transformers' own gives it 0.

        How long the run will be does not matter, so a larger budget changes no step before it.
        """
        if self.lr_scheduler is None:
            steps: int = max(self.args.warmup_steps, 1)

            def share(done: int) -> float:
                return min(1.0, (done + 1) / steps)

            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, share)
        return self.lr_scheduler

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        """TRL's own, whose micro-batches are packed anew when a generation is made."""
        before = self._buffered_inputs
        inputs: Batch = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is not before:
            inputs = self._pack()
        return inputs

    def _pack(self) -> Batch:
        """Pack the micro-batches of a new generation anew; the one whose turn it is."""
        steps = self.args.steps_per_generation
        # Micro-batches in succession that are sure to be of one update.
        update = math.gcd(steps, self.args.gradient_accumulation_steps)
        # A load-balancing loss is of a micro-batch as a whole.
        made, shapes = repacked(self._buffered_inputs, update, reorder=not self.aux_loss_enabled)
        self.computed("training", shapes)
        self._buffered_inputs[:] = with_shares(made, update, self.of_all)
        packed: Batch = self._buffered_inputs[self._step % steps]
        return packed

    def _compute_loss(self, model: Any, inputs: Batch) -> Any:
        """TRL's own, or that of the recipe's function; means over tokens are an update's."""
        if self.own_loss is None:
            bonus = self.entropy_coef * inputs.get("entropy_share", 1.0)
            with changed(self, entropy_coef=bonus):
                loss = super()._compute_loss(model, inputs)
        else:
            loss = self._loss_of_ones_own(self.own_loss, model, inputs)
        for name in TOKEN_MEANS:
            if name in self._metrics["train"]:
                self._metrics["train"][name][-1] *= inputs.get("token_share", 1.0)
        return loss

    def _loss_of_ones_own(self, function: Loss, model: Any, inputs: Batch) -> Any:
        """What `function` makes of the micro-batch, and a mixture's load-balancing loss."""
        log_probs, entropies, aux_loss = self._score(
            model, inputs, compute_entropy=True, compute_aux_loss=self.aux_loss_enabled
        )
        parts = self.current_gradient_accumulation_steps
        # TRL counts the tokens of a generation on all devices.
        share = parts / self.args.steps_per_generation / self.accelerator.num_processes
        given = LossInputs(
            log_probs=log_probs,
            old_log_probs=inputs.get("old_per_token_logps", log_probs.detach()),
            sampler_log_probs=inputs.get("sampling_per_token_logps"),
            sampler_ratio=inputs.get("importance_sampling_ratio"),
            reference_log_probs=inputs.get("ref_per_token_logps"),
            entropies=entropies,
            advantages=inputs["advantages"],
            mask=bearing(inputs),
            update_rollouts=len(log_probs) * parts,
            update_tokens=inputs["num_items_in_batch"].clamp(min=1) * share,
            step=self.steps_done,
            recipe=self.recipe,
        )
        made = function(given)
        self._log_own_loss(given, made.metrics)
        if aux_loss is None:
            return made.loss
        return made.loss + self.router_aux_loss_coef * aux_loss / parts

    def _log_own_loss(self, given: LossInputs, metrics: Mapping[str, Any]) -> None:
        """Log what TRL logs of any loss, and `metrics`, which are the function's."""
        token_means = {"entropy": given.entropies}
        if given.reference_log_probs is not None:
            gap = given.reference_log_probs - given.log_probs
            token_means["kl"] = gap.exp() - gap - 1
        for name, values in token_means.items():
            sums = torch.stack([(values.detach() * given.mask).sum(), given.mask.sum()])
            total, tokens = self.accelerator.reduce(sums, "sum")
            self.log_mean(name, (total / tokens.clamp(min=1)).item())
        for name, value in metrics.items():
            everyones = self.of_all(torch.as_tensor(value, device=self.own_device).detach().view(1))
            self.log_mean(f"{LOSS_METRIC}{name}", everyones.float().mean().item())

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **more: Any,
    ) -> tuple[Any, Any, Any]:
        """TRL's own; where it is asked to take `batch_size` rollouts at once, ordered and cut."""
        given = (input_ids, attention_mask, logits_to_keep)
        trls = super()._get_per_token_logps_and_entropies

        def plain(ids: Any, mask: Any, width: int, **asked: Any) -> tuple[Any, Any, Any]:
            result: tuple[Any, Any, Any] = trls(model, ids, mask, width, **more, **asked)
            return result

        with changed(
            trl_utils,
            _CHUNKED_LOGPROB_CHUNK_SIZE=self._words,
            # On a CPU too the head scores only tokens that bear loss, not those of prompts.
            _use_triton=lambda device: True,
        ):
            if batch_size is None or compute_entropy:
                return plain(*given, batch_size=batch_size, compute_entropy=compute_entropy)
            logs, shapes = scored(plain, *given, batch_size)
        self.computed("scoring", shapes)
        return logs, None, None

    @property
    def _words(self) -> int:
        """Logits that are reserved for a token. TRL's 32,768 on a CPU would touch a page of memory
        a token where the model's head tells fewer words apart."""
        reserved: int = trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE
        if self.accelerator.device.type != "cpu":
            return reserved
        named = int(self.model.config.get_text_config().vocab_size)
        return min(reserved, max(named, len(self.model.get_output_embeddings().weight)))

    # Names for what TRL's attributes say.

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

    def of_all(self, tensor: Any) -> Any:
        """The rows of every process's `tensor`, in order of processes."""
        return self.accelerator.gather(tensor)

    def log_mean(self, name: str, value: float) -> None:
        """Add to what the next log gives the mean of as `name`."""
        self._metrics["train"][name].append(value)

    def unlogged(self) -> dict[str, list[float]]:
        """What the next log would have given the means of, which it no longer does."""
        noted = {
            name: [float(value) for value in values]
            for name, values in self._metrics["train"].items()
        }
        self._metrics["train"].clear()
        return noted

    # A batch's tensors.

    def weigh(self, batch: Batch, weights: Any) -> None:
        """Multiply advantages by this process's part of `weights` (n x B)."""
        count = len(batch["advantages"])
        own = weights[self.process * count : (self.process + 1) * count]
        batch["advantages"] = batch["advantages"] * own

    def remember_policy(self, batch: Batch) -> None:
        """Put today's log-probabilities into a batch that has none: it will be trained on later."""
        if "old_per_token_logps" not in batch:
            batch["old_per_token_logps"] = self.log_probabilities(batch)

    def log_probabilities(self, batch: Batch) -> Any:
        """Of every completion token, by the policy as it is: (rollouts, tokens)."""
        size = self.args.per_device_train_batch_size
        with torch.no_grad():
            return self._score(self.model, batch, batch_size=size)[0]

    def _score(self, model: Any, batch: Batch, **asked: Any) -> tuple[Any, Any, Any]:
        """Log-probabilities of the completions' tokens by `model`, and what else is `asked`."""
        scored: tuple[Any, Any, Any] = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
            **asked,
        )
        return scored

    # The policy and its backends.

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

    def follow(self, loop: "TrainingLoop") -> None:
        """Let `loop` decide what comes of every step."""
        self.add_callback(StepCallback(loop, self.settle))

    def be_at(self, step: int) -> None:
        """Sample as a trainer that has made `step` updates."""
        self.state.global_step = step

    def sample_only(self) -> None:
        """Compute log-probabilities in the precision of training, which is never begun."""
        self.accelerator.prepare_model(self.model, evaluation_mode=True)
        self.model.train()
