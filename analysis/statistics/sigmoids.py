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
from numpy.typing import NDArray

from isosweep.analysis.arrays import FloatArray

BoolArray = NDArray[np.bool_]

# How far C_mid may lie outside the records (a factor), and the range of exponents searched.
MIDPOINT_FACTOR = 1e3
EXPONENTS = (0.05, 20.0)
# Points of the first grid: midpoints below, among and above the records, and exponents. Among
# the records they lie close, because a steep curve can sit between any two of them.
_MIDPOINTS = (4, 28, 6)
_NUM_EXPONENTS = 8
# Starts refined for every fit: the best of so many bands of midpoints.
_STARTS = 3
_FIRST_STEPS = 2
_MAX_STEPS = 200
_LONGEST = 2.0
# Promised relative drop of the objective at which a fit has arrived.
_TOLERANCE = 1e-9
# So near to the end of its range (reward, ln C_mid, ln b) an estimate sits on its bound.
_NEAR = 1e-3
# Fits with a so near to its bound are searched again with a held there.
_HELD = 0.05
# Below it Gompertz's curve is 0 to the last digit, and its inner exponential would overflow.
_LOWEST = -10.0
# Fits worked on together: their arrays stay in the processor's cache.
_CHUNK = 2048


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


@dataclass
class _Problem:
    """Flattened fits: (fits, records) arrays, (fits,) bounds.

    `root`: square roots of the weights, 0 for missing records; `target`: root x (reward - R0).
    """

    logs: FloatArray
    root: FloatArray
    target: FloatArray
    least: FloatArray
    most: FloatArray
    lower: FloatArray
    upper: FloatArray

    def of(self, chosen: slice | BoolArray | NDArray[np.int64]) -> "_Problem":
        return _Problem(*(array[chosen] for array in vars(self).values()))


@dataclass
class _State:
    """Where fits are: `theta` (fits, 2), gain and objective (fits,), (fits, records) arrays of
    u, of 1 - s, of root x s and of the weighted residual."""

    theta: FloatArray
    gain: FloatArray
    objective: FloatArray
    u: FloatArray
    rest: FloatArray
    scaled: FloatArray
    residual: FloatArray

    def of(self, chosen: BoolArray) -> "_State":
        return _State(*(array[chosen] for array in vars(self).values()))

    def take(self, other: "_State", chosen: BoolArray) -> None:
        """Go on from `other` where `chosen`."""
        for name, array in vars(self).items():
            array[chosen] = getattr(other, name)[chosen]


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
    present = np.isfinite(compute)
    logs = np.log(np.where(present, compute, 1.0))
    weight = np.where(present[:, None, :], weight, 0.0)
    rise = np.where(present[:, None, :], reward - base[..., None], 0.0)
    reach = np.log(MIDPOINT_FACTOR)
    low = np.where(present, logs, np.inf).min(axis=1) - reach
    high = np.where(present, logs, -np.inf).max(axis=1) + reach
    if least_midpoint is not None:
        low = least_midpoint
    runs, samples, records = reward.shape
    least, most = (-base, 1 - base) if asymptote is None else (asymptote - base,) * 2
    starts = _grid_starts(logs, rise, weight, (least, most), (low, high))
    edges = np.log(np.array(EXPONENTS))
    root = np.sqrt(weight).reshape(-1, records)
    ends = [
        np.stack([np.repeat(end, samples), np.full(runs * samples, edge)], axis=1)
        for end, edge in zip((low, high), edges, strict=True)
    ]
    problem = _Problem(
        logs=np.repeat(logs, samples, axis=0),
        root=root,
        target=root * rise.reshape(-1, records),
        least=least.reshape(-1),
        most=most.reshape(-1),
        lower=ends[0],
        upper=ends[1],
    )
    parts = [
        _refine_best(problem.of(slice(begin, begin + _CHUNK)), starts[:, begin : begin + _CHUNK])
        for begin in range(0, runs * samples, _CHUNK)
    ]
    theta, gain, objective = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    at_end = (theta - problem.lower < _NEAR) | (problem.upper - theta < _NEAR)
    on_bound = at_end.any(axis=1)
    if asymptote is None:
        on_bound |= (gain - problem.least < _NEAR) | (problem.most - gain < _NEAR)
    shape = (runs, samples)
    return Sigmoids(
        asymptote=gain.reshape(shape) + base,
        midpoint=theta[:, 0].reshape(shape),
        exponent=theta[:, 1].reshape(shape),
        objective=objective.reshape(shape),
        on_bound=on_bound.reshape(shape),
    )


def _grid_starts(
    logs: FloatArray,
    rise: FloatArray,
    weight: FloatArray,
    gains: tuple[FloatArray, FloatArray],
    midpoint_ends: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """The best (m, ln b) of the grid in each band of midpoints: (starts, fits, 2).

    `gains`: least and most a, (runs, samples); `midpoint_ends`: least and most m, (runs,).
    """
    edges = np.log(np.array(EXPONENTS))
    low, high = midpoint_ends
    exponents = np.linspace(edges[0], edges[1], _NUM_EXPONENTS)
    bands = np.array_split(np.arange(sum(_MIDPOINTS)), _STARTS)
    starts: list[list[FloatArray]] = [[] for _ in bands]
    for run in range(len(logs)):
        midpoints = _midpoints(logs[run][weight[run].any(axis=0)], low[run], high[run])
        u = np.exp(exponents)[None, :, None] * (logs[run] - midpoints[:, None, None])
        basis = logistic(u).reshape(-1, logs.shape[1])  # (grid, records)
        weighted = weight[run] * rise[run]
        cross, square = weighted @ basis.T, weight[run] @ (basis**2).T  # (samples, grid)
        total = (weighted * rise[run]).sum(axis=1)[:, None]
        gain = cross / np.maximum(square, 1e-300)
        gain = np.clip(gain, gains[0][run][:, None], gains[1][run][:, None])
        objective = total - 2 * gain * cross + gain**2 * square
        table = objective.reshape(-1, len(midpoints), len(exponents))
        for band, chosen in zip(bands, starts, strict=True):
            part = table[:, band].reshape(len(table), -1)
            at = part.argmin(axis=1)
            place = midpoints[band[at // len(exponents)]], exponents[at % len(exponents)]
            chosen.append(np.stack(place, axis=1))
    return np.array([np.concatenate(chosen) for chosen in starts])


def _midpoints(logs: FloatArray, low: float, high: float) -> FloatArray:
    """ln C_mid to try, ascending: `_MIDPOINTS` below, among and above the records."""
    first, last = max(float(logs.min()), low), max(float(logs.max()), low)
    below = np.linspace(low, first, _MIDPOINTS[0], endpoint=False)
    among = np.linspace(first, last, _MIDPOINTS[1])
    above = np.linspace(last, high, _MIDPOINTS[2] + 1)[1:]
    return np.concatenate([below, among, above])


def logistic(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)), elementwise.

    Not `scipy.special.expit`, which rounds some values otherwise in their last bit: fits that have
    been written would change.
    """
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-u)))


def gompertz(u: FloatArray) -> FloatArray:
    """exp(-exp(-u)), elementwise: Gompertz's curve, which starts faster than it ends."""
    return np.asarray(np.exp(-np.exp(-np.maximum(u, _LOWEST))))


def _evaluate(problem: _Problem, theta: FloatArray) -> _State:
    """Everything at `theta`, with the best a within its bounds."""
    u = np.exp(theta[:, 1:]) * (problem.logs - theta[:, :1])
    s = logistic(u)
    scaled = problem.root * s
    gain = _dot(scaled, problem.target) / np.maximum(_dot(scaled, scaled), 1e-300)
    gain = np.clip(gain, problem.least, problem.most)
    residual = gain[:, None] * scaled - problem.target
    return _State(theta, gain, _dot(residual, residual), u, 1 - s, scaled, residual)


def _dot(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", left, right))


def _refine_best(
    problem: _Problem, starts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Best theta, gain and objective: every start for a few steps, the best of them to the end."""
    best = _refine(problem, starts[0], _FIRST_STEPS)
    for start in starts[1:]:
        other = _refine(problem, start, _FIRST_STEPS)
        better = other[2] < best[2]
        best = (
            np.where(better[:, None], other[0], best[0]),
            np.where(better, other[1], best[1]),
            np.where(better, other[2], best[2]),
        )
    theta, gain, objective = _refine(problem, best[0], _MAX_STEPS)
    # Where the best a lies on its bound the projected problem has a kink, along which steps grow
    # short: there a is held, and the rest of the search is smooth.
    for end in (problem.least, problem.most):
        near = np.flatnonzero(np.abs(gain - end) < _HELD)
        if near.size:
            fixed = replace(problem.of(near), least=end[near], most=end[near])
            at = _refine(fixed, theta[near], _MAX_STEPS)
            better = at[2] < objective[near]
            place = near[better]
            theta[place], gain[place], objective[place] = (array[better] for array in at)
    return theta, gain, objective


def _refine(
    problem: _Problem, start: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Theta, gain and objective after at most `steps` from `start`: (fits, 2), (fits,), (fits,).

    Levenberg-Marquardt with a damping of its own for every fit; a fit that has converged leaves.
    """
    state = _evaluate(problem, start.copy())
    theta, gain, objective = state.theta.copy(), state.gain.copy(), state.objective.copy()
    active = np.arange(len(theta))
    damping = np.full(len(theta), 1e-3)
    for _ in range(steps):
        step, expected = _step(problem, state, damping)
        trial = _evaluate(problem, np.clip(state.theta + step, problem.lower, problem.upper))
        better = trial.objective <= state.objective
        settled = (expected <= _TOLERANCE * state.objective) & (damping <= 1e-2)
        done = settled | (damping >= 1e10)
        state.take(trial, better)
        damping = np.where(better, damping / 10, np.maximum(damping, 1e-6) * 8)
        if done.any():
            place = active[done]
            theta[place], gain[place] = state.theta[done], state.gain[done]
            objective[place] = state.objective[done]
            active, damping = active[~done], damping[~done]
            problem, state = problem.of(~done), state.of(~done)
            if not active.size:
                break
    theta[active], gain[active], objective[active] = state.theta, state.gain, state.objective
    return theta, gain, objective


def _step(problem: _Problem, state: _State, damping: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A damped Newton step of (m, ln b) with a projected out, and the drop of the objective that
    it promises: (fits, 2), (fits,). Gauss-Newton (Kaufman 1975) where the Hessian is not positive.
    """
    a, u, residual = state.gain, state.u, state.residual
    # Derivatives of root x s by u, the first and the second; u itself has -b by m and u by ln b.
    d1 = state.rest * state.scaled
    d2 = d1 * (2 * state.rest - 1)
    u1, u2 = u * d1, u * d2
    b = np.exp(state.theta[:, 1])
    norm = np.maximum(_dot(state.scaled, state.scaled), 1e-300)
    # Where a sits on its bound it cannot follow.
    free = (a > problem.least) & (a < problem.most)
    slope_m, slope_q = -b * _dot(d1, residual), _dot(u1, residual)
    along = -b * _dot(d1, state.scaled), _dot(u1, state.scaled)
    square = b**2 * _dot(d1, d1), -b * _dot(d1, u1), _dot(u1, u1)
    bent = (
        b**2 * _dot(d2, residual),
        slope_m - b * _dot(u2, residual),
        slope_q + _dot(u * u2, residual),
    )
    # D da, with da the change of the best a: exact, and as Kaufman leaves it.
    exact = [
        np.where(free, -(g + a * s), 0) for g, s in zip((slope_m, slope_q), along, strict=True)
    ]
    plain = [np.where(free, -a * s, 0) for s in along]
    pairs = ((0, 0), (0, 1), (1, 1))
    newton, gauss = (
        [a**2 * square[k] + rest[k] - da[i] * da[j] / norm for k, (i, j) in enumerate(pairs)]
        for da, rest in ((exact, [a * v for v in bent]), (plain, [0.0, 0.0, 0.0]))
    )
    positive = (newton[0] > 0) & (newton[0] * newton[2] > 1.0001 * newton[1] ** 2)
    first, mixed, second = (np.where(positive, n, g) for n, g in zip(newton, gauss, strict=True))
    gradient = np.stack([a * slope_m, a * slope_q], axis=1)
    # A number on its bound that wants to go further stays.
    fixed = ((state.theta <= problem.lower) & (gradient > 0)) | (
        (state.theta >= problem.upper) & (gradient < 0)
    )
    gradient = np.where(fixed, 0.0, gradient)
    mixed = np.where(fixed.any(axis=1), 0.0, mixed)
    first = np.maximum(first, 0) * (1 + damping) + 1e-300
    second = np.maximum(second, 0) * (1 + damping) + 1e-300
    determinant = np.maximum(first * second - mixed**2, 1e-300)
    step = -np.stack(
        [
            (second * gradient[:, 0] - mixed * gradient[:, 1]) / determinant,
            (first * gradient[:, 1] - mixed * gradient[:, 0]) / determinant,
        ],
        axis=1,
    )
    # A flat direction asks for the moon: no step is longer than the widest gap of the grid.
    step *= np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=1), 1e-300))[:, None]
    return step, -_dot(step, gradient)
