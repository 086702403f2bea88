"""The identity of a training run: everything that can change its numbers, and nothing else."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from isosweep.config import (
    EvaluationConfig,
    HardwareConfig,
    ModelConfig,
    RecipeConfig,
    SweepConfig,
    TaskConfig,
)

# Raised when the worker changes in a way that changes a run's numbers.
NUMERICS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training run, resolved: what a worker needs, and what its identity is made of.

    Budgets are absent on purpose: a larger budget extends the same run. `learning_rate` and
    `micro_batch` are resolved for this n x B.
    """

    model: ModelConfig
    task: TaskConfig
    recipe: RecipeConfig
    evaluation: EvaluationConfig
    device: str
    dtype: str
    gradient_checkpointing: bool
    num_generations: int
    problems_per_batch: int
    seed: int
    learning_rate: float
    micro_batch: int
    numerics_version: int = NUMERICS_VERSION

    @property
    def completions_per_step(self) -> int:
        """n x B: TRL's `generation_batch_size`, which counts completions."""
        return self.num_generations * self.problems_per_batch

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: dict[str, Any]) -> "RunSpec":
        groups = {
            "model": ModelConfig,
            "task": TaskConfig,
            "recipe": RecipeConfig,
            "evaluation": EvaluationConfig,
        }
        built = {name: kind(**document[name]) for name, kind in groups.items()}
        return RunSpec(**{**document, **built})

    @property
    def run_id(self) -> str:
        """Name of the run: readable front, identifying hash. Nothing is ever parsed from it."""
        document = self.to_json()
        # Names of recipes and planned token means change no number of the run; a recipe's rate
        # and micro-batch rules matter only through the resolved values.
        for key in ("name", "learning_rate", "learning_rate_rule", "reference_completions"):
            del document["recipe"][key]
        for key in ("micro_batch", "max_micro_batch"):
            del document["recipe"][key]
        for key in ("name", "prompt_tokens", "completion_tokens"):
            del document["task"][key]
        document["task"]["max_completion_tokens"] = self.task.completion_limit
        del document["model"]["name"]
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        shape = f"n{self.num_generations}-B{self.problems_per_batch}-s{self.seed}"
        return f"{self.model.name}-{self.task.name}-{shape}-{digest}"


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


def resolve_micro_batch(recipe: RecipeConfig, completions: int) -> int | None:
    """Completions per forward pass, or None where the recipe's own does not divide n x B."""
    if recipe.micro_batch is not None:
        return recipe.micro_batch if completions % recipe.micro_batch == 0 else None
    largest = min(completions, recipe.max_micro_batch)
    return next(size for size in range(largest, 0, -1) if completions % size == 0)


def run_spec(
    config: SweepConfig, *, num_generations: int, problems_per_batch: int, seed: int
) -> RunSpec:
    """The run that serves every budget of one (n, B, seed)."""
    completions = num_generations * problems_per_batch
    micro_batch = resolve_micro_batch(config.recipe, completions)
    assert micro_batch is not None, "the plan rejects such a candidate"
    hardware: HardwareConfig = config.hardware
    return RunSpec(
        model=config.model,
        task=config.task,
        recipe=config.recipe,
        evaluation=config.evaluation,
        device=hardware.device,
        dtype=hardware.dtype,
        gradient_checkpointing=hardware.gradient_checkpointing,
        num_generations=num_generations,
        problems_per_batch=problems_per_batch,
        seed=seed,
        learning_rate=resolve_learning_rate(config.recipe, completions),
        micro_batch=micro_batch,
    )
