"""A loss of one's own: what a function at `recipe.loss_type=package.module:function` is given.

The function is the whole loss, and of `recipe` only what it reads acts: TRL's clip, its KL term and
its entropy bonus are not added. It is called once a micro-batch, whose rollouts are any of an
update's, on every device; the gradients of the micro-batches are summed and those of the devices
averaged. So it returns the micro-batch's part of the update's loss: a sum over rollouts divided by
`update_rollouts`, or over tokens divided by `update_tokens`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from isosweep.config.own_function import OwnFunction
from isosweep.config.recipe import RecipeConfig, own_loss
from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError

if TYPE_CHECKING:
    from isosweep.training.microbatches import Batch
    from isosweep.training.trainer import SweepTrainer

# Before the names of the function's metrics.
LOSS_METRIC = "loss_"

# A tensor of torch, which is not imported here.
Tensor = Any


@dataclass(frozen=True, kw_only=True)
class LossInputs:
    """A micro-batch: R rollouts of at most L tokens, padded on the right; one device's part.

    Log-probabilities are in nats, at the temperature that is sampled at.
    """

    log_probs: Tensor
    """Of each token by the policy that learns (R, L); the gradient goes through it."""
    old_log_probs: Tensor
    """By the policy that the rollouts are of, as the trainer computes it (R, L); where that is the
    one that learns, `log_probs` without the gradient."""
    sampler_log_probs: Tensor | None
    """By vLLM when it sampled (R, L); None with other samplers."""
    sampler_ratio: Tensor | None
    """`old_log_probs` over `sampler_log_probs` as a ratio of probabilities, bounded by
    `recipe.importance_sampling_mode` (R, L), or (R, 1) of whole rollouts; None where
    `generation.importance_sampling_correction` is off."""
    reference_log_probs: Tensor | None
    """By the policy before training (R, L); None where `recipe.beta` is 0."""
    entropies: Tensor
    """Of the policy's choice of each token, in nats (R, L); a gradient goes through them."""
    advantages: Tensor
    """Of each rollout (R,), as `recipe` scales and weighs them; 0 where a group is left out."""
    mask: Tensor
    """1 for a token that bears loss, 0 for another and for padding (R, L)."""
    update_rollouts: int
    """Rollouts of the whole update on this device."""
    update_tokens: Tensor
    """Tokens that bear loss in an update on a device, a mean over the generation's; a scalar."""
    step: int
    """Updates made before this one."""
    recipe: RecipeConfig
    """The run's `recipe` settings."""


@dataclass(frozen=True, kw_only=True)
class LossOutputs:
    """What the function returns of a micro-batch."""

    loss: Tensor
    """Its part of the update's loss, a scalar to be differentiated."""
    metrics: Mapping[str, float | Tensor] = field(default_factory=dict)
    """Numbers by name, the same names each time: metrics.jsonl and MLflow have their plain mean
    over micro-batches and devices as `loss_NAME`."""


Loss = Callable[[LossInputs], LossOutputs]


class LossError(RuntimeError):
    """What the function raised in training, with the setting that names it."""


def load_loss(recipe: RecipeConfig, sha256: str | None) -> Loss | None:
    """The function that the recipe names, imported; None where the loss is TRL's.

    Raises SettingError where it may be somebody else's, cannot be imported, or is in a module whose
    file has another `sha256` than it was planned with. What the function raises itself is a
    LossError.
    """
    own = own_loss(recipe.loss_type)
    if own is None:
        return None
    require_own((own.setting, own.path))
    if own.source_sha256() != sha256:
        rule = f"the file of {own.module} has changed since the sweep was planned"
        raise own.refused(f"{rule}; mode=run plans new runs")
    return partial(_called, own, own.load())


def _called(own: OwnFunction, function: Callable[..., Any], inputs: LossInputs) -> LossOutputs:
    try:
        made = function(inputs)
    except Exception as error:
        after = f"{own.setting}={own.path} failed after {inputs.step} updates"
        raise LossError(f"{after}: {type(error).__name__}: {error}") from error
    if not isinstance(made, LossOutputs):
        raise own.refused(f"returned {type(made).__name__}, not LossOutputs")
    if getattr(made.loss, "ndim", None) != 0 or not made.loss.requires_grad:
        raise own.refused("its loss is no scalar tensor with a gradient")
    return made


def try_loss(config: SweepConfig) -> None:
    """Call a sweep's own loss, where it has one, with a made-up micro-batch of two rollouts.

    Raises SettingError as `load_loss` does, and where the call fails.
    """
    recipe, generation = config.recipe, config.generation
    own = own_loss(recipe.loss_type)
    loss = load_loss(recipe, config.loss_sources.get(recipe.loss_type))
    if own is None or loss is None:
        return
    import torch

    log_probs = torch.full((2, 3), -1.0, requires_grad=True)
    fixed = log_probs.detach()
    inputs = LossInputs(
        log_probs=log_probs,
        old_log_probs=fixed,
        sampler_log_probs=fixed if generation.name == "vllm" else None,
        sampler_ratio=torch.ones(2, 3) if generation.importance_sampling_correction else None,
        reference_log_probs=fixed if recipe.beta else None,
        entropies=log_probs.square(),
        advantages=torch.tensor([1.0, -1.0]),
        mask=torch.tensor([[1, 1, 1], [1, 1, 0]]),
        update_rollouts=2,
        update_tokens=torch.tensor(5.0),
        step=0,
        recipe=recipe,
    )
    try:
        made = loss(inputs)
        for number in made.metrics.values():
            float(number)
    except SettingError:
        raise
    except Exception as raised:
        error = raised.__cause__ if isinstance(raised, LossError) else raised
        rule = f"fails on a micro-batch of two rollouts: {type(error).__name__}: {error}"
        raise own.refused(rule) from None
    if not math.isfinite(made.loss.item()):
        raise own.refused(f"is {made.loss.item()} on a micro-batch of two rollouts")


def loss_of_ones_own(function: Loss, trainer: "SweepTrainer", model: Any, batch: "Batch") -> Tensor:
    """What `function` makes of the micro-batch, and a mixture's load-balancing loss."""
    import torch

    from isosweep.training.microbatches import bearing

    log_probs, entropies, aux_loss = trainer.score_tokens(
        model, batch, compute_entropy=True, compute_aux_loss=trainer.aux_loss_enabled
    )
    parts = trainer.current_gradient_accumulation_steps
    # TRL counts the tokens of a generation on all devices.
    share = parts / trainer.args.steps_per_generation / trainer.accelerator.num_processes
    reference, mask = batch.get("ref_per_token_logps"), bearing(batch)
    made = function(
        LossInputs(
            log_probs=log_probs,
            old_log_probs=batch.get("old_per_token_logps", log_probs.detach()),
            sampler_log_probs=batch.get("sampling_per_token_logps"),
            sampler_ratio=batch.get("importance_sampling_ratio"),
            reference_log_probs=reference,
            entropies=entropies,
            advantages=batch["advantages"],
            mask=mask,
            update_rollouts=len(log_probs) * parts,
            update_tokens=batch["num_items_in_batch"].clamp(min=1) * share,
            step=trainer.steps_done,
            recipe=trainer.spec.recipe,
        )
    )
    # What TRL logs under these names, whatever the loss is.
    logged = {"entropy": entropies}
    if reference is not None:
        gap = reference - log_probs
        logged["kl"] = gap.exp() - gap - 1
    for name, values in logged.items():
        sums = torch.stack([(values.detach() * mask).sum(), mask.sum()])
        total, tokens = trainer.accelerator.reduce(sums, "sum")
        trainer.log_mean(name, (total / tokens.clamp(min=1)).item())
    for name, value in made.metrics.items():
        own = torch.as_tensor(value, device=trainer.own_device).detach().view(1)
        mean = trainer.accelerator.gather(own).float().mean().item()
        trainer.log_mean(f"{LOSS_METRIC}{name}", mean)
    if aux_loss is None:
        return made.loss
    return made.loss + trainer.router_aux_loss_coef * aux_loss / parts
