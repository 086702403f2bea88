"""`mode=recommend`: how to split a budget."""

from typing import TYPE_CHECKING

from isosweep.compute import BudgetUnit
from isosweep.pricing import Pricing
from isosweep.words.numbers import amount, listed, ns, price, short

if TYPE_CHECKING:
    from isosweep.analysis.recommend import Recommendation


def recommendation(
    split: "Recommendation",
    unit: BudgetUnit,
    evaluation_set: str | None,
    confidence: float,
    pricing: Pricing,
) -> list[str]:
    """Return the setting for one budget, its reward, both n, and what that rests on, in lines."""
    setting = f"n = {split.num_generations}, B = {split.problems_per_batch}, T = {split.num_steps}"
    if split.learning_rate is not None:
        setting += f", learning rate {split.learning_rate:.3g}"
    if split.device_hours is not None:
        setting += f", device time {price(split.device_hours, pricing)}"
    lines = [f"at {amount(split.budget, unit)} use {setting}"]
    if split.reward is not None:
        scored = (
            "held-out reward" if evaluation_set is None else f"reward on the set {evaluation_set}"
        )
        low, high = split.interval or (None, None)
        ends = "" if low is None else f" ({confidence:.0%}: {low:.3f} to {high:.3f})"
        before = split.base_reward
        base = "" if before is None else f", {before:.3f} before training"
        lines.append(f"{scored}: {split.reward:.3f}{ends}{base}")
    if split.n_star:
        lines.append(f"n*, the best n ({confidence:.0%}): {split.n_star}")
    if split.n_d:
        n_d = f"n_d, the smallest n that is good enough ({confidence:.0%}): {split.n_d}"
        lines.append(n_d)
    budgets = listed([short(each) for each in split.basis.budgets])
    if split.missing:
        lines.append(f"not read at {budgets}: {ns(split.missing)}")
    if split.alternatives:
        lines.append(f"may be as good: {ns(split.alternatives)}")
    lines.append(f"basis: {_basis(split, budgets)}")
    if split.factor > 1.01:
        beyond = "no run went beyond the largest budget"
        lines.append(f"warning: {beyond}. Whether growth continues there is not known")
    return lines


def _basis(split: "Recommendation", budgets: str) -> str:
    match split.basis.kind:
        case "means":
            return "One seed, so no interval: the best mean at the nearest budget."
        case "surface":
            return f"The reward surface at {budgets}, over {split.basis.num_cells} (n, B)."
        case "growth":
            n = "its growth at the largest budgets, continued"
        case "last n":
            n = f"the best n at {budgets}, since its growth is not known"
    factor = short(split.factor)
    return f"Extrapolated to {factor} times the largest budget. n: {n}. B: that of {budgets}."
