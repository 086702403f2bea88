"""The gradient's noise scale against compute, and whether n*(C) goes with it."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from isosweep.gradient_noise import GradientNoise, noise_ratio

# Records of the last so many doublings of compute say what the noise is at a budget.
_WINDOW = 2.0
# Of all orders of the budgets, fewer than this share may agree as well by chance.
_CHANCE = 0.1
# The most budgets of which all orders are tried.
_MOST = 7


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The noise in a run's record, after `compute`."""

    compute: float
    noise: GradientNoise


@dataclass(frozen=True, kw_only=True)
class NoiseAt:
    """The noise at a budget, over all n whose runs were measured near it.

    `rollouts`: the critical batch tr(V_w) / |G|^2, of the variance between rollouts of a problem,
    in rollouts; `best_n`: that divided by B, the n at which noise between rollouts and gradient are
    of one size (Critical Batch Size for LLM Policy Optimization, openreview uK4kMpNx0W: that
    variance dominates, and n B is what counts). `crossing_n`: V_w / V_b, the n up to which noise
    between rollouts exceeds that between problems. None where an estimate is not positive.
    """

    budget: float
    updates: int
    rollouts: float | None
    best_n: float | None
    crossing_n: float | None


def noise_at(budget: float, measured: Iterable[Measured], problems_per_batch: int) -> NoiseAt:
    """Means over the updates measured between a quarter of `budget` and `budget`, all runs alike:
    a ratio of means, not a mean of ratios."""
    near = [
        each.noise
        for each in measured
        if budget / 2**_WINDOW < each.compute <= budget * 1.02 and each.noise.gradient is not None
    ]
    gradient, between, within = (
        math.fsum((getattr(noise, name) or 0.0) * noise.updates for noise in near)
        for name in ("gradient", "between_problems", "within_problems")
    )
    rollouts = noise_ratio(within, gradient)
    return NoiseAt(
        budget=budget,
        updates=sum(noise.updates for noise in near),
        rollouts=rollouts,
        best_n=None if rollouts is None else rollouts / problems_per_batch,
        crossing_n=noise_ratio(within, between),
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two series rise together over budgets.

    `tau`: Kendall's rank correlation, None below two budgets. `chance`: the share of all orders of
    the budgets that have a |tau| as large. `kind`: `agrees` or `disagrees` where that is below 10%,
    else `cannot_tell`; below five budgets always.
    """

    budgets: int
    tau: float | None
    chance: float
    kind: Literal["agrees", "disagrees", "cannot_tell"]


def rank_agreement(predicted: Sequence[float | None], found: Sequence[float | None]) -> Agreement:
    """How far `found`, (budgets,), goes with `predicted`; budgets where either is None are left
    out, and of more than seven the last seven are taken."""
    pairs = [
        (x, y) for x, y in zip(predicted, found, strict=True) if x is not None and y is not None
    ]
    pairs = pairs[-_MOST:]
    if len(pairs) < 2:
        return Agreement(budgets=len(pairs), tau=None, chance=1.0, kind="cannot_tell")
    first, second = zip(*pairs, strict=True)
    tau = _tau(first, second)
    orders = [abs(_tau(first, order)) for order in itertools.permutations(second)]
    chance = sum(own >= abs(tau) - 1e-12 for own in orders) / len(orders)
    told = chance < _CHANCE and len(pairs) >= 5
    kind: Literal["agrees", "disagrees"] = "agrees" if tau > 0 else "disagrees"
    return Agreement(
        budgets=len(pairs), tau=tau, chance=chance, kind=kind if told else "cannot_tell"
    )


def _tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-a, in which ties count for nothing."""
    pairs = list(itertools.combinations(zip(first, second, strict=True), 2))
    return sum(_sign(a - c) * _sign(b - d) for (a, b), (c, d) in pairs) / len(pairs)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
