"""How a GRPO step is taken."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from isosweep.config.identity import OUTSIDE, Identity
from isosweep.config.settings import settings
from isosweep.config.values import (
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Says,
    Share,
    Whole,
)
from isosweep.errors import SettingError

# TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
LossType = Literal["grpo", "dr_grpo", "dapo", "cispo"]
LearningRateRule = Literal["sqrt", "constant", "linear"]
ImportanceSamplingMode = Literal[
    "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
]


@dataclass(frozen=True)
class ForTRL:
    """Marks a setting that TRL takes as it is; `name`: what TRL calls it, where not the same."""

    name: str | None = None


_TRL = ForTRL()
_CORRECTED = Identity(when=lambda run: run.generation.importance_sampling_correction)
_PENALISED = Identity(when=lambda run: run.recipe.beta != 0)
_RESAMPLED = Identity(when=lambda run: run.recipe.zero_variance == "resample")
_INTERRUPTED = Identity(when=lambda run: run.recipe.interruption is not None)


@settings("recipe")
class RecipeConfig:
    """How a GRPO step is taken; names are TRL's. The learning rate is constant after warm-up.

    Rules for the learning rate and the micro-batch are outside a run's identity: it has the values
    that they come to.
    """

    name: Annotated[str, OUTSIDE]
    """Name of the recipe, in tables."""
    loss_type: Annotated[LossType, _TRL]
    """How the losses of tokens are averaged."""
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
    retire_at: Annotated[Share, Says("is a share: above 0, at most 1", "0.9")] | None = None
    """Success rate at which a problem is never drawn again; null: none is retired."""
    overlong_share: Annotated[Share, Says("is a share: above 0, at most 1", "0.2")] | None = None
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
    """How it is scaled to n x B: `sqrt` (IsoCompute Playbook, arXiv 2603.12151), `constant` or
    `linear`."""
    reference_completions: Annotated[PositiveInt, OUTSIDE]
    """n x B at which `learning_rate` applies as it is, in completions."""
    warmup_steps: Annotated[NonNegativeInt, _TRL]
    """Steps over which the learning rate rises from 0."""
    temperature: Annotated[Positive, _TRL]
    """Sampling temperature of rollouts."""
    top_p: Annotated[Positive, _TRL]
    """Probability mass that rollouts are sampled from."""
    max_grad_norm: Annotated[Positive, _TRL]
    """Norm that gradients are clipped to."""
    weight_decay: Annotated[NonNegative, _TRL]
    """AdamW's weight decay."""
    adam_beta2: Annotated[float, _TRL]
    """AdamW's decay of the squared gradients' mean."""
    micro_batch: Annotated[PositiveInt | None, OUTSIDE]
    """Completions per device and forward pass; null: the most that divides n x B / devices, fits
    the memory, and does not pass `max_micro_batch`."""
    max_micro_batch: Annotated[PositiveInt, OUTSIDE]
    """Largest micro-batch that is chosen."""
    num_iterations: Annotated[PositiveInt, _TRL] = 1
    """Updates made with each batch of rollouts."""
    rollout_lag: NonNegativeInt = 0
    """Generations that rollouts wait before they are trained on; 0 is on-policy."""
    lora_rank: PositiveInt | None = None
    """Rank of adapters on all linear maps; null: all weights are trained."""

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
            nearest = "recipe.aggregation=loss"
            raise SettingError("recipe.aggregation", self.aggregation, rule, nearest)
        draws = self.planned_draws
        most = self.max_draws if self.zero_variance == "resample" else 1
        if not 1 <= draws <= most:
            rule = f"must lie between 1 and {most} (recipe.max_draws where zero_variance=resample)"
            nearest = f"recipe.planned_draws={min(max(draws, 1), most):g}"
            raise SettingError("recipe.planned_draws", draws, rule, nearest)
        if self.interruption is not None and self.interruption_tokens < 1:
            name = "recipe.interruption_tokens"
            rule = "must be 1 or more where recipe.interruption is set"
            raise SettingError(name, self.interruption_tokens, rule, f"{name}=256")
