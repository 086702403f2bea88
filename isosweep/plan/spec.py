"""The identity of a training run: everything that can change its numbers, and nothing else."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from isosweep.config.architecture import Architecture, adapter_weights
from isosweep.config.build import build
from isosweep.config.evaluation import EvaluationConfig
from isosweep.config.generation import GenerationConfig
from isosweep.config.model import ModelConfig
from isosweep.config.recipe import RecipeConfig
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.costs.flops import Count, Passes

# Raised when the worker changes in a way that changes a run's numbers.
NUMERICS_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training run, resolved: what a worker needs, and what its identity is made of.

    Budgets are absent on purpose: a larger budget extends the same run. `learning_rate`,
    `micro_batch` and `vllm_share` (of a device's memory) are resolved for this n x B.
    """

    model: ModelConfig
    task: TaskConfig
    recipe: RecipeConfig
    evaluation: EvaluationConfig
    generation: GenerationConfig
    device: str
    devices: int
    sharding: str = "ddp"
    dtype: str
    weights_dtype: str
    gradient_checkpointing: bool
    num_generations: int
    problems_per_batch: int
    seed: int
    learning_rate: float
    micro_batch: int
    vllm_share: float = 0.0
    numerics_version: int = NUMERICS_VERSION

    @property
    def completions_per_step(self) -> int:
        """n x B: TRL's `generation_batch_size`, which counts completions."""
        return self.num_generations * self.problems_per_batch

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: dict[str, Any]) -> "RunSpec":
        spec: RunSpec = build(RunSpec, document, "spec")
        return spec

    @cached_property
    def run_id(self) -> str:
        """Name of the run: readable front, identifying hash. Nothing is ever parsed from it."""
        document = self.to_json()
        # Names of recipes and planned token means change no number of the run; a recipe's rate
        # and micro-batch rules matter only through the resolved values.
        for key in ("name", "learning_rate", "learning_rate_rule", "reference_completions"):
            del document["recipe"][key]
        for key in ("micro_batch", "max_micro_batch", "planned_draws"):
            del document["recipe"][key]
        # Of a difficulty only the problems that it came to count (`selection_sha256`).
        for key in ("name", "prompt_tokens", "completion_tokens", "difficulty"):
            del document["task"][key]
        # What a file holds counts (`data_sha256`), not where it lies.
        for group, name in (("math", "path"), ("custom", "directory")):
            if document["task"][group] is not None:
                del document["task"][group][name]
        for key in _without_effect(self.recipe, self.generation):
            del document["recipe"][key]
        document["task"]["max_completion_tokens"] = self.task.completion_limit
        del document["model"]["name"]
        # Where vLLM's memory and weights are while nothing is sampled changes nothing sampled.
        del document["vllm_share"]
        for key in ("server_url", "sleep"):
            del document["generation"][key]
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        shape = f"n{self.num_generations}-B{self.problems_per_batch}-s{self.seed}"
        return f"{self.model.name}-{self.task.name}-{shape}-{digest}"


def _without_effect(recipe: RecipeConfig, generation: GenerationConfig) -> list[str]:
    """Settings of a recipe that say how something is done which it does not do."""
    idle = []
    if not generation.importance_sampling_correction:
        idle += ["importance_sampling_mode", "importance_sampling_cap"]
    if recipe.zero_variance != "resample":
        idle.append("max_draws")
    if recipe.interruption is None:
        idle.append("interruption_tokens")
    if recipe.beta == 0:
        idle.append("use_bias_correction_kl")
    return idle


def resolve_learning_rate(recipe: RecipeConfig, completions: int) -> float:
    """Learning rate at `completions` = n x B completions a step, by the recipe's rule."""
    ratio = completions / recipe.reference_completions
    match recipe.learning_rate_rule:
        case "sqrt":
            return recipe.learning_rate * math.sqrt(ratio)
        case "linear":
            return recipe.learning_rate * ratio
        case _:
            return recipe.learning_rate


def passes_of(
    arch: Architecture, recipe: RecipeConfig, generation: GenerationConfig, num_generations: Count
) -> Passes:
    """The passes that a recipe and a generation backend make over a rollout.

    Old log-probabilities are computed when rollouts are used more than once or later than they
    were sampled, or when the sampler's are not the learner's and importance sampling corrects it.
    """
    reused = recipe.num_iterations > 1 or recipe.rollout_lag > 0
    return Passes(
        prompt_sharing=num_generations if generation.prefix_sharing else 1.0,
        old_policy=reused or generation.importance_sampling_correction,
        reference=recipe.beta > 0,
        num_iterations=recipe.num_iterations,
        draws=recipe.planned_draws,
        adapter_weights=adapter_weights(arch, recipe.lora_rank) if recipe.lora_rank else 0,
        # vLLM is sent weights with the adapters merged in.
        adapted_sampling=generation.name == "transformers",
    )


def run_spec(
    config: SweepConfig,
    *,
    num_generations: int,
    problems_per_batch: int,
    seed: int,
    micro_batch: int,
    vllm_share: float = 0.0,
) -> RunSpec:
    """The run that serves every budget of one (n, B, seed)."""
    hardware = config.hardware
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
        num_generations=num_generations,
        problems_per_batch=problems_per_batch,
        seed=seed,
        learning_rate=resolve_learning_rate(config.recipe, num_generations * problems_per_batch),
        micro_batch=micro_batch,
        vllm_share=vllm_share,
    )
