"""Compute spent: what budgets are made of, and when a run has reached one."""

from dataclasses import dataclass, fields
from typing import Any, Literal

BudgetUnit = Literal["flops", "rollouts", "tokens", "device_hours"]

# What sums of floats may be off by, as a factor.
ROUNDING = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Cumulative compute of a run's training (evaluation is outside the budget).

    `generations`: batches of n x B rollouts that were trained on. `rollouts` and tokens count all
    that were sampled, also those that a recipe throws away. Counts are exact; FLOPs follow
    `isosweep.costs.flops`. `*_hardware_flops` are what devices compute in scoring (old and
    reference log-probabilities) and in training, padding and recomputation included; None where
    nobody counted. `device_seconds` is training wall time times devices; `*_seconds` are the parts
    of it that its phases took, but for two that are outside of it: `checkpoint_seconds`, what
    training stood still for checkpoints, and `startup_seconds`, what attempts took to begin, 0
    where that was not recorded. A second execution reproduces all but the seconds.
    """

    generations: int = 0
    rollouts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefill_flops: float = 0.0
    decode_flops: float = 0.0
    old_policy_flops: float = 0.0
    reference_flops: float = 0.0
    training_flops: float = 0.0
    scoring_hardware_flops: float | None = None
    training_hardware_flops: float | None = None
    generation_seconds: float = 0.0
    reward_seconds: float = 0.0
    scoring_seconds: float = 0.0
    training_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    startup_seconds: float = 0.0
    device_seconds: float = 0.0

    @property
    def flops(self) -> float:
        """FLOPs of all phases together."""
        generation = self.prefill_flops + self.decode_flops
        scoring = self.old_policy_flops + self.reference_flops
        return generation + scoring + self.training_flops

    @property
    def hardware_flops(self) -> float | None:
        """FLOPs that the devices computed, sampling as in `flops`; None where nobody counted."""
        if self.training_hardware_flops is None:
            return None
        learner = (self.scoring_hardware_flops or 0.0) + self.training_hardware_flops
        return self.prefill_flops + self.decode_flops + learner

    @property
    def tokens(self) -> int:
        """Tokens of prompts and completions together."""
        return self.prompt_tokens + self.completion_tokens

    def spent(self, unit: BudgetUnit) -> float:
        """Compute in `unit`."""
        match unit:
            case "flops":
                return self.flops
            case "rollouts":
                return float(self.rollouts)
            case "tokens":
                return float(self.tokens)
            case "device_hours":
                return self.device_seconds / 3600

    def has_reached(self, budget: float, unit: BudgetUnit) -> bool:
        """Whether training has come up to `budget`, to the nearest generation."""
        return has_reached(budget, self.spent(unit), self.generations)

    def __add__(self, other: "Compute") -> "Compute":
        names = [item.name for item in fields(Compute)]
        return Compute(**{name: _sum(getattr(self, name), getattr(other, name)) for name in names})


def _sum(first: Any, second: Any) -> Any:
    """The sum; of what only one side has, that; None where neither does."""
    if first is None or second is None:
        return first if second is None else second
    return first + second


def has_reached(budget: float, spent: float, generations: int) -> bool:
    """Whether `generations`, with `spent` so far, are those nearest to `budget`, or past it.

    A generation costs spent / generations on average, so the next one would end further from the
    budget than this one once spent + half of that >= budget. It depends on the past alone: a run
    that goes on reaches the same budgets at the same steps. `costs.steps.steps_for` plans with
    the same rule.
    """
    return generations > 0 and (spent + spent / (2 * generations)) * ROUNDING >= budget


def sits_at(budget: float, spent: float, generations: int) -> bool:
    """Whether a record after `generations` generations is the reading of `budget`.

    It is the one nearest to the budget when all cost the same; three quarters of a generation
    leave room for those that cost more than the mean.
    """
    return generations > 0 and abs(spent - budget) <= 0.75 * spent / generations
