"""How a GRPO step is taken, and what samples the rollouts."""

import ast
import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from isosweep.config.base import (
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Settings,
    Share,
    Whole,
    meant,
    or_empty,
)
from isosweep.config.identity import OUTSIDE, Identity
from isosweep.config.model import Architecture
from isosweep.config.own_function import OwnFunction, import_path
from isosweep.errors import SettingError

# Fields that follow from settings, with the setting, and fields that nobody sets.
_DECIDED = {
    "seed": "grid.seeds",
    "loss_type": "recipe.loss_type",
    "learning_rate": "recipe.learning_rate",
    "num_generations": "grid.num_generations",
    "generation_batch_size": "grid.problems_per_batch",
    "per_device_train_batch_size": "recipe.micro_batch",
    "gradient_accumulation_steps": "recipe.mini_batches",
    "steps_per_generation": "recipe.mini_batches",
    "max_completion_length": "task.max_completion_tokens",
    "max_steps": "budget",
    "num_train_epochs": "budget",
    "reward_weights": "recipe.reward_scale",
    "chat_template_kwargs": "model.chat_template_kwargs",
    "generation_kwargs": "generation.stop",
    "use_vllm": "generation",
    "vllm_enable_sleep_mode": "generation.sleep",
    "vllm_tensor_parallel_size": "generation.tensor_parallel",
    "vllm_importance_sampling_correction": "generation.importance_sampling_correction",
    "bf16": "hardware.dtype",
    "fp16": "hardware.dtype",
    "gradient_checkpointing": "hardware.gradient_checkpointing",
    "optim": "hardware.optimizer",
    "use_cpu": "hardware.device",
    "fsdp": "hardware.sharding",
    # What is sampled: by our sampler, or with vLLM alike.
    **dict.fromkeys(("top_k", "min_p", "repetition_penalty", "cache_implementation"), ""),
    # What lies in no checkpoint, so that a resumed run would be another one.
    **dict.fromkeys(("sync_ref_model", "use_adaptive_entropy"), ""),
    **dict.fromkeys(("model_init_kwargs", "trust_remote_code", "shuffle_dataset"), ""),
    **dict.fromkeys(("remove_unused_columns", "pad_to_multiple_of", "num_generations_eval"), ""),
    **dict.fromkeys(("output_dir", "report_to", "disable_tqdm", "run_name", "project"), ""),
    **dict.fromkeys(("ignore_data_skip", "auto_find_batch_size", "resume_from_checkpoint"), ""),
    **dict.fromkeys(("accelerator_config", "deepspeed", "local_rank", "restore_callback"), ""),
    **dict.fromkeys(("full_determinism", "use_liger_kernel", "tf32", "jit_mode_eval"), ""),
}
# Beginnings of fields that say how is logged, saved, evaluated, loaded and shared.
_DECIDED_GROUPS = (
    *("log_", "logging_", "save_", "eval_", "hub_", "push_to_", "dataloader_", "data_", "do_"),
    *("ddp_", "fsdp_", "torch_compile", "lr_scheduler", "warmup_ratio", "per_device_eval"),
    *("vllm_", "use_transformers_", "transformers_", "include_", "metric_", "load_best_"),
)


# Fields of the optimiser, and below what they are; each is 0 or more.
_BELOW = {
    **dict.fromkeys(("adam_beta1", "adam_beta2"), 1.0),
    **dict.fromkeys(("weight_decay", "adam_epsilon", "max_grad_norm"), math.inf),
}


def require_free(fields: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Raise SettingError where isosweep decides one of the `fields` itself, or where one of the
    optimiser is out of its range; `ours`: settings by the field that they are."""
    for name, value in fields.items():
        below = _BELOW.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if below is not None and not (number and 0 <= value < below):
            rule = "must be a number of 0 or more" + (", below 1" if below == 1.0 else "")
            raise SettingError(f"recipe.trl.{name}", value, rule)
        setting = ours.get(name, _DECIDED.get(name))
        if setting is None and not name.startswith(_DECIDED_GROUPS):
            continue
        rule = "isosweep sets this field of GRPOConfig itself"
        raise SettingError(
            f"recipe.trl.{name}", value, f"{rule}, by {setting}" if setting else rule
        )


def require_known(fields: Mapping[str, Any]) -> None:
    """Raise SettingError where this machine has a TRL, which lacks one of the `fields`."""
    known = grpo_config_fields() if fields else frozenset()
    for name, value in fields.items():
        if known and name not in known:
            free = [each for each in known if each not in _DECIDED]
            nearest = meant(name, free, f"recipe.trl.{{}}={value}")
            rule = "the installed TRL's GRPOConfig has no such field"
            raise SettingError(f"recipe.trl.{name}", value, rule, nearest)


@cache
def grpo_config_fields() -> frozenset[str]:
    """Names of GRPOConfig's fields; none where TRL is not installed."""
    files = {
        "trl": ("trainer/grpo_config.py", "trainer/base_config.py"),
        "transformers": ("training_args.py",),
    }
    names: set[str] = set()
    for package, sources in files.items():
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            return frozenset()
        for source in sources:
            tree = ast.parse((Path(found.origin).parent / source).read_text(encoding="utf-8"))
            for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
                names |= {
                    item.target.id
                    for item in kind.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
    return frozenset(names)


# TRL's `bnpo` normalises by the local batch, so cells would not be comparable.
TRL_LOSSES = ("grpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo", "luspo")
# Those that are a mean over tokens, not over rollouts.
TOKEN_LOSSES = ("dapo", "cispo", "vespo")
LearningRateRule = Literal["sqrt", "constant", "linear"]
ImportanceSamplingMode = Literal[
    "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
]


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
_RESAMPLED = Identity(when=lambda run: run.recipe.zero_variance == "resample")
_INTERRUPTED = Identity(when=lambda run: run.recipe.interruption is not None)
_RETIRING = Identity(when=lambda run: run.recipe.retire_at is not None)
_FURTHER = Identity(when=lambda run: bool(run.recipe.trl))


class RecipeConfig(Settings, group="recipe"):
    """How one GRPO step is trained, with TRL's names. The learning rate is constant after warm-up.

    Rules for the learning rate and the micro-batch are outside a run's identity; the values that
    result from them are inside.
    """

    name: Annotated[str, OUTSIDE]
    """Name of the recipe, in tables."""
    loss_type: Annotated[str, AfterValidator(_loss)] = "grpo"
    """TRL's loss: grpo, dr_grpo, dapo, cispo, sapo, vespo or luspo; or your loss function,
    package.module:function (docs/loss.md)."""
    beta: Annotated[NonNegative, _TRL] = 0.0
    """Weight of the KL term; 0: no reference model."""
    entropy_coef: Annotated[NonNegative, _TRL] = 0.0
    """Weight of the entropy bonus."""
    epsilon: Annotated[NonNegative, _TRL] = 0.2
    """Probability ratios are clipped below 1 - `epsilon`."""
    epsilon_high: Annotated[NonNegative, _TRL] = 0.2
    """Probability ratios are clipped above 1 + `epsilon_high`; with `loss_type=cispo`,
    `epsilon_high` is the cap."""
    scale_rewards: Annotated[Literal["group", "batch", "none"], _TRL] = "group"
    """Advantages are divided by the rewards' standard deviation over this: each problem's group,
    the whole batch, or not at all."""
    scale_advantages: bool = False
    """Divide advantages by their standard deviation over the batch (ScaleRL, arXiv 2510.13786,
    section 4); needs `scale_rewards=none`."""
    reward_scale: Positive = 1.0
    """Reward difference between a right and a wrong answer: 1 for rewards of 1 and 0, 2 for 1 and
    -1. Only the difference matters."""
    importance_sampling_level: Annotated[Literal["token", "sequence"], _TRL] = "token"
    """Probability ratios are of single tokens, or of whole completions (GSPO)."""
    importance_sampling_mode: Annotated[
        ImportanceSamplingMode, ForTRL("vllm_importance_sampling_mode"), _CORRECTED
    ] = "token_truncate"
    """How the loss is corrected for the sampler's probabilities, with
    `generation.importance_sampling_correction`."""
    importance_sampling_cap: Annotated[
        Positive, ForTRL("vllm_importance_sampling_clip_max"), _CORRECTED
    ] = 2.0
    """Largest ratio of the learner's to the sampler's probability in that correction."""
    aggregation: Literal["loss", "problem"] = "loss"
    """Average over the batch: `loss` as TRL's `loss_type` does, `problem` with equal weight for
    every problem."""
    zero_variance: Literal["keep", "drop", "resample"] = "keep"
    """Groups whose rollouts are all right or all wrong: `keep`, `drop` from the loss (ScaleRL,
    arXiv 2510.13786), or `resample` new problems (DAPO, arXiv 2503.14476)."""
    max_draws: Annotated[PositiveInt, _RESAMPLED] = 1
    """With `zero_variance=resample`: most batches that one step samples."""
    planned_draws: Annotated[float, OUTSIDE] = 1.0
    """Mean number of batches that one step samples, as the plan assumes."""
    retire_at: Share | None = None
    """Success rate from which a problem is not drawn again; null: all problems stay."""
    retire_window: Annotated[PositiveInt, _RETIRING] = 64
    """Number of a problem's rollouts over which this rate is taken, whatever n is."""
    overlong_share: Share | None = None
    """Share of the allowed length, at its end, in which answers are penalised (DAPO); null: no
    penalty."""
    interruption: str | None = None
    """Text that is inserted into an answer near the limit, so that it can finish; null: it is cut
    off."""
    interruption_tokens: Annotated[Whole, _INTERRUPTED] = 0
    """Tokens for an answer to finish after the interruption."""
    cast_lm_head_to_fp32: Annotated[bool, _TRL] = False
    """Compute logits in float32."""
    learning_rate: Annotated[Positive, OUTSIDE] = 1e-6
    """Learning rate of an update with `reference_completions` completions."""
    learning_rate_rule: Annotated[LearningRateRule, OUTSIDE] = "constant"
    """How the rate changes with the completions of an update, n x B / `mini_batches`: with the root
    (`sqrt`; IsoCompute Playbook, arXiv 2603.12151), not at all, or in proportion."""
    reference_completions: Annotated[PositiveInt, OUTSIDE] = 1024
    """Completions of an update for which `learning_rate` is meant."""
    max_completions_per_step: Annotated[PositiveInt, OUTSIDE] = 65536
    """Largest n x B for which the recipe was studied; the limit of `grid=joint`."""
    warmup_steps: Annotated[NonNegativeInt, _TRL] = 10
    """Updates of warm-up: update k uses k / `warmup_steps` of the learning rate."""
    temperature: Annotated[Positive, _TRL] = 1.0
    """Sampling temperature of rollouts."""
    top_p: Annotated[Share, _TRL] = 1.0
    """Rollouts are sampled from the most probable tokens with this total probability. Below 1,
    `generation.importance_sampling_correction` is refused, because its ratio would be biased."""
    micro_batch: Annotated[PositiveInt | None, OUTSIDE] = None
    """Completions in one forward pass of a device; null: the largest that divides n x B / devices,
    fits the memory, and is at most `max_micro_batch`."""
    max_micro_batch: Annotated[PositiveInt, OUTSIDE] = 16
    """Largest micro-batch that is chosen automatically."""
    num_iterations: Annotated[PositiveInt, _TRL] = 1
    """Number of updates that use each rollout."""
    mini_batches: PositiveInt = 1
    """Equal parts of a generation; each makes one update."""
    rollout_lag: NonNegativeInt = 0
    """Generations that rollouts wait before training uses them; 0: on-policy."""
    lora_rank: PositiveInt | None = None
    """Rank of LoRA adapters on all linear maps; null: all weights are trained."""
    trl: Annotated[dict[str, Any], BeforeValidator(or_empty), _FURTHER] = Field(
        default_factory=dict
    )
    """Further fields of TRL's GRPOConfig, by TRL's names and with TRL's defaults, such as
    `{weight_decay: 0.1, adam_beta2: 0.95, max_grad_norm: 0.5}`."""

    @property
    def updates_per_generation(self) -> int:
        """Optimiser updates made with one batch of n x B rollouts."""
        return self.num_iterations * self.mini_batches

    @property
    def staleness(self) -> int:
        """Updates from the policy that sampled a rollout to the last update that uses it, itself
        counted: 1 on-policy."""
        return (self.rollout_lag + 1) * self.updates_per_generation

    def for_trl(self) -> dict[str, Any]:
        """The settings that TRL takes as they are, by TRL's names."""
        return {theirs: getattr(self, name) for theirs, name in _names_for_trl(type(self)).items()}

    def _check(self) -> None:
        require_free(
            self.trl, {k: f"recipe.{name}" for k, name in _names_for_trl(type(self)).items()}
        )
        if self.loss_type == "vespo" and not self.importance_sampling_mode.startswith("token"):
            rule = "recipe.loss_type=vespo needs a ratio of tokens: token_truncate or token_mask"
            mode = self.importance_sampling_mode
            raise SettingError("recipe.importance_sampling_mode", mode, rule)
        if self.aggregation != "loss" and self.loss_type not in TOKEN_LOSSES:
            named = " or ".join(TOKEN_LOSSES)
            rule = f"a problem's mean needs a loss summed over tokens: recipe.loss_type={named}"
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


def _names_for_trl(kind: Any) -> dict[str, str]:
    """The settings of a recipe that TRL takes as they are, by TRL's names."""
    return {
        mark.name or name: name
        for name, item in kind.model_fields.items()
        for mark in item.metadata
        if isinstance(mark, ForTRL)
    }


Backend = Literal["transformers", "vllm"]

# vLLM pads the vocabulary to a multiple of it (model_executor/layers/vocab_parallel_embedding.py).
_VOCABULARY_PADDING = 64


def _listed(value: Any) -> tuple[str, ...]:
    """A list of texts, as YAML and JSON have it, as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError("must be a list of texts, like ['5']: a digit has quotes")
    return tuple(value)


class GenerationConfig(Settings, group="generation"):
    """How rollouts and held-out answers are sampled."""

    name: Backend
    """The library."""
    prefix_sharing: bool = False
    """Read a problem's prompt once for its n rollouts (in evaluation, for its k answers)."""
    importance_sampling_correction: bool = False
    """Compute log-probabilities again in the trainer, and correct the loss for the sampler's
    numerical differences."""
    stop: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Further texts that end an answer, one token each, in training and evaluation. Without one, a
    base model goes on to the limit."""
    # Where vLLM's memory and weights are while nothing is sampled changes nothing sampled.
    sleep: Annotated[bool, OUTSIDE] = False
    """vLLM frees its memory during updates."""
    tensor_parallel: PositiveInt = 1
    """Devices of one vLLM engine."""
    # Where rollouts that wait are sampled changes nothing sampled.
    overlap: Annotated[bool, OUTSIDE] = False
    """Sample the next rollouts in a second process while this generation is trained on, on the last
    device of `hardware.devices_per_run`, or on a further core of a CPU; needs
    `recipe.rollout_lag` of 1 or more."""

    def _check(self) -> None:
        if "" in self.stop or len({*self.stop}) < len(self.stop):
            raise self._refused("stop", "has an empty text, or one twice")
        for name in ("importance_sampling_correction", "sleep"):
            if self.name != "vllm" and getattr(self, name):
                raise self._refused(name, "only generation=vllm does that")
        if self.name != "vllm" and self.tensor_parallel > 1:
            raise self._refused("tensor_parallel", "above 1, only generation=vllm does that")

    def sampling_devices(self, training: int) -> int:
        """Devices that sample, where `training` devices train."""
        return 1 if self.overlap else training

    def _refused(self, name: str, rule: str) -> SettingError:
        return SettingError(f"generation.{name}", getattr(self, name), rule)


def splits(arch: Architecture, size: int) -> bool:
    """Whether vLLM can spread the model over `size` devices.

    Heads, MLP and the padded vocabulary are divided; key and value heads are divided, or
    repeated where there are fewer (QKVParallelLinear, model_executor/layers/linear.py, vLLM 0.31).
    """
    kv_heads, padding = arch.num_kv_heads, _VOCABULARY_PADDING
    divided = [arch.num_heads, max(kv_heads, size), -(-arch.vocab_size // padding) * padding]
    if arch.num_moe_layers < arch.num_layers:
        divided.append(arch.intermediate_size)
    if arch.num_moe_layers:
        divided.append(arch.expert_intermediate_size)
    return all(width % size == 0 for width in divided) and max(kv_heads, size) % kv_heads == 0
