"""The reward as one smooth surface over compute, n and B, so that neighbours inform each other.

At every budget the mean reward of (n, B) over seeds is a level of that budget's own, plus
deviations that vary smoothly with log2 n, with log2 B, with both together, and with log C: a
Gaussian process for each, with squared-exponential kernels, and a rougher one in compute. No form
of the learning curve or of n*(C) is assumed. The noise is what seeds show (`means`). How far and
how strongly rewards vary is not fitted but averaged over: a low-discrepancy sample of the kernels'
parameters and of the noise's scale, each weighted by how well it explains the means. Everything
else is closed-form; the posterior is drawn by pathwise conditioning (Wilson et al., arXiv
2002.09309). Seeded: the same records give the same draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.pairs import Paired
from isosweep.analysis.statistics.means import Means

# Draws of the posterior: a probability is then known to about 0.01, with many means to 0.015.
DRAWS, _FEW_DRAWS = 2000, 1000
# Points of log2 n in a doubling at which the surface is drawn; n* lies half a step from the nearest
# of them at most.
PER_DOUBLING = 8
HALF_STEP = 1 / (2 * PER_DOUBLING)
# Parameter sets tried, with few means and with many. Of many, so many at random weigh the sets: a
# factorisation costs their cube, and no more is needed to tell which sets explain them.
_SETS, _FEW_SETS, _MANY_MEANS = 512, 128, 300
# Amplitudes of n, B and their interaction over the spread of the means: equally likely in log.
_AMPLITUDES = ((0.1, 5.0), (0.02, 3.0), (0.02, 1.0))
# Correlation lengths: of n and of B in doublings, of compute in decades. Lengths above 4 doublings
# would straighten what noisy rewards do over n, and push the optimum to the edge they rise to. With
# none below 1.5, a cliff in n would move an optimum beside it by a doubling, against its own mean.
_DOUBLINGS_N, _DOUBLINGS_B, _DECADES = (0.5, 4.0), (1.5, 12.0), (0.3, 6.0)
# Share of a kernel's largest eigenvalue below which a part of it is left out of draws.
_NEGLIGIBLE = 1e-8
# Variance of the level of each budget: any reward from 0 to 1 is likely.
_LEVEL = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnN:
    """One n at every budget, by draws: each (draws, budgets).

    `above`: whether it may lie above the n that were run at this budget, though the plan has larger
    ones: it may wherever the best n is nearer to the largest of them than to the next one, for of
    larger n that were not trained so far nothing is known. `below`: the same below them, where
    smaller ones were run at another budget and the draw has it among them: whether larger n gain at
    larger budgets no surface may answer; that small n fell behind and stayed there, one may.
    """

    log2_n: FloatArray
    above: BoolArray
    below: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface:
    """Posterior draws of the mean reward: `draws` (draws, budgets, log2 n, batches).

    `log2_n`: from the smallest n measured to the largest, measured n included; `batches`: every B
    measured, or one place where each n has its own. Where nothing was measured the draws spread as
    widely as the kernels allow: `supported` (budgets, log2 n, batches) says where n lies between
    those measured at this budget with this B, and nothing is concluded elsewhere. `measured`:
    (budgets, log2 n), the n that were.
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
    def best_n(self) -> DrawnN:
        """n*(C)."""
        return self.smallest_n(0.0)

    def smallest_n(self, loss: float, unread: Sequence[int] = ()) -> DrawnN:
        """The smallest n that loses at most `loss` of reward; of none, n*.

        `unread`: n of the plan that were measured at no budget.
        """
        log2_n, best = (smallest_within(self.by_n, self.log2_n, x) for x in (loss, 0.0))
        last = max(self.log2_n[-1], math.log2(max(unread, default=1)))
        anywhere = smallest_within(self.draws.max(axis=3), self.log2_n, loss)
        first = [self.log2_n[run].min() for run in self.measured]
        return DrawnN(
            log2_n=log2_n,
            above=self._near_last(self.log2_n, best, last),
            below=self._near_last(-self.log2_n, -log2_n, -self.log2_n[0]) & (anywhere < first),
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


def fit_surface(means: Means, seed: int = 0) -> Surface:
    """The surface at all budgets, from the smallest n to the largest, at every B."""
    first, last = float(means.log2_n.min()), float(means.log2_n.max())
    steps = max(1, round((last - first) * PER_DOUBLING))
    axis = np.unique(np.concatenate([np.linspace(first, last, steps + 1), means.log2_n]))
    # A measured n replaces the point of the even grid that it nearly falls on.
    kept = np.isin(axis, means.log2_n)
    far = np.abs(axis[:, None] - means.log2_n).min(axis=1) > 0.3 / PER_DOUBLING
    axis, grid = axis[kept | far], _Grid.of(means)
    rng = np.random.default_rng(seed)
    weighed, count, number = means, _SETS, DRAWS
    if len(means.reward) > _MANY_MEANS:
        weighed, count, number = means.some(_MANY_MEANS, rng), _FEW_SETS, _FEW_DRAWS
    sets = _parameter_sets(means, count, seed)
    places = _Grid.of(weighed)
    weight = np.array([_log_weight(weighed, places, chosen) for chosen in sets])
    share = rng.multinomial(number, special.softmax(weight))
    draws = np.concatenate(
        [_draw(means, grid, sets[i], axis, int(share[i]), rng) for i in np.flatnonzero(share)]
    )
    rng.shuffle(draws, axis=0)
    return Surface(
        budgets=means.budgets,
        log2_n=axis,
        batches=tuple(round(2**b) for b in grid.log2_batch),
        draws=draws,
        supported=_supported(means, axis, grid.log2_batch),
        measured=_measured(means, axis),
    )


def _measured(means: Means, axis: FloatArray) -> BoolArray:
    """Which n were run at each budget: (budgets, log2 n)."""
    found = np.zeros((len(means.budgets), len(axis)), dtype=bool)
    found[means.budget, np.searchsorted(axis, means.log2_n)] = True
    return found


def _supported(means: Means, axis: FloatArray, batches: FloatArray) -> BoolArray:
    """Where n lies between those measured: (budgets, log2 n, batches)."""
    inside = np.zeros((len(means.budgets), len(axis), len(batches)), dtype=bool)
    for k, j in np.ndindex(len(means.budgets), len(batches)):
        here = means.log2_n[(means.budget == k) & (means.log2_batch == batches[j])]
        if here.size:
            inside[k, :, j] = (axis >= here.min()) & (axis <= here.max())
    return inside


@dataclass(frozen=True, kw_only=True)
class _Parameters:
    """Amplitudes (reward) of n, B and both together, correlation lengths, noise variance scale."""

    amplitudes: tuple[float, float, float]
    length_n: float
    length_batch: float
    length_compute: float
    noise: float


def _parameter_sets(means: Means, count: int, seed: int) -> list[_Parameters]:
    """A low-discrepancy sample of the prior."""
    from scipy.stats import qmc

    level = np.zeros(len(means.budgets))
    for k in np.unique(means.budget):
        level[k] = means.reward[means.budget == k].mean()
    spread = max(float((means.reward - level[means.budget]).std()), 1e-4)
    several = len(np.unique(means.log2_batch)) > 1
    points = qmc.Sobol(7 if several else 4, rng=np.random.default_rng(seed)).random(count)

    def between(at: float, ends: tuple[float, float]) -> float:
        return float(ends[0] * (ends[1] / ends[0]) ** at)

    freedom = means.degrees_of_freedom
    return [
        _Parameters(
            amplitudes=(
                spread * between(p[0], _AMPLITUDES[0]),
                spread * between(p[4], _AMPLITUDES[1]) if several else 0.0,
                spread * between(p[5], _AMPLITUDES[2]) if several else 0.0,
            ),
            length_n=between(p[1], _DOUBLINGS_N),
            length_batch=between(p[6], _DOUBLINGS_B) if several else 1.0,
            length_compute=between(p[2], _DECADES),
            # The usual posterior of a variance: scaled inverse chi-square.
            noise=freedom / float(2 * special.gammaincinv(freedom / 2, 1 - p[3])),
        )
        for p in points
    ]


def _kernel(left: FloatArray, right: FloatArray, length: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((left[:, None] - right) / length) ** 2))


def _time_kernel(left: FloatArray, right: FloatArray, length: float) -> FloatArray:
    """Matérn 3/2, which is rougher: where learning sets in, smooth kernels oscillate before it."""
    distance = math.sqrt(3) * np.abs(left[:, None] - right) / length
    return np.asarray((1 + distance) * np.exp(-distance))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Grid:
    """Where the means lie: values of each coordinate, ascending, and each mean's place in them.

    `compute` in decades. Kernels are worked out between values, which are few, and not between
    means.
    """

    compute: FloatArray
    log2_n: FloatArray
    log2_batch: FloatArray
    at_budget: IntArray
    at_n: IntArray
    at_batch: IntArray

    @staticmethod
    def of(means: Means) -> "_Grid":
        log2_n, at_n = np.unique(means.log2_n, return_inverse=True)
        log2_batch, at_batch = np.unique(means.log2_batch, return_inverse=True)
        return _Grid(
            compute=np.log10(np.array(means.budgets)),
            log2_n=log2_n,
            log2_batch=log2_batch,
            at_budget=means.budget,
            at_n=at_n,
            at_batch=at_batch,
        )

    def covariance(self, chosen: _Parameters) -> FloatArray:
        """Prior covariance of the means, without noise: (means, means)."""
        main, batch, both = (amplitude**2 for amplitude in chosen.amplitudes)
        over_n = _kernel(self.log2_n, self.log2_n, chosen.length_n)
        along = over_n[np.ix_(self.at_n, self.at_n)]
        over_time = _time_kernel(self.compute, self.compute, chosen.length_compute)
        shape = main * along
        if len(self.log2_batch) > 1:
            over_batch = _kernel(self.log2_batch, self.log2_batch, chosen.length_batch)
            across = over_batch[np.ix_(self.at_batch, self.at_batch)]
            shape += across * (batch + both * along)
        together = np.ix_(self.at_budget, self.at_budget)
        level = _LEVEL * np.eye(len(self.compute))
        return np.asarray(shape * over_time[together] + level[together])


def _log_weight(means: Means, grid: _Grid, chosen: _Parameters) -> float:
    """Log marginal likelihood of the means."""
    root = np.linalg.cholesky(grid.covariance(chosen) + chosen.noise * means.noise)
    white = linalg.solve_triangular(
        root, means.reward - means.reward.mean(), lower=True, check_finite=False
    )
    return float(-0.5 * white @ white - np.log(np.diag(root)).sum())


def _draw(
    means: Means,
    grid: _Grid,
    chosen: _Parameters,
    axis: FloatArray,
    count: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draws of the posterior given the parameters: (count, budgets, log2 n, batches).

    A draw of the prior, moved by what it lacks of the means, noise included.
    """
    budgets, batches = len(grid.compute), len(grid.log2_batch)
    time = _time_kernel(grid.compute, grid.compute, chosen.length_compute)
    across = _kernel(grid.log2_batch, grid.log2_batch, chosen.length_batch)
    roots = (
        _root(time),
        _root(_kernel(axis, axis, chosen.length_n)),
        _root(across),
    )  # each (places, independent parts)
    main, batch_size, both = chosen.amplitudes
    normal, (of_time, of_n, of_batch) = rng.standard_normal, (root.shape[1] for root in roots)
    prior = math.sqrt(_LEVEL) * normal((count, budgets, 1, 1))
    prior = prior + main * _spread(normal((count, of_time, of_n, 1)), roots[0], roots[1])
    if batches > 1:
        flat = _spread(normal((count, of_time, 1, of_batch)), roots[0], None, roots[2])
        prior = prior + batch_size * flat
        prior += both * _spread(normal((count, of_time, of_n, of_batch)), *roots)
    on_axis = np.abs(axis[:, None] - grid.log2_n).argmin(axis=0)
    seen = prior[:, grid.at_budget, on_axis[grid.at_n], grid.at_batch]
    noise = math.sqrt(chosen.noise) * normal((count, len(means.reward))) @ means.noise_root.T
    centre = means.reward.mean()
    covariance = grid.covariance(chosen) + chosen.noise * means.noise
    solved = linalg.cho_solve(
        linalg.cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False),
        (means.reward - centre - seen - noise).T,
        overwrite_b=True,
        check_finite=False,
    ).T  # (count, means)
    # Each mean reaches a point through the kernels, and its own budget through the level.
    pull = np.zeros((count, budgets, len(grid.log2_n), batches))
    pull[:, grid.at_budget, grid.at_n, grid.at_batch] = solved
    reach = _kernel(axis, grid.log2_n, chosen.length_n)
    over_n = pull.sum(axis=3, keepdims=True)
    moved = prior
    moved += centre + _LEVEL * over_n.sum(axis=2, keepdims=True)
    moved += main**2 * _spread(over_n, time, reach)
    if batches > 1:
        moved += batch_size**2 * _spread(pull.sum(axis=2, keepdims=True), time, None, across)
        moved += both**2 * _spread(pull, time, reach, across)
    return np.asarray(moved)


def _spread(
    draws: FloatArray,
    over_time: FloatArray,
    over_n: FloatArray | None,
    over_batch: FloatArray | None = None,
) -> FloatArray:
    """Draws (count, budgets, n, batches) times a matrix (new, old) along each axis that has one."""
    count, times, sizes, batches = draws.shape
    draws = (over_time @ draws.reshape(count, times, -1)).reshape(count, -1, sizes, batches)
    if over_batch is not None:
        draws = draws @ over_batch.T
    return draws if over_n is None else np.asarray(over_n @ draws)


def _root(kernel: FloatArray) -> FloatArray:
    """A matrix square root (places, parts), without the parts that hardly add anything.

    An eigenvector's sign, which processors choose differently, is made positive towards the first
    places: the same seed then draws the same surfaces everywhere."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > _NEGLIGIBLE * values[-1]
    sign = np.sign(vectors[:, kept].T @ (1 / (1 + np.arange(len(kernel)))))
    return np.asarray(vectors[:, kept] * sign * np.sqrt(values[kept]))
