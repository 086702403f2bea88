"""The identity of a training run: everything that can change its numbers, and nothing else."""

import hashlib
import json
import math
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, overload

import numpy as np

from isosweep.config.base import NonNegativeInt, Positive, PositiveInt, Settings, Whole, load
from isosweep.config.evaluation import EvaluationConfig, on_all
from isosweep.config.hardware import Attention, Device, Optimizer, Precision, Sharding
from isosweep.config.identity import OUTSIDE, identity
from isosweep.config.launcher import TrainerConfig
from isosweep.config.model import ModelConfig, adapter_weights
from isosweep.config.recipe import GenerationConfig, RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.costs.activations import generating_bytes
from isosweep.costs.efficiency import Efficiency, efficiency
from isosweep.costs.engine import SHARED_BLOCK_TOKENS
from isosweep.costs.flops import Count, Passes
from isosweep.costs.memory import state_bytes
from isosweep.costs.steps import Floats, Ints

# Raised when the worker changes in a way that changes a run's numbers.
NUMERICS_VERSION = 5
# Answers that are sampled at once, at most: more fill no device any better.
_MOST_AT_ONCE = 2048


class RunSpec(Settings, group="spec"):
    """One training run, resolved: what a worker needs, and what its identity is made of.

    Budgets are absent on purpose: a larger budget extends the same run.
    """

    model: ModelConfig
    """The policy."""
    task: TaskConfig
    """The problems."""
    recipe: RecipeConfig
    """How a step is taken."""
    evaluation: EvaluationConfig
    """Held-out evaluation."""
    generation: GenerationConfig
    """What samples the rollouts."""
    device: Device
    """What torch calls the devices."""
    devices: PositiveInt
    """Devices that train the run; with `generation.overlap` another one samples."""
    sharding: Sharding = "ddp"
    """What the devices share."""
    dtype: Precision
    """Precision that is computed in."""
    weights_dtype: Precision
    """Precision of the weights that the optimiser updates."""
    gradient_checkpointing: bool
    """Activations are computed again in the backward pass."""
    optimizer: Optimizer = "adamw"
    """Whose AdamW, and how its states are held."""
    attention: Attention = "sdpa"
    """Attention kernels, as transformers calls them."""
    trainer: TrainerConfig = TrainerConfig()
    """Who trains it."""
    num_generations: PositiveInt
    """n: rollouts per problem."""
    problems_per_batch: PositiveInt
    """B: distinct problems in one step."""
    seed: Whole
    """Seed of the run."""
    learning_rate: Positive
    """Learning rate after warm-up, by the recipe's rule for this n x B."""
    micro_batch: PositiveInt
    """Completions per device and forward pass."""
    evaluation_batch: Annotated[PositiveInt, OUTSIDE] = _MOST_AT_ONCE
    """Completions of an evaluation that transformers samples at once on a device."""
    vllm_share: Annotated[float, OUTSIDE] = 0.0
    """Share of a device's memory that vLLM takes, 0 without it."""
    vllm_max_num_seqs: Annotated[NonNegativeInt, OUTSIDE] = 0
    """Rollouts that one engine of vLLM holds at once, 0 without it."""
    vllm_max_num_batched_tokens: Annotated[NonNegativeInt, OUTSIDE] = 0
    """Tokens of one of its forward passes."""
    vllm_max_model_len: Annotated[NonNegativeInt, OUTSIDE] = 0
    """Tokens of its longest sequence, as planned."""
    vllm_cache_bytes: Annotated[NonNegativeInt, OUTSIDE] = 0
    """Keys and values on one device."""
    loss_sha256: str | None = None
    """Of the module of a loss of one's own, as it was planned with."""
    numerics_version: Whole = NUMERICS_VERSION
    """Version of the worker's numbers."""

    @property
    def devices_in_use(self) -> int:
        """Devices that train the run, and the one that does nothing but sample for it."""
        return self.devices + self.generation.overlap

    @property
    def completions_per_step(self) -> int:
        """n x B: TRL's `generation_batch_size`, which counts completions."""
        return self.num_generations * self.problems_per_batch

    @cached_property
    def passes(self) -> Passes:
        """The passes over each rollout that was sampled: what is thrown away is counted as well."""
        return replace(passes_of(self, float(self.num_generations)), draws=1.0)

    def to_json(self) -> dict[str, Any]:
        """Plain nested dictionaries."""
        return self.model_dump()

    @staticmethod
    def from_json(document: dict[str, Any]) -> "RunSpec":
        """The spec that `to_json` gave; SettingError where it is none."""
        return load(RunSpec, document)

    @cached_property
    def run_id(self) -> str:
        """Name of the run: readable front, identifying hash. Nothing is ever parsed from it."""
        text = json.dumps(identity(self), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        shape = f"n{self.num_generations}-B{self.problems_per_batch}-s{self.seed}"
        return f"{self.model.name}-{self.task.name}-{shape}-{digest}"


@overload
def resolve_learning_rate(recipe: RecipeConfig, completions: int) -> float: ...
@overload
def resolve_learning_rate(recipe: RecipeConfig, completions: Ints) -> Floats: ...
def resolve_learning_rate(recipe: RecipeConfig, completions: Ints | int) -> Floats | float:
    """Learning rate at `completions` = n x B a generation, by the recipe's rule."""
    ratio: Any = completions / recipe.mini_batches / recipe.reference_completions
    scale = {"sqrt": np.sqrt(ratio), "linear": ratio, "constant": 0 * ratio + 1}
    rate: Floats = recipe.learning_rate * scale[recipe.learning_rate_rule]
    return rate if isinstance(completions, np.ndarray) else float(rate)


def passes_of(run: RunSpec | SweepConfig, num_generations: Count) -> Passes:
    """The passes that a recipe and a generation backend make over a rollout.

    Old log-probabilities are computed when a generation makes several updates or makes them later
    than it was sampled, or when the sampler's are not the learner's and importance sampling
    corrects it.
    """
    arch, recipe, generation = run.model.architecture, run.recipe, run.generation
    device = run.device if isinstance(run, RunSpec) else run.hardware.device
    reused = recipe.updates_per_generation > 1 or recipe.rollout_lag > 0
    return Passes(
        prompt_sharing=num_generations if generation.prefix_sharing else 1.0,
        block_tokens=SHARED_BLOCK_TOKENS[device] if generation.name == "vllm" else 1,
        old_policy=reused or generation.importance_sampling_correction,
        reference=recipe.beta > 0,
        num_iterations=recipe.num_iterations,
        draws=recipe.planned_draws,
        adapter_weights=adapter_weights(arch, recipe.lora_rank) if recipe.lora_rank else 0,
        # vLLM is sent weights with the adapters merged in.
        adapted_sampling=generation.name == "transformers",
    )


def reached(config: SweepConfig) -> Efficiency:
    """What runs reach of their devices, by settings or as expected."""
    return efficiency(config.model.architecture, config.hardware, config.generation)


def answers_at_once(config: SweepConfig) -> int:
    """Completions that transformers samples at once on a device: `evaluation.batch_size`, or as
    many as fit beside the state."""
    if config.evaluation.batch_size is not None:
        return config.evaluation.batch_size
    state, one = _bytes_of_answers(config)
    fits = (config.run_hardware.usable_bytes - state) / one
    return max(1, min(_MOST_AT_ONCE, math.floor(fits)))


def _bytes_of_answers(config: SweepConfig) -> tuple[float, float]:
    """Bytes of a device's state, and those that transformers takes to sample one more answer."""
    arch, recipe, hardware = config.model.architecture, config.recipe, config.run_hardware
    prompt, completion = config.task.planned_prompt_tokens, float(config.task.completion_limit)
    one = generating_bytes(arch, recipe, hardware, prompt=prompt, completion=completion)
    return state_bytes(arch, recipe, hardware).total, one


def evaluation_bytes(config: SweepConfig) -> float:
    """Bytes that a device takes in a held-out evaluation by transformers."""
    state, one = _bytes_of_answers(config)
    return state + evaluation_batch(config) * one


def evaluation_batch(config: SweepConfig) -> int:
    """`answers_at_once` of an evaluation: no more than there are."""
    problems = math.ceil(config.task.num_eval_problems / config.run_hardware.devices_per_run)
    return min(answers_at_once(config), problems * config.evaluation.samples_per_problem)


def run_spec(
    config: SweepConfig,
    *,
    num_generations: int,
    problems_per_batch: int,
    seed: int,
    micro_batch: int,
    **further: Any,
) -> RunSpec:
    """The run that serves every budget of one (n, B, seed); `further`: fields of its engine."""
    hardware = config.run_hardware
    return RunSpec(
        model=config.model,
        task=config.task,
        recipe=config.recipe,
        evaluation=config.evaluation,
        generation=config.generation,
        device=hardware.device,
        devices=hardware.devices_per_run,
        sharding=hardware.sharding,
        dtype=hardware.dtype,
        weights_dtype=hardware.weights_dtype,
        gradient_checkpointing=hardware.gradient_checkpointing,
        optimizer=hardware.optimizer,
        attention=hardware.attention,
        trainer=config.trainer,
        num_generations=num_generations,
        problems_per_batch=problems_per_batch,
        seed=seed,
        learning_rate=resolve_learning_rate(config.recipe, num_generations * problems_per_batch),
        micro_batch=micro_batch,
        evaluation_batch=min(map(evaluation_batch, (config, *on_all(config).values()))),
        loss_sha256=config.loss_sources.get(config.recipe.loss_type),
        **further,
    )
