"""The expected reward as one smooth surface over compute, n and B: neighbours inform each other.

With t = log10 C, x = log2 n and y = log2 B:

    reward(t, x, y) = level(t) + f(x, t) + g(y, t) + h(x, y, t)
    mean over seeds = reward + noise,   noise ~ Normal(0, `Means.noise`)

`level` is free at every budget; f, g and h are Gaussian processes, squared-exponential in x and y
and Matern 3/2 in t (where learning sets in, smoother kernels oscillate before it). No form of the
learning curve or of n*(C) is assumed. Amplitudes, lengths and the noise's scale are not fitted but
averaged over: a Sobol sample of their prior, each point weighted by its marginal likelihood. The
posterior is drawn by pathwise conditioning (Wilson et al., arXiv 2002.09309). The same records give
the same draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.pairs import Paired
from isosweep.analysis.statistics.noise import Means

# Draws of the posterior: a probability is then known to about 0.01, with many means to 0.015.
DRAWS, _FEW_DRAWS = 2000, 1000
# Points of log2 n in a doubling at which the surface is drawn; n* lies half a step from the nearest
# of them at most.
PER_DOUBLING = 8
HALF_STEP = 1 / (2 * PER_DOUBLING)
# Points of the kernels' prior, with few means and with many. In 14 simulated sweeps they amount to
# 1 to 14 kernels of equal weight; another seed moves the probability of having settled by 0.01 to
# 0.035 (standard deviation), and in one sweep by 0.10. Of many, so many at random weigh the
# points: a factorisation costs their cube, and no more is needed to tell which explain them.
_POINTS, _FEW_POINTS, _MANY_MEANS = 512, 128, 300
# Ranges of the prior, uniform in log. Amplitudes of f, g and h over the spread of the means.
_AMPLITUDES = ((0.1, 5.0), (0.02, 3.0), (0.02, 1.0))
# Correlation lengths: of n and of B in doublings, of compute in decades. Lengths above 4 doublings
# would straighten what noisy rewards do over n, and push the optimum to the edge they rise to. With
# none below 1.5, a cliff in n would move an optimum beside it by a doubling, against its own mean.
_LENGTH_N, _LENGTH_BATCH, _LENGTH_COMPUTE = (0.5, 4.0), (1.5, 12.0), (0.3, 6.0)
# Share of a kernel's largest eigenvalue below which a part of it is left out of draws.
_NEGLIGIBLE = 1e-8
# Variance of the level of each budget: any reward from 0 to 1 is likely.
_LEVEL = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnN:
    """Draws of an n at every budget, and where they are censored: each (draws, budgets).

    `above`: the n may lie above those run at this budget, though the plan has larger ones: wherever
    the draw's best n is nearer to the largest that was run than to the next one. `below`: likewise
    below them, where the draw itself has the n among smaller n that were run at another budget.
    """

    log2_n: FloatArray
    above: BoolArray
    below: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface:
    """Posterior draws of the expected reward: `draws` (draws, budgets, log2 n, batches).

    `log2_n`: an even grid from the smallest n to the largest, measured n included; `batches`: every
    B measured, or one place where each n has its own. `measured`: (budgets, log2 n), the n that
    were run; `supported`: (budgets, log2 n, batches), between n that were run with this B. Nothing
    is concluded elsewhere: there the draws are as wide as the prior.
    """

    budgets: tuple[float, ...]
    log2_n: FloatArray
    batches: tuple[int, ...]
    draws: FloatArray
    supported: BoolArray
    measured: BoolArray

    @cached_property
    def by_n(self) -> FloatArray:
        """Reward of every n at its best B: (draws, budgets, log2 n); -inf where none was run."""
        return np.asarray(np.where(self.supported, self.draws, -np.inf).max(axis=3))

    @cached_property
    def best_n(self) -> FloatArray:
        """log2 n*: (draws, budgets)."""
        return self.smallest_n(0.0)

    def smallest_n(self, loss: float) -> FloatArray:
        """log2 of the smallest n that loses at most `loss` of reward: (draws, budgets)."""
        return smallest_within(self.by_n, self.log2_n, loss)

    def drawn_n(self, loss: float, unread: Sequence[int] = ()) -> DrawnN:
        """`smallest_n` with its censoring; `unread`: n of the plan that were read nowhere."""
        largest = max(self.log2_n[-1], math.log2(max(unread, default=1)))
        anywhere = smallest_within(self.draws.max(axis=3), self.log2_n, loss)
        first = [self.log2_n[run].min() for run in self.measured]
        return DrawnN(
            log2_n=self.smallest_n(loss),
            above=self._near_last(self.log2_n, self.best_n, largest),
            below=self._near_last(-self.log2_n, -self.smallest_n(loss), -self.log2_n[0])
            & (anywhere < first),
        )

    def _near_last(self, axis: FloatArray, drawn: FloatArray, last: float) -> BoolArray:
        """Where draws are nearer to the last n run at a budget than to the next one, and that is
        not the `last` of all: (draws, budgets)."""
        found = np.zeros(drawn.shape, dtype=bool)
        for k, run in enumerate(self.measured):
            known = np.sort(axis[run])
            if known[-1] < last:
                found[:, k] = drawn[:, k] >= known[-2:].mean()
        return found

    def column(self, n: int) -> int:
        """Index of n on the axis of log2 n."""
        return int(np.argmin(np.abs(self.log2_n - math.log2(n))))

    def at_cells(self, draws: FloatArray, cells: Sequence[Paired]) -> FloatArray:
        """Rewards of the cells' (n, B) in draws (draws, log2 n, batches): (draws, cells)."""
        rows = [self.column(cell.num_generations) for cell in cells]
        several = len(self.batches) > 1
        columns = [self.batches.index(c.problems_per_batch) if several else 0 for c in cells]
        return np.asarray(draws[:, rows, columns])


def smallest_within(by_n: FloatArray, log2_n: FloatArray, loss: float) -> FloatArray:
    """log2 of the smallest n whose reward is at most `loss` below the best: (...,).

    `by_n`: rewards over `log2_n`, (..., log2 n), -inf where none was run; linear between them.
    """
    lost = by_n.max(axis=-1, keepdims=True) - by_n
    first = (lost <= loss).argmax(axis=-1)
    before = np.maximum(first - 1, 0)
    at, too_much = (np.take_along_axis(lost, k[..., None], -1)[..., 0] for k in (first, before))
    between = (before < first) & np.isfinite(too_much)
    gap = np.where(between, too_much - at, 1.0)
    share = np.where(between, (np.where(between, too_much, 1.0) - loss) / gap, 1.0)
    return np.asarray(log2_n[before] + share * (log2_n[first] - log2_n[before]))


class _Axes(NamedTuple):
    """Values of t, x and y, ascending: kernels are worked out between them, which are few."""

    t: FloatArray
    x: FloatArray
    y: FloatArray


class _Known(NamedTuple):
    """Where the means lie: their axes, and the index of each mean on these, (means,)."""

    axes: _Axes
    t: IntArray
    x: IntArray
    y: IntArray

    @staticmethod
    def of(means: Means) -> "_Known":
        x, at_x = np.unique(means.log2_n, return_inverse=True)
        y, at_y = np.unique(means.log2_batch, return_inverse=True)
        return _Known(_Axes(np.log10(means.budgets), x, y), means.budget, at_x, at_y)


class _Kernel(NamedTuple):
    """Amplitudes of f, g and h (reward), correlation lengths, and the scale of noise variances."""

    f: float
    g: float
    h: float
    length_n: float
    length_batch: float
    length_compute: float
    noise: float

    def factors(self, left: _Axes, right: _Axes) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Correlations along t, x and y: each (left, right)."""
        distance = math.sqrt(3) * np.abs(left.t[:, None] - right.t) / self.length_compute
        return (
            np.asarray((1 + distance) * np.exp(-distance)),
            np.asarray(np.exp(-0.5 * ((left.x[:, None] - right.x) / self.length_n) ** 2)),
            np.asarray(np.exp(-0.5 * ((left.y[:, None] - right.y) / self.length_batch) ** 2)),
        )

    def covariance(self, means: Means, known: _Known) -> FloatArray:
        """Of the means, noise included: (means, means)."""
        along_t, along_x, along_y = self.factors(known.axes, known.axes)
        both = along_x[np.ix_(known.x, known.x)]
        shape = self.f**2 * both
        if len(known.axes.y) > 1:
            shape += along_y[np.ix_(known.y, known.y)] * (self.g**2 + self.h**2 * both)
        together = np.ix_(known.t, known.t)
        level = _LEVEL * np.eye(len(known.axes.t))
        return np.asarray(shape * along_t[together] + level[together] + self.noise * means.noise)


def fit_surface(means: Means, seed: int = 0) -> Surface:
    """The surface at all budgets, from the smallest n to the largest, at every B."""
    known = _Known.of(means)
    axes = known.axes._replace(x=_even_grid(known.axes.x))
    rng = np.random.default_rng(seed)
    weighed, points, count = means, _POINTS, DRAWS
    if len(means.reward) > _MANY_MEANS:
        weighed, points, count = means.subset(_MANY_MEANS, rng), _FEW_POINTS, _FEW_DRAWS
    kernels = _prior_sample(means, len(axes.y) > 1, points, seed)
    places = _Known.of(weighed)
    weight = special.softmax([_log_evidence(kernel, weighed, places) for kernel in kernels])
    share = rng.multinomial(count, weight)
    draws = np.concatenate(
        [_draw(kernels[i], means, known, axes, int(share[i]), rng) for i in np.flatnonzero(share)]
    )
    rng.shuffle(draws, axis=0)
    measured = np.zeros((len(axes.t), len(axes.x)), dtype=bool)
    measured[means.budget, np.searchsorted(axes.x, means.log2_n)] = True
    supported = np.zeros((*measured.shape, len(axes.y)), dtype=bool)
    for k, j in np.ndindex(len(axes.t), len(axes.y)):
        here = means.log2_n[(means.budget == k) & (known.y == j)]
        if here.size:
            supported[k, :, j] = (axes.x >= here.min()) & (axes.x <= here.max())
    return Surface(
        budgets=means.budgets,
        log2_n=axes.x,
        batches=tuple(round(2**y) for y in axes.y),
        draws=draws,
        supported=supported,
        measured=measured,
    )


def _even_grid(x: FloatArray) -> FloatArray:
    """`PER_DOUBLING` points, in which each measured x replaces the one that it nearly falls on."""
    steps = max(1, round(float(x[-1] - x[0]) * PER_DOUBLING))
    even = np.linspace(x[0], x[-1], steps + 1)
    far = np.abs(even[:, None] - x).min(axis=1) > 0.3 / PER_DOUBLING
    return np.unique(np.concatenate([even[far], x]))


def _prior_sample(means: Means, several: bool, count: int, seed: int) -> list[_Kernel]:
    """A low-discrepancy sample of the prior; `several`: whether B is an axis. The noise's scale
    has the usual posterior of a variance, scaled inverse chi-square."""
    from scipy.stats import qmc

    level = np.zeros(len(means.budgets))
    for k in np.unique(means.budget):
        level[k] = means.reward[means.budget == k].mean()
    spread = max(float((means.reward - level[means.budget]).std()), 1e-4)

    def between(at: float, ends: tuple[float, float]) -> float:
        return float(ends[0] * (ends[1] / ends[0]) ** at)

    freedom = means.degrees_of_freedom
    return [
        _Kernel(
            f=spread * between(p[0], _AMPLITUDES[0]),
            g=spread * between(p[4], _AMPLITUDES[1]) if several else 0.0,
            h=spread * between(p[5], _AMPLITUDES[2]) if several else 0.0,
            length_n=between(p[1], _LENGTH_N),
            length_batch=between(p[6], _LENGTH_BATCH) if several else 1.0,
            length_compute=between(p[2], _LENGTH_COMPUTE),
            noise=freedom / float(2 * special.gammaincinv(freedom / 2, 1 - p[3])),
        )
        for p in qmc.Sobol(7 if several else 4, rng=np.random.default_rng(seed)).random(count)
    ]


def _log_evidence(kernel: _Kernel, means: Means, known: _Known) -> float:
    """Log marginal likelihood of the means, but for a constant."""
    root = np.linalg.cholesky(kernel.covariance(means, known))
    lacking = means.reward - means.reward.mean()
    white = linalg.solve_triangular(root, lacking, lower=True, check_finite=False)
    return float(-0.5 * white @ white - np.log(np.diag(root)).sum())


def _draw(
    kernel: _Kernel,
    means: Means,
    known: _Known,
    axes: _Axes,
    count: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draws of the posterior given the kernel: (count, budgets, log2 n, batches).

    A draw of the prior, moved by what it lacks of the means, noise included.
    """
    normal, several = rng.standard_normal, len(axes.y) > 1
    in_t, in_x, in_y = (_root(factor) for factor in kernel.factors(axes, axes))
    T, X, Y = (root.shape[1] for root in (in_t, in_x, in_y))
    drawn = math.sqrt(_LEVEL) * normal((count, len(axes.t), 1, 1))
    drawn = drawn + kernel.f * _apply(normal((count, T, X, 1)), in_t, in_x)
    if several:
        drawn = drawn + kernel.g * _apply(normal((count, T, 1, Y)), in_t, None, in_y)
        drawn += kernel.h * _apply(normal((count, T, X, Y)), in_t, in_x, in_y)
    seen = drawn[:, known.t, np.searchsorted(axes.x, known.axes.x)[known.x], known.y]
    noise = math.sqrt(kernel.noise) * normal((count, len(means.reward))) @ means.noise_root.T
    centre = means.reward.mean()
    factor = linalg.cho_factor(
        kernel.covariance(means, known), lower=True, overwrite_a=True, check_finite=False
    )
    lacking = (means.reward - centre - seen - noise).T
    weights = np.zeros((count, len(axes.t), len(known.axes.x), len(axes.y)))
    weights[:, known.t, known.x, known.y] = linalg.cho_solve(
        factor, lacking, overwrite_b=True, check_finite=False
    ).T
    # Each mean moves a point through the kernels, and its own budget through the level.
    to_t, to_x, to_y = kernel.factors(axes, known.axes)
    over_y = weights.sum(axis=3, keepdims=True)
    drawn += centre + _LEVEL * over_y.sum(axis=2, keepdims=True)
    drawn += kernel.f**2 * _apply(over_y, to_t, to_x)
    if several:
        drawn += kernel.g**2 * _apply(weights.sum(axis=2, keepdims=True), to_t, None, to_y)
        drawn += kernel.h**2 * _apply(weights, to_t, to_x, to_y)
    return drawn


def _apply(
    draws: FloatArray,
    in_t: FloatArray,
    in_x: FloatArray | None,
    in_y: FloatArray | None = None,
) -> FloatArray:
    """Draws (count, t, x, y) times a matrix (new, old) along each axis that has one."""
    count, t, x, y = draws.shape
    draws = (in_t @ draws.reshape(count, t, -1)).reshape(count, -1, x, y)
    draws = draws if in_y is None else draws @ in_y.T
    return draws if in_x is None else np.asarray(in_x @ draws)


def _root(kernel: FloatArray) -> FloatArray:
    """A matrix square root (places, parts), without the parts that hardly add anything.

    An eigenvector's sign, which processors choose differently, is made positive towards the first
    places: the same seed then draws the same surfaces everywhere."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > _NEGLIGIBLE * values[-1]
    sign = np.sign(vectors[:, kept].T @ (1 / (1 + np.arange(len(kernel)))))
    return np.asarray(vectors[:, kept] * sign * np.sqrt(values[kept]))
