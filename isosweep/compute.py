"""Compute spent: what budgets are made of, and when a run has reached one."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

BudgetUnit = Literal["flops", "rollouts", "tokens", "device_hours"]
BUDGET_UNITS: tuple[BudgetUnit, ...] = get_args(BudgetUnit)


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Cumulative compute of a run's training (evaluation is outside the budget).

    `generations`: batches of n x B rollouts that were trained on. `rollouts` and tokens count all
    that were sampled, also those that a recipe throws away. Counts are exact; FLOPs follow
    `isosweep.costs.flops`. `device_seconds` is training wall time times devices; `*_seconds` are
    the parts of it that its phases took, but for `checkpoint_seconds`: what training stood still
    for checkpoints, outside of it. A second execution reproduces all but the seconds.
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
    generation_seconds: float = 0.0
    reward_seconds: float = 0.0
    scoring_seconds: float = 0.0
    training_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    device_seconds: float = 0.0

    @property
    def flops(self) -> float:
        """FLOPs of all phases together."""
        generation = self.prefill_flops + self.decode_flops
        scoring = self.old_policy_flops + self.reference_flops
        return generation + scoring + self.training_flops

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
        return Compute(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Compute)}
        )


def has_reached(budget: float, spent: float, generations: int) -> bool:
    """Whether `generations`, with `spent` so far, are those nearest to `budget`, or past it.

    A generation costs spent / generations on average, so the next one would end further from the
    budget than this one once spent + half of that >= budget. It depends on the past alone: a run
    that goes on reaches the same budgets at the same steps. The factor absorbs rounding of sums
    of floats.
    """
    return generations > 0 and (spent + spent / (2 * generations)) * (1 + 1e-12) >= budget


def sits_at(budget: float, spent: float, generations: int) -> bool:
    """Whether a record after `generations` generations is the reading of `budget`.

    It is the one nearest to the budget when all cost the same; three quarters of a generation
    leave room for those that cost more than the mean.
    """
    return generations > 0 and abs(spent - budget) <= 0.75 * spent / generations
