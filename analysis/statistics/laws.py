"""Competing laws for the growth of n*(C), weighed by how well they explain its posterior.

They describe, and decide no verdict: of every form tried, some world has another (`growth`).

With t = log10 C and x* = log2 n*:

    constant    x* = c
    power       x* = a + g u,  u = (t - t0) / (t1 - t0)         n* grows as a power of C
    fall        x* = a - g u                                    n* falls as a power of C
    concave     x* = a + g ln(1 + k u) / ln(1 + k)              ever more slowly, without an end
    sigmoid     x* = b + (p - b) / (1 + exp(-k (t - c)))        n* settles at 2^p
    hump        x* = b + h exp(-((u - m) / w)^2 / 2)            n* rises, and falls back

the sigmoid as the IsoCompute Playbook fits it (arXiv 2603.12151). The evidence is n*(C) at every
budget as the reward surface has it: a mean and a covariance over budgets. A law is compared with
it after being cut off at the smallest and the largest n measured, for beyond them the surface
sees only the edge: a law may run off the grid and still agree. Laws start equally likely; their
parameters are averaged over wide uniform priors, so that a law with more of them pays for it, and
no number comes from an optimiser or its bounds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Share
from isosweep.analysis.statistics.growth import LEAST_CHANGE
from isosweep.analysis.statistics.intervals import Interval, central_quantiles

# A law need not fit more closely than this, in doublings of n.
_CLOSENESS = 0.125
# n* has settled from where on a law stays so near to its value at the last budget, in doublings.
SETTLED_WITHIN = 0.5
# Prior ends of the sigmoid's steepness, and of the concave law's, over the measured range of log10
# C: from next to a straight line to a rise that is over at once.
_STEEPNESS, _BENDS = (2.0, 40.0), (1.0, 1000.0)
# The same of the hump's width, as a standard deviation: from a peak of one budget to a slope that
# has hardly turned.
_WIDTHS = (0.05, 1.0)
# Rounds of importance sampling and points in each; share drawn from the prior in all of them.
_ROUNDS, _POINTS, _FROM_PRIOR = 4, 10_000, 0.2
# Computes at which the laws are drawn, and draws of them.
_CURVE, _CURVE_DRAWS = 60, 2000


def _constant(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    return np.asarray(ends[0] + (ends[1] - ends[0]) * points + 0 * at)


def _begin(points: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """x* at the first budget: a law that ends inside the grid may have begun half of it below, and
    one that begins inside may end half of it above."""
    return np.asarray(ends[0] + (ends[1] - ends[0]) * (1.5 * points[:, :1] - 0.5))


def _growth(points: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """Doublings by which a power law grows from the first budget to the last."""
    return np.asarray(1.5 * (ends[1] - ends[0]) * points[:, 1])


def _power(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    return np.asarray(_begin(points, ends) + _growth(points, ends)[:, None] * at)


def _fall(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    return np.asarray(ends[0] + ends[1] - _power(points, ends, at))


def _concave(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    low, high = np.log(_BENDS)
    bend = np.exp(low + (high - low) * points[:, 2:])
    risen = np.log1p(bend * np.maximum(at, 0)) / np.log1p(bend)
    return np.asarray(_begin(points, ends) + _growth(points, ends)[:, None] * risen)


def _sigmoid(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    reach = ends[1] - ends[0]
    rise = LEAST_CHANGE + (1.5 * reach - LEAST_CHANGE) * points[:, 1:2]
    low, high = np.log(_STEEPNESS)
    steepness = np.exp(low + (high - low) * points[:, 3:])
    left = rise * special.expit(steepness * (1.25 * points[:, 2:3] - 0.25 - at))
    return np.asarray(_begin(points, ends) + rise - left)


def _hump(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    """Its peak may lie an eighth of the range before the first budget or past the last."""
    reach = ends[1] - ends[0]
    low, high = np.log(_WIDTHS)
    width = np.exp(low + (high - low) * points[:, 3:])
    away = (at - (1.25 * points[:, 2:3] - 0.125)) / width
    height = 1.5 * reach * points[:, 1:2] * np.exp(-0.5 * away**2)
    return np.asarray(ends[0] + reach * points[:, :1] + height)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A form of n*(C). `words`: what it says; `parameters`: how many it has.

    `log2_n` has x* at times `at`, 0 at the first budget and 1 at the last, by points of the unit
    cube with a side a parameter and the two ends of the grid: (points, times).
    """

    words: str
    parameters: int
    log2_n: Callable[[FloatArray, tuple[float, float], FloatArray], FloatArray]

    def seen(self, points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
        """x* as the grid shows it: cut off at its ends."""
        return np.clip(self.log2_n(points, ends, at), *ends)


LAWS: Final[Mapping[str, Law]] = {
    "constant": Law(words="n* is the same at every compute", parameters=1, log2_n=_constant),
    "power": Law(words="n* = a C^b, without end", parameters=2, log2_n=_power),
    "fall": Law(words="n* = a C^-b, without end", parameters=2, log2_n=_fall),
    "concave": Law(words="growth that slows all the way", parameters=3, log2_n=_concave),
    "sigmoid": Law(words="growth from one level to another", parameters=4, log2_n=_sigmoid),
    "hump": Law(words="a rise to a peak, and a fall", parameters=4, log2_n=_hump),
}


@dataclass(frozen=True, kw_only=True)
class Laws:
    """What the laws say together."""

    probabilities: Mapping[str, Share]
    """Probability of each law, by its name. Shares."""
    settles_at: Interval
    """Compute from which on n* stays within half a doubling of that at the last budget, in
    budget_unit."""
    exponent: Interval | None
    """Of n* ~ C^exponent, if a power law holds. No unit."""
    compute: tuple[float, ...]
    """Compute of the points of curve, in budget_unit."""
    curve: tuple[Interval, ...]
    """n*(C) by all laws."""
    fit: Share
    """Chance of a misfit as large as the best law's."""


def weigh_laws(
    log2_best_n: FloatArray,
    budgets: tuple[float, ...],
    log2_grid: FloatArray,
    confidence: float,
    *,
    until: float = 0.0,
    seed: int = 0,
) -> Laws:
    """`log2_best_n`: (draws, budgets), between the ends of `log2_grid`: log2 of every n measured.

    At least two budgets and two n. The curve ends at compute `until`, or at the last budget if
    that is later.
    """
    ends = float(log2_grid[0]), float(log2_grid[-1])
    t = np.log10(np.array(budgets))
    span = float(t[-1] - t[0])
    rng = np.random.default_rng(seed)
    mean = log2_best_n.mean(axis=0)
    root = np.linalg.cholesky(np.cov(log2_best_n.T) + _CLOSENESS**2 * np.eye(len(t)))

    def misfit(points: FloatArray) -> FloatArray:
        return np.asarray((np.linalg.solve(root, (points - mean).T) ** 2).sum(axis=0))

    def explore(law: Law) -> tuple[FloatArray, FloatArray]:
        times = (t - t[0]) / span
        return _explore(lambda points: misfit(law.seen(points, ends, times)), law.parameters, rng)

    explored = {name: explore(law) for name, law in LAWS.items()}
    # A common factor keeps the best law's weights above the smallest number there is.
    top = max(float(logs.max()) for _, logs in explored.values())
    weights = {name: np.exp(logs - top) / len(logs) for name, (_, logs) in explored.items()}
    total = sum(float(weight.sum()) for weight in weights.values())
    weights = {name: weight / total for name, weight in weights.items()}
    growth = _growth(explored["power"][0], ends)
    at = np.linspace(0, max(1.0, (np.log10(max(until, 1e-300)) - t[0]) / span), _CURVE)
    weighted = [(law, explored[name][0], weights[name]) for name, law in LAWS.items()]
    drawn = _drawn(weighted, ends, at, rng)
    within = np.linspace(0, 1, _CURVE)
    arrival = _arrival(_drawn(weighted, ends, within, rng), within)
    times = (t - t[0]) / span
    least = min(float(misfit(law.seen(p, ends, times)).min()) for law, p, _ in weighted)
    return Laws(
        probabilities={name: float(weight.sum()) for name, weight in weights.items()},
        settles_at=Interval.central(10.0 ** (t[0] + span * arrival), confidence),
        exponent=Interval.weighted(growth * np.log10(2) / span, weights["power"], confidence),
        compute=tuple((10.0 ** (t[0] + span * at)).tolist()),
        curve=tuple(map(Interval.of, (2.0 ** central_quantiles(drawn, confidence)).T)),
        fit=float(special.chdtrc(len(t), least)),
    )


def _drawn(
    weighted: Sequence[tuple[Law, FloatArray, FloatArray]],
    ends: tuple[float, float],
    at: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """x* at times `at` by laws drawn from all: (draws, times), cut off at the ends of the grid.

    `weighted`: each law with its points and their weights.
    """
    drawn = []
    for law, points, weight in weighted:
        count = rng.binomial(_CURVE_DRAWS, min(1.0, float(weight.sum())))
        if count:
            chosen = rng.choice(len(points), count, p=weight / weight.sum())
            drawn.append(law.seen(points[chosen], ends, at))
    return np.concatenate(drawn)


def _arrival(drawn: FloatArray, at: FloatArray) -> FloatArray:
    """Time from which on each of the laws drawn (draws, times) stays near its last value."""
    near = np.abs(drawn - drawn[:, -1:]) <= SETTLED_WITHIN
    return np.asarray(
        at[np.argmax(np.logical_and.accumulate(near[:, ::-1], axis=1)[:, ::-1], axis=1)]
    )


def _explore(
    misfit: Callable[[FloatArray], FloatArray], size: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Points (points, size) of the unit cube, and logs of weights whose mean is the evidence.

    Adaptive importance sampling (population Monte Carlo, Cappé et al. 2004): each round draws
    from a normal around what the rounds before have shown, and in part from the prior.
    """
    from scipy import stats

    points, densities = rng.random((_POINTS, size)), np.ones(_POINTS)
    logs = -0.5 * misfit(points)
    for _ in range(_ROUNDS):
        weight = _flattened(logs - np.log(densities))
        centre = weight @ points
        spread = np.atleast_2d(np.cov(points.T, aweights=weight)) * 2 + 1e-6 * np.eye(size)
        normal = stats.multivariate_normal(centre, spread)
        fresh = np.vstack(
            [
                rng.random((round(_POINTS * _FROM_PRIOR), size)),
                normal.rvs(round(_POINTS * (1 - _FROM_PRIOR)), rng).reshape(-1, size),
            ]
        )
        points = fresh.clip(0, 1)
        densities = _FROM_PRIOR + (1 - _FROM_PRIOR) * np.atleast_1d(normal.pdf(fresh))
        # Points that fell outside the cube weigh nothing.
        outside = ((fresh < 0) | (fresh > 1)).any(axis=1)
        logs = np.where(outside, -np.inf, -0.5 * misfit(points))
    return points, logs - np.log(densities)


def _flattened(logs: FloatArray) -> FloatArray:
    """Weights, tempered until at least a tenth of a per cent of the points counts."""
    for power in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01):
        weight = special.softmax(power * (logs - logs.max()))
        if 1 / (weight**2).sum() >= 0.005 * len(weight):
            break
    return np.asarray(weight)
