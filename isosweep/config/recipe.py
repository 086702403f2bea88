"""The groups of settings of what is asked: types, defaults, units and rules of each.

`conf/*.yaml` only chooses values. Every broken rule is a SettingError with the nearest choice.
"""

import math
from dataclasses import dataclass

from isosweep.config.rules import one_of, positive, require


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """How a GRPO step is taken; names are TRL's. The learning rate is constant after warm-up.

    `learning_rate` holds at `reference_completions` completions a step; `learning_rate_rule`
    scales it to n x B: `sqrt` (IsoCompute Playbook, arXiv 2603.12151), `constant` or `linear`.
    `micro_batch` is completions per device and forward pass; null takes the most that divides
    n x B / devices, fits the memory, and does not pass `max_micro_batch`. `num_iterations`
    updates are made with each batch of rollouts. `rollout_lag`: generations that rollouts wait
    before they are trained on; 0 is on-policy. `lora_rank` trains adapters on all linear maps.

    `zero_variance` groups, whose rollouts are all right or all wrong, are kept, left out of the
    loss (`drop`, ScaleRL, arXiv 2510.13786), or replaced by new problems, at most `max_draws`
    batches a step (`resample`, DAPO's dynamic sampling, arXiv 2503.14476); `planned_draws` is how
    many the planner counts on. A problem is `retire_at` a success rate and never drawn again.
    `aggregation`: `loss` is TRL's own of this `loss_type`, `problem` gives every problem the same
    weight. The last `overlong_share` of the length allowed is penalised (DAPO). Answers that
    near the limit are sent the text `interruption`, and get `interruption_tokens` more to finish.
    `importance_sampling_mode` and `importance_sampling_cap` say how the sampler's probabilities
    are corrected for where `generation.importance_sampling_correction` is on.
    `use_bias_correction_kl` weighs the KL term by the probability ratio (arXiv 2512.02556).
    """

    name: str
    loss_type: str
    beta: float
    use_bias_correction_kl: bool = False
    entropy_coef: float = 0.0
    epsilon: float
    epsilon_high: float
    scale_rewards: str
    importance_sampling_level: str = "token"
    importance_sampling_mode: str = "token_truncate"
    importance_sampling_cap: float = 2.0
    aggregation: str = "loss"
    zero_variance: str = "keep"
    max_draws: int = 1
    planned_draws: float = 1.0
    retire_at: float | None = None
    overlong_share: float | None = None
    mask_truncated_completions: bool = False
    interruption: str | None = None
    interruption_tokens: int = 0
    cast_lm_head_to_fp32: bool = False
    learning_rate: float
    learning_rate_rule: str
    reference_completions: int
    warmup_steps: int
    temperature: float
    top_p: float
    max_grad_norm: float
    weight_decay: float
    adam_beta2: float
    micro_batch: int | None
    max_micro_batch: int
    num_iterations: int = 1
    rollout_lag: int = 0
    lora_rank: int | None = None

    def __post_init__(self) -> None:
        # TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
        one_of("recipe.loss_type", self.loss_type, LOSS_TYPES)
        one_of("recipe.learning_rate_rule", self.learning_rate_rule, LEARNING_RATE_RULES)
        one_of("recipe.scale_rewards", self.scale_rewards, ("group", "batch", "none"))
        level, mode = self.importance_sampling_level, self.importance_sampling_mode
        one_of("recipe.importance_sampling_level", level, ("token", "sequence"))
        one_of("recipe.importance_sampling_mode", mode, IMPORTANCE_SAMPLING_MODES)
        one_of("recipe.aggregation", self.aggregation, ("loss", "problem"))
        one_of("recipe.zero_variance", self.zero_variance, ("keep", "drop", "resample"))
        positive("recipe", self, "learning_rate", "reference_completions", "temperature")
        positive("recipe", self, "top_p", "max_grad_norm", "micro_batch", "max_micro_batch")
        positive("recipe", self, "num_iterations", "lora_rank", "max_draws")
        positive("recipe", self, "importance_sampling_cap")
        rule = "must be a finite number, 0 or more"
        for name in ("beta", "entropy_coef", "warmup_steps", "weight_decay", "rollout_lag"):
            value = getattr(self, name)
            holds = math.isfinite(value) and value >= 0
            require(holds, f"recipe.{name}", value, rule, f"recipe.{name}=0")
        self._check_groups()

    def _check_groups(self) -> None:
        rule = "a problem's mean needs a loss summed over tokens: recipe.loss_type=dapo or cispo"
        holds = self.aggregation == "loss" or self.loss_type in ("dapo", "cispo")
        require(holds, "recipe.aggregation", self.aggregation, rule, "recipe.aggregation=loss")
        draws = self.planned_draws
        most = self.max_draws if self.zero_variance == "resample" else 1
        rule = f"must lie between 1 and {most} (recipe.max_draws where zero_variance=resample)"
        name = "recipe.planned_draws"
        require(1 <= draws <= most, name, draws, rule, f"{name}={min(max(draws, 1), most):g}")
        for name, example in (("retire_at", 0.9), ("overlong_share", 0.2)):
            share, rule = getattr(self, name), "is a share: above 0, at most 1"
            holds = share is None or 0 < share <= 1
            require(holds, f"recipe.{name}", share, rule, f"recipe.{name}={example}")
        tokens, rule = (
            self.interruption_tokens,
            "must be 1 or more where recipe.interruption is set",
        )
        holds = self.interruption is None or tokens >= 1
        require(holds, "recipe.interruption_tokens", tokens, rule, "recipe.interruption_tokens=256")


LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "cispo")
IMPORTANCE_SAMPLING_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
LEARNING_RATE_RULES = ("sqrt", "constant", "linear")
