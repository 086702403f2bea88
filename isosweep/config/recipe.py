"""How a GRPO step is taken."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt
from pydantic import AfterValidator

from isosweep.config.identity import ADDED, OUTSIDE, Identity
from isosweep.config.own_function import OwnFunction, import_path
from isosweep.config.settings import settings
from isosweep.config.values import (
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Share,
    Whole,
)
from isosweep.errors import SettingError

# TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
TRL_LOSSES = ("grpo", "dr_grpo", "dapo", "cispo")
LearningRateRule = Literal["sqrt", "constant", "linear"]
ImportanceSamplingMode = Literal[
    "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
]


Decay = Annotated[float, Ge(0), Lt(1)]


def _loss(name: str) -> str:
    if ":" in name or "." in name:
        return import_path(name)
    if name not in TRL_LOSSES:
        raise ValueError(f"must be one of {', '.join(TRL_LOSSES)}, or package.module:function")
    return name


def own_loss(loss_type: str) -> OwnFunction | None:
    """The function of one's own that `recipe.loss_type` names; None where the loss is TRL's."""
    return OwnFunction(setting="recipe.loss_type", path=loss_type) if ":" in loss_type else None


@dataclass(frozen=True)
class ForTRL:
    """Marks a setting that TRL takes as it is; `name`: what TRL calls it, where not the same."""

    name: str | None = None


_TRL = ForTRL()
_CORRECTED = Identity(when=lambda run: run.generation.importance_sampling_correction)
_PENALISED = Identity(when=lambda run: run.recipe.beta != 0)
_RESAMPLED = Identity(when=lambda run: run.recipe.zero_variance == "resample")
_INTERRUPTED = Identity(when=lambda run: run.recipe.interruption is not None)
_RETIRING = Identity(when=lambda run: run.recipe.retire_at is not None)


@settings("recipe")
class RecipeConfig:
    """How a GRPO step is taken; names are TRL's. The learning rate is constant after warm-up.

    Rules for the learning rate and the micro-batch are outside a run's identity: it has the values
    that they come to.
    """

    name: Annotated[str, OUTSIDE]
    """Name of the recipe, in tables."""
    loss_type: Annotated[str, AfterValidator(_loss)]
    """How the losses of tokens are averaged: grpo, dr_grpo, dapo or cispo; or a loss of your own,
    package.module:function (docs/recipes.md)."""
    beta: Annotated[NonNegative, _TRL]
    """Weight of the KL term; 0: no reference model."""
    use_bias_correction_kl: Annotated[bool, _TRL, _PENALISED] = False
    """Weigh the KL term by the probability ratio (arXiv 2512.02556)."""
    entropy_coef: Annotated[NonNegative, _TRL] = 0.0
    """Weight of the entropy bonus."""
    epsilon: Annotated[NonNegative, _TRL]
    """Clipping of the probability ratio, below 1 - `epsilon`."""
    epsilon_high: Annotated[NonNegative, _TRL]
    """Clipping of the probability ratio, above 1 + `epsilon_high`."""
    scale_rewards: Annotated[Literal["group", "batch", "none"], _TRL]
    """What the rewards' spread is taken over that advantages are divided by."""
    scale_advantages: Annotated[bool, ADDED] = False
    """Advantages are divided by their own standard deviation over the batch (ScaleRL, arXiv
    2510.13786, section 4), where `scale_rewards=none`."""
    reward_scale: Annotated[Positive, ADDED] = 1.0
    """Reward of a right answer above that of a wrong one: 1 where they are 1 and 0, 2 where they
    are 1 and -1. Each problem's mean is taken off, so nothing but the difference acts."""
    importance_sampling_level: Annotated[Literal["token", "sequence"], _TRL] = "token"
    """What has a probability ratio: each token, or the completion (GSPO)."""
    importance_sampling_mode: Annotated[
        ImportanceSamplingMode, ForTRL("vllm_importance_sampling_mode"), _CORRECTED
    ] = "token_truncate"
    """How the sampler's probabilities are corrected for, where
    `generation.importance_sampling_correction` is on."""
    importance_sampling_cap: Annotated[
        Positive, ForTRL("vllm_importance_sampling_clip_max"), _CORRECTED
    ] = 2.0
    """Largest ratio of learner's to sampler's probability in that correction."""
    aggregation: Literal["loss", "problem"] = "loss"
    """`loss` is TRL's own of this `loss_type`; `problem` gives every problem the same weight."""
    zero_variance: Literal["keep", "drop", "resample"] = "keep"
    """Groups whose rollouts are all right or all wrong: kept, left out of the loss (ScaleRL, arXiv
    2510.13786), or replaced by new problems (DAPO's dynamic sampling, arXiv 2503.14476)."""
    max_draws: Annotated[PositiveInt, _RESAMPLED] = 1
    """Batches a step that `zero_variance=resample` samples, at most."""
    planned_draws: Annotated[float, OUTSIDE] = 1.0
    """Batches a step that the planner counts on, a mean."""
    retire_at: Share | None = None
    """Success rate at which a problem is never drawn again; null: none is retired."""
    retire_window: Annotated[PositiveInt, _RETIRING] = 64
    """Rollouts of a problem that this rate is taken over, whatever n; then the next as many."""
    overlong_share: Share | None = None
    """Last share of the length allowed that is penalised (DAPO); null: none."""
    mask_truncated_completions: Annotated[bool, _TRL] = False
    """Completions that were cut off are left out of the loss."""
    interruption: str | None = None
    """Text that answers are sent near the limit; null: they are cut off."""
    interruption_tokens: Annotated[Whole, _INTERRUPTED] = 0
    """Tokens that an interrupted answer gets to finish."""
    cast_lm_head_to_fp32: Annotated[bool, _TRL] = False
    """Logits are computed in float32."""
    learning_rate: Annotated[Positive, OUTSIDE]
    """Learning rate at `reference_completions` completions a step."""
    learning_rate_rule: Annotated[LearningRateRule, OUTSIDE]
    """How it is scaled to an update's completions, n x B / `mini_batches`: `sqrt` (IsoCompute
    Playbook, arXiv 2603.12151), `constant` or `linear`."""
    reference_completions: Annotated[PositiveInt, OUTSIDE]
    """Completions of an update at which `learning_rate` applies as it is."""
    max_completions_per_step: Annotated[PositiveInt, OUTSIDE] = 65536
    """n x B up to which the recipe was studied; `grid=joint` goes no further."""
    warmup_steps: Annotated[NonNegativeInt, _TRL]
    """Updates over which the learning rate rises: update k of them is made with k / `warmup_steps`
    of it, k from 1."""
    temperature: Annotated[Positive, _TRL]
    """Sampling temperature of rollouts."""
    top_p: Annotated[Share, _TRL]
    """Probability mass that rollouts are sampled from. Below 1 the ratio of
    `generation.importance_sampling_correction` would be biased, which is refused."""
    max_grad_norm: Annotated[Positive, _TRL]
    """Norm that gradients are clipped to."""
    weight_decay: Annotated[NonNegative, _TRL]
    """AdamW's weight decay."""
    adam_beta1: Annotated[Decay, _TRL, ADDED] = 0.9
    """AdamW's decay of the gradients' mean."""
    adam_beta2: Annotated[Decay, _TRL]
    """AdamW's decay of the squared gradients' mean."""
    adam_epsilon: Annotated[Positive, _TRL, ADDED] = 1e-8
    """What AdamW adds to the root of that mean."""
    micro_batch: Annotated[PositiveInt | None, OUTSIDE]
    """Completions per device and forward pass; null: the most that divides n x B / devices, fits
    the memory, and does not pass `max_micro_batch`."""
    max_micro_batch: Annotated[PositiveInt, OUTSIDE]
    """Largest micro-batch that is chosen."""
    num_iterations: Annotated[PositiveInt, _TRL] = 1
    """Updates made with each rollout."""
    mini_batches: Annotated[PositiveInt, ADDED] = 1
    """Parts of equal size that a generation is cut into; each makes an update of its own."""
    rollout_lag: NonNegativeInt = 0
    """Generations that rollouts wait before they are trained on; 0 is on-policy."""
    lora_rank: PositiveInt | None = None
    """Rank of adapters on all linear maps; null: all weights are trained."""

    @property
    def updates_per_generation(self) -> int:
        """Optimiser updates made with one batch of n x B rollouts."""
        return self.num_iterations * self.mini_batches

    def for_trl(self) -> dict[str, Any]:
        """The settings that TRL takes as they are, by TRL's names."""
        kind: Any = type(self)
        return {
            mark.name or item.name: getattr(self, item.name)
            for item in fields(kind)
            for mark in getattr(item.type, "__metadata__", ())
            if isinstance(mark, ForTRL)
        }

    def __post_init__(self) -> None:
        if self.aggregation != "loss" and self.loss_type not in ("dapo", "cispo"):
            rule = (
                "a problem's mean needs a loss summed over tokens: recipe.loss_type=dapo or cispo"
            )
            raise SettingError("recipe.aggregation", self.aggregation, rule)
        if self.scale_advantages and self.scale_rewards != "none":
            rule = "must be none where recipe.scale_advantages=true scales them"
            raise SettingError("recipe.scale_rewards", self.scale_rewards, rule)
        draws = self.planned_draws
        most = self.max_draws if self.zero_variance == "resample" else 1
        if not 1 <= draws <= most:
            rule = f"must lie between 1 and {most} (recipe.max_draws where zero_variance=resample)"
            raise SettingError("recipe.planned_draws", draws, rule)
        if self.interruption is not None and self.interruption_tokens < 1:
            rule = "must be 1 or more where recipe.interruption is set"
            raise SettingError("recipe.interruption_tokens", self.interruption_tokens, rule)
