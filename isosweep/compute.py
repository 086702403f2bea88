"""Compute spent: what budgets are made of, and when a run has reached one."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

BudgetUnit = Literal["flops", "rollouts", "tokens"]
BUDGET_UNITS: tuple[BudgetUnit, ...] = get_args(BudgetUnit)


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Cumulative compute of a run's training (evaluation stands outside the budget).

    Counts are exact; FLOPs follow `isosweep.flops`; `device_seconds` is training wall time times
    devices and the only field that a second execution of the run would not reproduce.
    """

    rollouts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefill_flops: float = 0.0
    decode_flops: float = 0.0
    reference_flops: float = 0.0
    training_flops: float = 0.0
    device_seconds: float = 0.0

    @property
    def flops(self) -> float:
        return self.prefill_flops + self.decode_flops + self.reference_flops + self.training_flops

    @property
    def tokens(self) -> int:
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

    def __add__(self, other: "Compute") -> "Compute":
        return Compute(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Compute)}
        )


def has_reached(budget: float, spent: float, steps: int) -> bool:
    """Whether step `steps`, with `spent` so far, is the one nearest to `budget`, or past it.

    A step costs spent / steps on average, so the next step would end further from the budget than
    this one once spent + half a step >= budget. It depends on the past alone: a run that goes on
    reaches the same budgets at the same steps. The factor absorbs rounding of sums of floats.
    """
    return steps > 0 and (spent + spent / (2 * steps)) * (1 + 1e-12) >= budget


def sits_at(budget: float, spent: float, steps: int) -> bool:
    """Whether a record after `steps` steps is the reading of `budget`.

    It is the step nearest to the budget when all steps cost the same; three quarters of a step
    leave room for steps that cost more than the mean.
    """
    return steps > 0 and abs(spent - budget) <= 0.75 * spent / steps
