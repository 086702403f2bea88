"""The reward as one smooth surface over compute, n and B, so that neighbours inform each other.

At every budget the mean reward of (n, B) over seeds is a level of that budget's own, plus
deviations that vary smoothly with log2 n, with log2 B, with both together, and with log C: a
Gaussian process for each, with squared-exponential kernels, and a rougher one in compute. No form
of the learning curve or of n*(C) is assumed. The noise is what seeds show: their covariance
between budgets (a run is lucky at all its budgets), pooled over all (n, B); as much of it as is
common to all runs of a seed, which see the same problems in the same order, moves all n together
and says nothing against any. How far and how
strongly rewards vary is not fitted but averaged over: a low-discrepancy sample of the kernels'
parameters and of the noise's scale, each weighted by how well it explains the means. Everything
else is closed-form; the posterior is drawn by pathwise conditioning (Wilson et al., arXiv
2002.09309). Seeded: the same records give the same draws.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair, Paired

# Draws of the posterior: a probability is then known to about 0.01.
DRAWS = 2000
# Points of log2 n in a doubling at which the surface is drawn.
PER_DOUBLING = 8
# Parameter sets tried, for many and for few means (their cost grows with the cube of those).
_SETS, _FEW_SETS, _MANY_MEANS = 512, 128, 250
# Amplitudes of n, B and their interaction over the spread of the means: equally likely in log.
_AMPLITUDES = ((0.1, 5.0), (0.02, 3.0), (0.02, 1.0))
# Correlation lengths: of n and of B in doublings, of compute in decades. Lengths above 4 doublings
# would straighten what noisy rewards do over n, and push the optimum to the edge they rise to.
_DOUBLINGS_N, _DOUBLINGS_B, _DECADES = (1.5, 4.0), (1.5, 12.0), (0.3, 6.0)
# Variance of the level of each budget: any reward from 0 to 1 is likely.
_LEVEL = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """Mean rewards over seeds of every (n, B) that was read at a budget.

    `log2_n`, `log2_batch`: (means,); where no n has two B, B goes with n and is no axis: all of
    `log2_batch` is 0. `budget`: (means,) index into `budgets` (ascending);
    `reward`: (means,); `noise`: (means, means) covariance that the seeds give them, with
    `degrees_of_freedom`; `seed_sd`: (budgets,) spread between seeds; `common`: the share of its
    square that runs with the same seed have in common.
    """

    budgets: tuple[float, ...]
    log2_n: FloatArray
    log2_batch: FloatArray
    budget: IntArray
    reward: FloatArray
    noise: FloatArray
    seed_sd: FloatArray
    degrees_of_freedom: int
    common: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface:
    """Posterior draws of the mean reward: `draws` (draws, budgets, log2 n, batches).

    `log2_n`: from the smallest n measured to the largest, measured n included; `batches`: every B
    measured, or one place where each n has its own. Where nothing was measured the draws spread as
    widely as the kernels allow: `supported` (budgets, log2 n, batches) says where n lies between
    those measured at this budget with this B, and nothing is concluded elsewhere.
    """

    budgets: tuple[float, ...]
    log2_n: FloatArray
    batches: tuple[int, ...]
    draws: FloatArray
    supported: BoolArray

    @cached_property
    def by_n(self) -> FloatArray:
        """Reward of every n at its best B: (draws, budgets, log2 n); -inf where none was run."""
        return np.asarray(np.where(self.supported, self.draws, -np.inf).max(axis=3))

    @cached_property
    def log2_best_n(self) -> FloatArray:
        """log2 n*(C) of every draw: (draws, budgets)."""
        return np.asarray(self.log2_n[self.by_n.argmax(axis=2)])

    def column(self, n: int) -> int:
        """Index of n on the axis of log2 n."""
        return int(np.argmin(np.abs(self.log2_n - math.log2(n))))

    def at_cells(self, draws: FloatArray, cells: Sequence[Paired]) -> FloatArray:
        """Rewards of the cells' (n, B) in draws (draws, log2 n, batches): (draws, cells)."""
        rows = [self.column(cell.num_generations) for cell in cells]
        several = len(self.batches) > 1
        columns = [self.batches.index(c.problems_per_batch) if several else 0 for c in cells]
        return np.asarray(draws[:, rows, columns])


def gather_means(readings: Iterable[CellReading]) -> Means | None:
    """Means over seeds and their covariance; None where no two seeds can be compared.

    The covariance is that between budgets of one run's deviations from its cell, pooled over
    cells; since cells are few, its correlations are drawn towards their common mean. Means of two
    cells share the part of it that seeds have in common (`_common_share`).
    """
    runs: dict[Pair, dict[int, dict[float, float]]] = {}
    for reading in readings:
        if reading.reward is not None:
            cell = reading.cell
            seeds = runs.setdefault(Pair.of(cell), {})
            seeds.setdefault(cell.seed, {})[cell.budget] = reading.reward
    budgets = sorted({b for seeds in runs.values() for by in seeds.values() for b in by})
    known = sorted({seed for seeds in runs.values() for seed in seeds})
    tables = {
        key: np.array([[seeds.get(seed, {}).get(b, np.nan) for b in budgets] for seed in known])
        for key, seeds in sorted(runs.items())
    }  # each (seeds, budgets)
    covariance, freedom = _seed_covariance(list(tables.values()), len(budgets))
    if covariance is None:
        return None
    place, reward, weights = [], [], []
    for (n, B), table in tables.items():
        present = np.isfinite(table)
        at = np.flatnonzero(present.any(axis=0))
        weights.append((present[:, at] / present[:, at].sum(axis=0)).T)
        place += [(math.log2(n), math.log2(B), k) for k in at]
        reward += np.nanmean(table[:, at], axis=0).tolist()
    log2_n, log2_batch, budget = np.array(place).T
    of_cell = np.repeat(np.arange(len(weights)), [len(each) for each in weights])
    of_seeds = np.concatenate(weights)  # (means, seeds): what each seed counts in a mean
    common = _common_share(list(tables.values()))
    between = common + (1 - common) * (of_cell[:, None] == of_cell)
    at_budget = budget.astype(np.int64)
    noise = covariance[np.ix_(at_budget, at_budget)] * (of_seeds @ of_seeds.T) * between
    if len({n for n, _ in tables}) == len(tables):
        log2_batch = np.zeros_like(log2_batch)
    return Means(
        budgets=tuple(budgets),
        log2_n=log2_n,
        log2_batch=log2_batch,
        budget=at_budget,
        reward=np.array(reward),
        noise=noise,
        seed_sd=np.sqrt(np.diag(covariance)),
        degrees_of_freedom=freedom,
        common=common,
    )


def _common_share(tables: list[FloatArray]) -> float:
    """Share of the seeds' variance that is common to all cells: 0 unless it surely is more.

    `tables`: (seeds, budgets) of every cell, nan where nothing was read. Of the products of two
    cells' deviations with the same seed, each sum over seeds has the expectation share x variance
    x (seeds - 1). One standard error, of no share at all, is taken off: so that a share that is
    not there is hardly ever assumed.
    """
    rewards = np.stack(tables)  # (cells, seeds, budgets)
    present = np.isfinite(rewards)
    several = present.sum(axis=1) > 1
    mean = np.where(present, rewards, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    kept = present & several[:, None]
    away = np.where(kept, rewards - mean[:, None], 0.0)
    shares, errors = [], []
    for k in np.flatnonzero(several.any(axis=0)):
        here = kept[:, :, k].astype(np.float64)
        pairs = np.maximum(here @ here.T - 1, 0)
        own = float(np.trace(pairs))
        spread = float((away[:, :, k] ** 2).sum()) / max(own, 1.0)
        np.fill_diagonal(pairs, 0.0)
        if pairs.sum() and spread > 0:
            products = away[:, :, k] @ away[:, :, k].T
            total = float(products.sum() - np.trace(products))
            shares.append(total / spread / float(pairs.sum()))
            errors.append(math.sqrt(2 / float(pairs.sum())))
    if not shares:
        return 0.0
    return float(np.clip(np.mean(shares) - np.mean(errors), 0.0, 0.9))


def _seed_covariance(tables: list[FloatArray], budgets: int) -> tuple[FloatArray | None, int]:
    """Covariance (budgets, budgets) of one seed's rewards around its cell, degrees of freedom."""
    products, weight = np.zeros((budgets, budgets)), np.zeros((budgets, budgets))
    freedom = 0
    for table in tables:
        present = np.isfinite(table)
        several = present.sum(axis=0) > 1
        if not several.any():
            continue
        kept = np.where(present & several, table, np.nan)
        deviation = np.zeros_like(table)
        deviation[:, several] = kept[:, several] - np.nanmean(kept[:, several], axis=0)
        deviation = np.nan_to_num(deviation)
        here = (present & several).astype(np.float64)
        products += deviation.T @ deviation
        weight += np.maximum(here.T @ here - 1, 0)
        freedom += int(present.sum(axis=0).max()) - 1
    known = np.diag(weight) > 0
    variance = np.diag(products) / np.maximum(np.diag(weight), 1)
    if not known.any() or variance[known].mean() < 1e-18:
        return None, 0
    # A budget of which no cell has two seeds, or whose seeds agree, borrows from the others.
    variance = np.where(known, variance, variance[known].mean())
    variance = np.maximum(variance, 0.01 * variance.mean())
    off = (weight > 0) & ~np.eye(budgets, dtype=bool)
    sd = np.sqrt(variance)
    correlation = products / np.maximum(weight, 1) / np.outer(sd, sd)
    common = float(np.clip(correlation[off].mean(), 0.0, 0.95)) if off.any() else 0.0
    shrunk = min(1.0, budgets / freedom)
    mixed = np.where(off, (1 - shrunk) * correlation + shrunk * common, common)
    np.fill_diagonal(mixed, 1.0)
    values, vectors = np.linalg.eigh(mixed)
    mixed = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    return np.outer(sd, sd) * mixed, freedom


def fit_surface(means: Means, seed: int = 0) -> Surface:
    """The surface at all budgets, from the smallest n to the largest, at every B."""
    first, last = float(means.log2_n.min()), float(means.log2_n.max())
    steps = max(1, round((last - first) * PER_DOUBLING))
    axis = np.unique(np.concatenate([np.linspace(first, last, steps + 1), means.log2_n]))
    # A measured n replaces the point of the even grid that it nearly falls on.
    kept = np.isin(axis, means.log2_n)
    far = np.abs(axis[:, None] - means.log2_n).min(axis=1) > 0.3 / PER_DOUBLING
    axis, batches = axis[kept | far], np.unique(means.log2_batch)
    count = _SETS if len(means.reward) <= _MANY_MEANS else _FEW_SETS
    sets = _parameter_sets(means, count, seed)
    weight = np.array([_log_weight(means, chosen) for chosen in sets])
    rng = np.random.default_rng(seed)
    share = rng.multinomial(DRAWS, special.softmax(weight))
    draws = np.concatenate(
        [_draw(means, sets[i], axis, batches, int(share[i]), rng) for i in np.flatnonzero(share)]
    )
    rng.shuffle(draws, axis=0)
    return Surface(
        budgets=means.budgets,
        log2_n=axis,
        batches=tuple(round(2**b) for b in batches),
        draws=draws,
        supported=_supported(means, axis, batches),
    )


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

    level = np.array([means.reward[means.budget == k].mean() for k in range(len(means.budgets))])
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


def _covariance(means: Means, chosen: _Parameters) -> FloatArray:
    """Prior covariance of the measured means, noise included: (means, means)."""
    compute = np.log10(np.array(means.budgets))[means.budget]
    along = _kernel(means.log2_n, means.log2_n, chosen.length_n)
    across = _kernel(means.log2_batch, means.log2_batch, chosen.length_batch)
    main, batch, both = (amplitude**2 for amplitude in chosen.amplitudes)
    shape = main * along + batch * across + both * along * across
    level = _LEVEL * (means.budget[:, None] == means.budget)
    smooth = shape * _time_kernel(compute, compute, chosen.length_compute)
    return np.asarray(smooth + level + chosen.noise * means.noise)


def _log_weight(means: Means, chosen: _Parameters) -> float:
    """Log marginal likelihood of the means."""
    root = np.linalg.cholesky(_covariance(means, chosen))
    white = linalg.solve_triangular(root, means.reward - means.reward.mean(), lower=True)
    return float(-0.5 * white @ white - np.log(np.diag(root)).sum())


def _draw(
    means: Means,
    chosen: _Parameters,
    axis: FloatArray,
    batches: FloatArray,
    count: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draws of the posterior given the parameters: (count, budgets, log2 n, batches).

    A draw of the prior, moved by what it lacks of the means, noise included.
    """
    compute = np.log10(np.array(means.budgets))
    kernels = (
        _kernel(axis, axis, chosen.length_n),
        _kernel(batches, batches, chosen.length_batch),
        _time_kernel(compute, compute, chosen.length_compute),
    )
    n, batch, time = (_root(kernel) for kernel in kernels)
    main, batch_size, both = chosen.amplitudes
    normal = rng.standard_normal
    shape = (count, len(compute), len(axis), len(batches))
    prior = math.sqrt(_LEVEL) * normal((count, len(compute), 1, 1)) + np.zeros(shape)
    prior += main * (time @ normal(shape[:3]) @ n.T)[..., None]
    if len(batches) > 1:
        flat = normal((count, len(compute), len(batches)))
        prior += batch_size * (time @ flat @ batch.T)[:, :, None, :]
        full = time @ normal(shape).reshape(count, len(compute), -1)
        prior += both * (n @ full.reshape(shape) @ batch.T)
    place = (
        means.budget,
        np.abs(axis[:, None] - means.log2_n).argmin(axis=0),
        np.abs(batches[:, None] - means.log2_batch).argmin(axis=0),
    )
    noise = math.sqrt(chosen.noise) * np.linalg.cholesky(means.noise)
    centre = means.reward.mean()
    lacking = means.reward - centre - prior[:, *place] - normal((count, len(place[0]))) @ noise.T
    solved = linalg.cho_solve(
        linalg.cho_factor(_covariance(means, chosen), lower=True), lacking.T
    )  # (means, count)
    # Each mean reaches a point through the kernels, and its own budget through the level.
    levels = _LEVEL * (np.arange(len(compute))[:, None] == means.budget)
    over_n, over_batch = kernels[0][:, place[1]], kernels[1][:, place[2]]
    over_compute = kernels[2][:, means.budget]
    moved = (levels @ solved).T[:, :, None, None] + np.zeros(shape)
    reach = solved.T[:, None, :] * over_compute
    moved += (main**2 * reach @ over_n.T)[..., None]
    if len(batches) > 1:
        moved += (batch_size**2 * reach @ over_batch.T)[:, :, None, :]
        pairs = (over_n.T[:, :, None] * over_batch.T[:, None, :]).reshape(len(means.reward), -1)
        moved += both**2 * (reach @ pairs).reshape(shape)
    return np.asarray(centre + prior + moved)


def _root(kernel: FloatArray) -> FloatArray:
    """A matrix square root that tolerates kernels of nearly equal points."""
    values, vectors = np.linalg.eigh(kernel)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
