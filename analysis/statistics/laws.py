"""Competing laws for the growth of n*(C), weighed by how well they explain its posterior.

They describe, and decide no verdict: of every form tried, some world has another (`growth`).

With t = log10 C and x* = log2 n*:

    constant    x* = c
    power       x* = a + g u,  u = (t - t0) / (t1 - t0)         n* grows as a power of C
    concave     x* = a + g ln(1 + k u) / ln(1 + k)              ever more slowly, without an end
    sigmoid     x* = b + (p - b) / (1 + exp(-k (t - c)))        n* settles at 2^p

the last as the IsoCompute Playbook fits it (arXiv 2603.12151). The evidence is n*(C) at every
budget as the reward surface has it: a mean and a covariance over budgets. A law is compared with
it after being cut off at the smallest and the largest n measured, for beyond them the surface
sees only the edge: a law may run off the grid and still agree. Laws start equally likely; their
parameters are averaged over wide uniform priors, so that a law with more of them pays for it, and
no number comes from an optimiser or its bounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
# Rounds of importance sampling and points in each; share drawn from the prior in all of them.
_ROUNDS, _POINTS, _FROM_PRIOR = 4, 10_000, 0.2
# Computes at which the laws are drawn, and draws of them.
_CURVE, _CURVE_DRAWS = 60, 2000


@dataclass(frozen=True, kw_only=True)
class Probabilities:
    """Of each law."""

    constant: Share
    """The constant law."""
    power: Share
    """The power law."""
    concave: Share
    """The concave law."""
    sigmoid: Share
    """The sigmoid law."""


@dataclass(frozen=True, kw_only=True)
class Laws:
    """What the laws say together."""

    probabilities: Probabilities
    """Probability of each law. Shares."""
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
        seen = np.clip(_law(points, ends, (t - t[0]) / span), *ends)
        return np.asarray((np.linalg.solve(root, (seen - mean).T) ** 2).sum(axis=0))

    explored = {name: _explore(misfit, size, rng) for name, size in _SIZES.items()}
    # A common factor keeps the best law's weights above the smallest number there is.
    top = max(float(logs.max()) for _, logs in explored.values())
    weights = {name: np.exp(logs - top) / len(logs) for name, (_, logs) in explored.items()}
    total = sum(float(weight.sum()) for weight in weights.values())
    weights = {name: weight / total for name, weight in weights.items()}
    growth = _growth(explored["power"][0], ends)
    at = np.linspace(0, max(1.0, (np.log10(max(until, 1e-300)) - t[0]) / span), _CURVE)
    weighted = [(explored[name][0], weights[name]) for name in explored]
    drawn = _drawn(weighted, ends, at, rng)
    within = np.linspace(0, 1, _CURVE)
    arrival = _arrival(_drawn(weighted, ends, within, rng), within)
    least = min(float(misfit(points).min()) for points, _ in explored.values())
    return Laws(
        probabilities=Probabilities(
            constant=float(weights["constant"].sum()),
            power=float(weights["power"].sum()),
            concave=float(weights["concave"].sum()),
            sigmoid=float(weights["sigmoid"].sum()),
        ),
        settles_at=Interval.central(10.0 ** (t[0] + span * arrival), confidence),
        exponent=Interval.weighted(growth * np.log10(2) / span, weights["power"], confidence),
        compute=tuple((10.0 ** (t[0] + span * at)).tolist()),
        curve=tuple(map(Interval.of, (2.0 ** central_quantiles(drawn, confidence)).T)),
        fit=float(special.chdtrc(len(t), least)),
    )


def _drawn(
    weighted: Sequence[tuple[FloatArray, FloatArray]],
    ends: tuple[float, float],
    at: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """x* at times `at` by laws drawn from all: (draws, times), cut off at the ends of the grid.

    `weighted`: points and weights of each law.
    """
    drawn = []
    for points, weight in weighted:
        count = rng.binomial(_CURVE_DRAWS, min(1.0, float(weight.sum())))
        if count:
            chosen = rng.choice(len(points), count, p=weight / weight.sum())
            drawn.append(np.clip(_law(points[chosen], ends, at), *ends))
    return np.concatenate(drawn)


def _arrival(drawn: FloatArray, at: FloatArray) -> FloatArray:
    """Time from which on each of the laws drawn (draws, times) stays near its last value."""
    near = np.abs(drawn - drawn[:, -1:]) <= SETTLED_WITHIN
    return np.asarray(
        at[np.argmax(np.logical_and.accumulate(near[:, ::-1], axis=1)[:, ::-1], axis=1)]
    )


# Parameters of each law: points of the unit cube with so many sides.
_SIZES = {"constant": 1, "power": 2, "concave": 3, "sigmoid": 4}


def _law(points: FloatArray, ends: tuple[float, float], at: FloatArray) -> FloatArray:
    """x* at times `at` (0 at the first budget, 1 at the last): (points, times).

    A law that ends inside the grid may have begun half the grid below it, and one that begins
    inside may end half the grid above it.
    """
    match points.shape[1]:
        case 1:
            return np.asarray(ends[0] + (ends[1] - ends[0]) * points + 0 * at)
        case 2:
            begin = ends[0] + (ends[1] - ends[0]) * (1.5 * points[:, :1] - 0.5)
            return np.asarray(begin + _growth(points, ends)[:, None] * at)
        case 3:
            low, high = np.log(_BENDS)
            bend = np.exp(low + (high - low) * points[:, 2:])
            risen = np.log1p(bend * np.maximum(at, 0)) / np.log1p(bend)
            begin = ends[0] + (ends[1] - ends[0]) * (1.5 * points[:, :1] - 0.5)
            return np.asarray(begin + _growth(points, ends)[:, None] * risen)
        case _:
            sigmoid = _Sigmoid.of(points[:, :, None], ends)
            return np.asarray(sigmoid.plateau - sigmoid.left(at))


def _growth(points: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """Doublings by which a power law grows from the first budget to the last."""
    return np.asarray(1.5 * (ends[1] - ends[0]) * points[:, 1])


@dataclass(frozen=True)
class _Sigmoid:
    """Arrays that broadcast: levels in log2 n, middle and steepness in shares of the range."""

    plateau: FloatArray
    rise: FloatArray
    middle: FloatArray
    steepness: FloatArray

    @classmethod
    def of(cls, points: FloatArray, ends: tuple[float, float]) -> "_Sigmoid":
        reach = ends[1] - ends[0]
        start = ends[0] + reach * (1.5 * points[:, 0] - 0.5)
        rise = LEAST_CHANGE + (1.5 * reach - LEAST_CHANGE) * points[:, 1]
        low, high = np.log(_STEEPNESS)
        return cls(
            plateau=start + rise,
            rise=rise,
            middle=1.25 * points[:, 2] - 0.25,
            steepness=np.exp(low + (high - low) * points[:, 3]),
        )

    def left(self, at: float | FloatArray) -> FloatArray:
        """Doublings that are still to come."""
        return np.asarray(self.rise * special.expit(self.steepness * (self.middle - at)))


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
