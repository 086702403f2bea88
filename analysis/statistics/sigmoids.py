"""Saturating sigmoids fitted to very many curves at once: all runs, all bootstrap samples.

The curve is R(C) = R0 + a s(u), s(u) = 1 / (1 + exp(-u)), u = b (ln C - m), with a = A - R0 and
m = ln C_mid (ScaleRL, arXiv 2510.13786, eq. 1); R0 is given. The objective is the weighted sum of
squares, as in `scipy.optimize.curve_fit`. For given (m, b) the best a has a closed form (also
under its bounds, since the objective is a parabola in it), so the search is over two numbers:
first a grid, whose sums over records are matrix products shared by all samples of a run, then a
damped Newton iteration of the projected problem, every fit at once. (Gauss-Newton takes hundreds
of steps where residuals are large.)
"""

from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray

# How far C_mid may lie outside the records (a factor), and the range of exponents searched.
MIDPOINT_FACTOR = 1e3
EXPONENTS = (0.05, 20.0)
# Points of the grid that a fit starts from: midpoints below, among and above the records, and
# exponents. Among the records they lie close: a steep curve can sit between any two of them.
_MIDPOINTS, _NUM_EXPONENTS = (4, 60, 6), 14
_MAX_STEPS, _LONGEST = 200, 2.0
# Promised relative drop of the objective at which a fit has arrived.
_TOLERANCE = 1e-9
# So near to the end of its range (reward, ln C_mid, ln b) an estimate sits on its bound.
_NEAR = 1e-3
# Fits with a so near to its bound are searched again with a held there.
_HELD = 0.05
_TINY = 1e-300
# Fits worked on together: their arrays stay in the processor's cache.
_CHUNK = 2048


def logistic(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)), elementwise; `scipy.special.expit` takes twice as long."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-u)))


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Of targets y on columns x through the origin, by weighted sums over records.

    `square` of x x and `cross` of x y: (..., targets, columns); `total` of y y: (..., targets, 1).
    """

    square: FloatArray
    cross: FloatArray
    total: FloatArray

    def gain(
        self, least: float | FloatArray = -np.inf, most: float | FloatArray = np.inf
    ) -> FloatArray:
        """The best multiple of each column between `least` and `most`."""
        return np.asarray(np.clip(self.cross / np.maximum(self.square, _TINY), least, most))

    def misfit(self, gain: FloatArray) -> FloatArray:
        """The sum of squares that this multiple leaves."""
        return np.asarray(self.total - gain * (2 * self.cross - gain * self.square))


def regress(columns: FloatArray, targets: FloatArray, weight: FloatArray) -> Regression:
    """Of `targets`, (..., targets, records), on each of `columns`, (..., columns, records).

    `weight`: 1 / variance of each target, of its shape, 0 where there is no record.
    """
    turned = columns.swapaxes(-1, -2)
    return Regression(
        square=weight @ turned**2,
        cross=(weight * targets) @ turned,
        total=(weight * targets**2).sum(axis=-1, keepdims=True),
    )


def solve_pair(
    first: FloatArray, mixed: FloatArray, second: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """x and y, elementwise. Given: first x + mixed y = left, mixed x + second y = right."""
    determinant = np.maximum(first * second - mixed**2, _TINY)
    x, y = second * left - mixed * right, first * right - mixed * left
    return x / determinant, y / determinant


@dataclass(frozen=True, kw_only=True)
class Sigmoids:
    """Best fits. All arrays: (runs, samples).

    `asymptote` A, `midpoint` m = ln C_mid, `exponent` ln b, `objective` the weighted sum of
    squares; `on_bound`: whether A, m or ln b lies within 0.001 of the end of its range.
    """

    asymptote: FloatArray
    midpoint: FloatArray
    exponent: FloatArray
    objective: FloatArray
    on_bound: BoolArray


@dataclass(frozen=True)
class _Problem:
    """Flattened fits: (fits, records) arrays; bounds of a, (fits,), and of (m, ln b), (fits, 2).

    `root`: square roots of the weights, 0 for missing records; `target`: root x (reward - R0).
    """

    logs: FloatArray
    root: FloatArray
    target: FloatArray
    least: FloatArray
    most: FloatArray
    lower: FloatArray
    upper: FloatArray

    def of(self, chosen: slice | BoolArray | IntArray) -> "_Problem":
        return _Problem(*(array[chosen] for array in vars(self).values()))


def fit_sigmoids(
    compute: FloatArray,
    reward: FloatArray,
    weight: FloatArray,
    base: FloatArray,
    *,
    least_midpoint: FloatArray | None = None,
    asymptote: FloatArray | None = None,
) -> Sigmoids:
    """Weighted least squares of A in [0, 1], C_mid and b, for every sample of every run.

    `compute`: (runs, records), past step 0, ascending, NaN where a run has fewer; `reward` and
    `weight` (1 / variance): (runs, samples, records); `base` R0: (runs, samples).
    `least_midpoint`: (runs,) smallest ln C_mid allowed; by default a factor of 1,000 below the
    first record. `asymptote`: (runs, samples), to hold A there instead of fitting it.
    """
    runs, samples, records = reward.shape
    logs, reach = np.log(compute), np.log(MIDPOINT_FACTOR)
    low = np.nanmin(logs, axis=1) - reach if least_midpoint is None else least_midpoint
    high = np.nanmax(logs, axis=1) + reach
    present = np.isfinite(compute)[:, None, :]
    weight = np.where(present, weight, 0.0)
    rise = np.where(present, reward - base[..., None], 0.0)
    least, most = (-base, 1 - base) if asymptote is None else (asymptote - base,) * 2
    lower, upper = (
        np.repeat([(m, edge) for m in end], samples, axis=0)
        for end, edge in zip((low, high), np.log(EXPONENTS), strict=True)
    )
    problem = _Problem(
        logs=np.repeat(np.nan_to_num(logs), samples, axis=0),
        root=np.sqrt(weight).reshape(-1, records),
        target=(np.sqrt(weight) * rise).reshape(-1, records),
        least=least.reshape(-1),
        most=most.reshape(-1),
        lower=lower,
        upper=upper,
    )
    starts = np.concatenate(
        [
            _start(problem.of(slice(i * samples, (i + 1) * samples)), rise[i], weight[i])
            for i in range(runs)
        ]
    )
    theta = np.concatenate(
        [
            _search(problem.of(slice(i, i + _CHUNK)), starts[i : i + _CHUNK])
            for i in range(0, len(starts), _CHUNK)
        ]
    )
    gain, objective = _best_gain(problem, theta)
    on_bound = np.minimum(theta - lower, upper - theta).min(axis=1) < _NEAR
    if asymptote is None:
        on_bound |= np.minimum(gain - problem.least, problem.most - gain) < _NEAR
    found = gain.reshape(base.shape) + base, theta[:, 0], theta[:, 1], objective, on_bound
    return Sigmoids(
        **{
            name: array.reshape(runs, samples)
            for name, array in zip(Sigmoids.__annotations__, found, strict=True)
        }
    )


def _start(problem: _Problem, rise: FloatArray, weight: FloatArray) -> FloatArray:
    """The best (m, ln b) of a grid: (fits, 2), of the samples of one run."""
    logs, (low, flat), (high, steep) = problem.logs[0], problem.lower[0], problem.upper[0]
    seen = np.maximum(logs[weight.any(axis=0)], low)
    below, among, above = _MIDPOINTS
    midpoints = np.concatenate(
        [
            np.linspace(low, seen.min(), below, endpoint=False),
            np.linspace(seen.min(), seen.max(), among),
            np.linspace(seen.max(), high, above + 1)[1:],
        ]
    )
    exponents = np.linspace(flat, steep, _NUM_EXPONENTS)
    grid = np.stack(np.meshgrid(midpoints, exponents), axis=-1).reshape(-1, 2)
    found = regress(logistic(np.exp(grid[:, 1:]) * (logs - grid[:, :1])), rise, weight)
    gain = found.gain(problem.least[:, None], problem.most[:, None])
    return np.asarray(grid[found.misfit(gain).argmin(axis=1)])


def _dot(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", left, right))


def _best_gain(problem: _Problem, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The best a within its bounds at `theta`, and the objective with it: each (fits,)."""
    scaled = problem.root * logistic(np.exp(theta[:, 1:]) * (problem.logs - theta[:, :1]))
    gain = _dot(scaled, problem.target) / np.maximum(_dot(scaled, scaled), _TINY)
    gain = np.clip(gain, problem.least, problem.most)
    residual = gain[:, None] * scaled - problem.target
    return gain, _dot(residual, residual)


def _search(problem: _Problem, start: FloatArray) -> FloatArray:
    """The best theta: (fits, 2)."""
    theta, objective = _refine(problem, start)
    # Where the best a lies on its bound the projected problem has a kink, along which steps grow
    # short: there a is held, and the rest of the search is smooth.
    gain, _ = _best_gain(problem, theta)
    for end in (problem.least, problem.most):
        near = np.flatnonzero(np.abs(gain - end) < _HELD)
        if near.size:
            fixed = replace(problem.of(near), least=end[near], most=end[near])
            held, at = _refine(fixed, theta[near])
            better = at < objective[near]
            theta[near[better]], objective[near[better]] = held[better], at[better]
    return theta


def _refine(problem: _Problem, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The best theta near `start` and its objective: (fits, 2), (fits,).

    Levenberg-Marquardt with a damping of its own for every fit; a fit that has converged leaves.
    """
    theta, (_, objective) = start.copy(), _best_gain(problem, start)
    active, damping = np.arange(len(theta)), np.full(len(theta), 1e-3)
    for _ in range(_MAX_STEPS):
        step, promised = _step(problem, theta[active], damping)
        trial = np.clip(theta[active] + step, problem.lower, problem.upper)
        _, found = _best_gain(problem, trial)
        better = found <= objective[active]
        left = (promised > _TOLERANCE * objective[active]) | (damping > 1e-2)
        left &= damping < 1e10
        theta[active[better]], objective[active[better]] = trial[better], found[better]
        damping = np.where(better, damping / 10, np.maximum(damping, 1e-6) * 8)
        if not left.all():
            problem, active, damping = problem.of(left), active[left], damping[left]
            if not active.size:
                break
    return theta, objective


def _step(
    problem: _Problem, theta: FloatArray, damping: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """A damped Newton step of (m, ln b) with a projected out, and the drop of the objective that
    it promises: (fits, 2), (fits,).

    The Hessian H counts by its size, |H| = (H H + |det H| I) / sqrt(tr(H H) + 2 |det H|), which
    points downhill from saddles as well.
    """
    b = np.exp(theta[:, 1])
    u = b[:, None] * (problem.logs - theta[:, :1])
    s = logistic(u)
    scaled = problem.root * s
    norm = np.maximum(_dot(scaled, scaled), _TINY)
    best = _dot(scaled, problem.target) / norm
    a = np.clip(best, problem.least, problem.most)
    residual = a[:, None] * scaled - problem.target
    # First derivatives by (m, ln b) come from those by u, which itself has -b and u.
    slope = (1 - s) * scaled
    gradient_m, gradient_q = -b * _dot(slope, residual), _dot(u * slope, residual)
    # Where a sits on its bound it cannot follow.
    free = a == best
    follow_m = free * (gradient_m - a * b * _dot(slope, scaled))
    follow_q = free * (gradient_q + a * _dot(u * slope, scaled))
    bend = slope * (a[:, None] * slope + (1 - 2 * s) * residual)
    first = a * b**2 * bend.sum(axis=1) - follow_m**2 / norm
    mixed = a * (gradient_m - b * _dot(u, bend)) - follow_m * follow_q / norm
    second = a * (gradient_q + _dot(u * u, bend)) - follow_q**2 / norm
    gradient = a[:, None] * np.stack([gradient_m, gradient_q], axis=1)
    # A number on its bound that wants to go further stays.
    fixed = np.where(gradient > 0, theta <= problem.lower, theta >= problem.upper)
    gradient = np.where(fixed, 0.0, gradient)
    mixed = np.where(fixed.any(axis=1), 0.0, mixed)
    size = np.abs(first * second - mixed**2)
    trace = np.sqrt(np.maximum(first**2 + second**2 + 2 * mixed**2 + 2 * size, _TINY))
    step = -np.stack(
        solve_pair(
            (first**2 + mixed**2 + size) / trace * (1 + damping) + _TINY,
            mixed * (first + second) / trace,
            (second**2 + mixed**2 + size) / trace * (1 + damping) + _TINY,
            gradient[:, 0],
            gradient[:, 1],
        ),
        axis=1,
    )
    # A flat direction asks for the moon: no step is longer than the widest gap of the grid.
    step *= np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=1), _TINY))[:, None]
    return step, -_dot(step, gradient)
