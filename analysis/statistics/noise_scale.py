"""The gradient's noise scale against compute, and whether n*(C) goes with it."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Count, NotNegative, Positive, Share
from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.intervals import upper_share
from isosweep.analysis.statistics.optima import BestGenerations, Range
from isosweep.gradient_noise import GradientNoise, noise_ratio

# Records of the last so many doublings of compute say what the noise is at a budget.
_WINDOW = 2.0
# Compute that may miss its budget by so much.
_NEAR = 1.02
# Fewer runs than this have no spread to speak of.
_LEAST_RUNS = 3
# Of all orders of the budgets, fewer than this share may agree as well by chance.
_CHANCE = 0.1
# The fewest budgets whose order says anything, and the most of which all orders are tried.
_LEAST, _MOST = 5, 7


@dataclass(frozen=True, kw_only=True)
class NoiseAt:
    """The noise at a budget, over all n whose runs were measured near it and had not collapsed."""

    budget: Positive
    """In budget_unit."""
    updates: Count
    """Updates measured near it."""
    runs: Count
    """Runs that made them."""
    critical_rollouts: Positive | None
    """The critical batch: variance between rollouts of a problem over the squared gradient, in
    rollouts. Null where an estimate is not positive."""
    predicted_n: Positive | None
    """The critical batch divided by the best B: at this n, noise between rollouts and gradient are
    of one size."""
    predicted_low: NotNegative | None
    """Lower end of its interval; null with fewer than three runs, or where they do not decide."""
    predicted_high: Positive | None
    """Upper end; null likewise, and where the gradient cannot be distinguished from 0."""
    crossing_n: Positive | None
    """The n up to which noise between rollouts exceeds noise between problems."""
    compared: Literal["compatible", "too large", "too small", "cannot tell"]
    """predicted_n against n*. compatible: their intervals overlap; too large, too small: the
    predicted n is, by all of its interval; cannot tell: an interval is not known, or holds every n
    that was run, or n* may lie beyond these where the predicted n does."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two series rise together over budgets."""

    budgets: Count
    """Budgets with both numbers, a factor of four or more apart: from the largest down, and seven
    at most."""
    tau: float | None
    """Kendall's rank correlation; null below two budgets. No unit."""
    chance: Share
    """Of all orders of these budgets, those that have a tau as large, of either sign."""
    kind: Literal["agrees", "disagrees", "cannot tell"]
    """agrees, disagrees: chance is below 10%; cannot tell: it is not, or budgets are below five."""


@dataclass(frozen=True, kw_only=True)
class NoiseScale:
    """The n that the gradient's noise predicts, and whether n* goes with it."""

    budgets: tuple[NoiseAt, ...]
    """Every budget with n*, ascending."""
    agreement: Agreement
    """Of predicted_n and the median of n*, over budgets."""


def noise_scale(
    curves: Sequence[Curve], frontier: Frontier, optima: Sequence[BestGenerations]
) -> NoiseScale | None:
    """The noise at every budget beside n*; None where no run measured it.

    The critical batch is tr(V_w) / |G|^2, for variance between rollouts of a problem dominates, and
    n B is what counts (Critical Batch Size for LLM Policy Optimization, openreview uK4kMpNx0W).
    """
    if not any(curve.noise for curve in curves):
        return None
    at_budgets = {each.budget: each for each in frontier.budgets}
    pairs: list[tuple[float, float]] = []
    budgets: list[NoiseAt] = []
    apart = math.inf
    for optimum in reversed(optima):
        at, n_star = at_budgets[optimum.budget], optimum.of("best")
        noise = noise_at(at.budget, curves, at.best.cell.problems_per_batch, frontier.confidence)
        budgets.insert(0, replace(noise, compared=compare(noise, n_star, at.measured)))
        # Of budgets that are nearer, the same updates say what the noise is.
        if noise.predicted_n and n_star and at.budget * 2**_WINDOW <= apart * _NEAR:
            pairs.insert(0, (noise.predicted_n, n_star.interval.median))
            apart = at.budget
    return NoiseScale(budgets=tuple(budgets), agreement=rank_agreement(pairs[-_MOST:]))


def noise_at(
    budget: float, curves: Sequence[Curve], problems_per_batch: int, confidence: float
) -> NoiseAt:
    """Means over the updates measured between a quarter of `budget` and `budget`, all runs alike:
    a ratio of means, not a mean of ratios. The interval takes runs as independent."""
    near = [noises for curve in curves if (noises := _near(curve, budget))]
    updates = sum(noise.updates for noises in near for noise in noises)
    sums = np.array([_sums(noises) for noises in near]).reshape(-1, 3)
    gradient, between, within = (math.fsum(column) for column in sums.T)
    rollouts = noise_ratio(within, gradient)
    low, high = ratio_interval(sums[:, 2], sums[:, 0], confidence)
    per_batch = 1 / problems_per_batch
    return NoiseAt(
        budget=budget,
        updates=updates,
        runs=len(near),
        critical_rollouts=rollouts,
        predicted_n=rollouts and rollouts * per_batch,
        predicted_low=None if low is None else low * per_batch,
        predicted_high=None if high is None else high * per_batch,
        crossing_n=noise_ratio(within, between),
        compared="cannot tell",
    )


def _near(curve: Curve, budget: float) -> list[GradientNoise]:
    """What the run measured near the budget, before it collapsed."""
    end = math.inf if curve.collapsed_at is None else float(curve.compute[curve.collapsed_at])
    return [
        noise
        for compute, noise in curve.noise
        if budget / 2**_WINDOW < compute <= budget * _NEAR
        and compute < end
        and noise.gradient is not None
    ]


def _sums(noises: Sequence[GradientNoise]) -> list[float]:
    """Over updates: squared gradient, variance between problems, and between rollouts."""
    return [
        math.fsum((getattr(noise, name) or 0.0) * noise.updates for noise in noises)
        for name in ("gradient", "between_problems", "within_problems")
    ]


def ratio_interval(
    above: FloatArray, below: FloatArray, confidence: float
) -> tuple[float | None, float | None]:
    """Ends of Fieller's interval for E(above) / E(below), of which (runs,) are means; no negative
    part. (None, None) where every ratio is possible; the upper end alone is None where `below` may
    be 0.

    Given: the ratio r is possible if mean(above - r below)^2 <= t^2 var(above - r below) / runs.
    That is a r^2 - 2 b r + c <= 0 with a, b, c of means and covariances; its roots are the ends.
    Source: Fieller 1954, Some problems in interval estimation, J. R. Stat. Soc. B 16.
    """
    from scipy import stats

    runs = len(above)
    if runs < _LEAST_RUNS or not above.any() or not below.any():
        return None, None
    # Both of one size, so that nothing under- or overflows.
    unit = float(np.abs(above).max()), float(np.abs(below).max())
    both = np.stack([above / unit[0], below / unit[1]])
    factor = float(stats.t.ppf(upper_share(confidence), runs - 1)) ** 2 / runs
    means, spread = both.mean(axis=1), np.cov(both)
    c, a = (means**2 - factor * np.diag(spread)).tolist()
    b = float(means[0] * means[1] - factor * spread[0, 1])
    root = b**2 - a * c
    if a == 0 or root < 0:
        return None, None
    first, last = sorted(((b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a))
    scale = unit[0] / unit[1]
    if a > 0:
        return (max(first, 0.0) * scale, last * scale) if last > 0 else (None, None)
    # Outside the roots: of those above 0 the ones from the larger root on.
    return (last * scale, None) if first <= 0 < last else (None, None)


def compare(
    noise: NoiseAt, n_star: Range | None, measured: Sequence[int]
) -> Literal["compatible", "too large", "too small", "cannot tell"]:
    """The predicted n against n*, as `NoiseAt.compared`; `measured`: the n that were run."""
    if noise.predicted_low is None or n_star is None:
        return "cannot tell"
    ends = noise.predicted_low, noise.predicted_high or math.inf
    interval = n_star.interval
    for low, high in (ends, (interval.low, interval.high)):
        if low <= min(measured) and high >= max(measured):
            return "cannot tell"
    if ends[0] > interval.high:
        return "cannot tell" if n_star.open_above else "too large"
    if ends[1] < interval.low:
        return "cannot tell" if n_star.open_below else "too small"
    return "compatible"


def rank_agreement(pairs: Sequence[tuple[float, float]]) -> Agreement:
    """How far the second numbers go with the first: a pair a budget, of which all orders are
    tried."""
    if len(pairs) < 2:
        return Agreement(budgets=len(pairs), tau=None, chance=1.0, kind="cannot tell")
    first, second = zip(*pairs, strict=True)
    tau = _tau(first, second)
    orders = [abs(_tau(first, order)) for order in itertools.permutations(second)]
    chance = sum(own >= abs(tau) - 1e-12 for own in orders) / len(orders)
    told = chance < _CHANCE and len(pairs) >= _LEAST
    kind: Literal["agrees", "disagrees"] = "agrees" if tau > 0 else "disagrees"
    return Agreement(
        budgets=len(pairs), tau=tau, chance=chance, kind=kind if told else "cannot tell"
    )


def _tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-a, in which ties count for nothing."""
    pairs = list(itertools.combinations(zip(first, second, strict=True), 2))
    return sum(_sign(a - c) * _sign(b - d) for (a, b), (c, d) in pairs) / len(pairs)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
