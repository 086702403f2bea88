"""Mean rewards over seeds, and how surely they are known: what the reward surface is fitted to.

The noise of means is what seeds show: their covariance between budgets (a run is lucky at all its
budgets), pooled over all (n, B) once each is scaled by its own spread (`relative_spread`); as much
of it as is common to all runs of a seed, which see the same problems in the same order, moves all n
together and says nothing against any; as much as goes with log2 n in a seed moves n*, however many
n say so.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.spread import deviations, relative_spread

# Of the variance, for what is left is known of few cells.
_MOST_COMMON = 0.98
# From this share on one seed is off in all cells, and its level is taken out first. Of 5 and 9 n in
# simulation, clean seeds share less.
_LEVELS, _ROUNDS = 0.8, 20
# Cells of one seed, of as many n, that a slope over log2 n takes.
_TILTED = 3
# Decades over which a run's passing luck may last.
_LUCK_DECADES = tuple(np.geomspace(0.02, 2.0, 12))
# How the log of the variance goes with compute before any data: standard deviations of its slope
# per decade and of what is around that line, and the decades over which the latter varies.
_SLOPE, _COURSE, _COURSE_DECADES = 1.0, 0.5, 1.0
# Degrees of freedom that this course counts as. In simulation, standard deviations of two seeds of
# five n then err a fifth less than alone where they change slowly over compute, and a quarter more
# where they jump tenfold; of four seeds of nine n 6% less, and a fifth more.
_COURSE_FREEDOM = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """Mean rewards over seeds of every (n, B) that was read at a budget.

    `log2_n`, `log2_batch`: (means,); where no n has two B, B goes with n and is no axis: all of
    `log2_batch` is 0. `budget`: (means,) index into `budgets` (ascending);
    `reward`: (means,); `noise`: (means, means) covariance that the seeds give them, with
    `degrees_of_freedom`; `covariance`: (budgets, budgets) of one seed's rewards, over all n and B;
    `spread`: (means,) standard deviation between seeds of each one's own; `common`: the share of
    its square that runs with the same seed have in common, mean over budgets.
    """

    budgets: tuple[float, ...]
    log2_n: FloatArray
    log2_batch: FloatArray
    budget: IntArray
    reward: FloatArray
    noise: FloatArray
    covariance: FloatArray
    spread: FloatArray
    degrees_of_freedom: int
    common: float = 0.0

    @cached_property
    def noise_root(self) -> FloatArray:
        """The lower triangle whose square is the noise: (means, means)."""
        return np.asarray(np.linalg.cholesky(self.noise))

    @property
    def seed_sd(self) -> FloatArray:
        """Spread between seeds over all n and B: (budgets,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def spread_of(self, budget: int, pair: Pair) -> float:
        """Spread between seeds of one (n, B) at a budget, by its index."""
        here = (self.budget == budget) & (self.log2_n == math.log2(pair.num_generations))
        if self.log2_batch.any():
            here &= self.log2_batch == math.log2(pair.problems_per_batch)
        return float(self.spread[here][0])

    def draws(self, budget: int, pairs: Sequence[Pair], count: int) -> FloatArray:
        """Rewards of some (n, B) at a budget, by its index, as their means and spread alone have
        them: Student's, (count, pairs). Seeded."""
        place = {
            (n, b): k
            for k, (n, b, at) in enumerate(
                zip(self.log2_n, self.log2_batch, self.budget, strict=True)
            )
            if at == budget
        }
        several = self.log2_batch.any()
        at = [place[math.log2(n), math.log2(B) if several else 0.0] for n, B in pairs]
        rng = np.random.default_rng(budget)
        noise = rng.multivariate_normal(np.zeros(len(at)), self.noise[np.ix_(at, at)], count)
        freedom = self.degrees_of_freedom
        scale = np.sqrt(freedom / rng.chisquare(freedom, (count, 1)))
        return np.asarray(self.reward[at] + scale * noise)

    def some(self, number: int, rng: np.random.Generator) -> "Means":
        """So many of them, at random."""
        kept = np.sort(rng.choice(len(self.reward), number, replace=False))
        names = ("log2_n", "log2_batch", "budget", "reward", "spread")
        chosen = {name: getattr(self, name)[kept] for name in names}
        return replace(self, **chosen, noise=self.noise[np.ix_(kept, kept)])


def gather_means(readings: Iterable[CellReading]) -> Means | None:
    """Means over seeds and their covariance; None where no two seeds can be compared.

    The covariance is that between budgets of one run's deviations from its cell, pooled over
    cells; since cells are few, its correlations are drawn towards a smooth course over compute.
    Means of two cells share the part of it that seeds have in common (`_common_share`).
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
    found = _means_of(tables, budgets) if tables else None
    if found is None or found[0].common < _LEVELS:
        return None if found is None else found[0]
    means, shared = found
    rest = _means_of(_without_levels(tables), budgets)
    if rest is None:
        return means
    # The levels take as many degrees of freedom as one cell has.
    left = 1 - 1 / len(tables)
    return replace(
        means,
        reward=rest[0].reward,
        noise=shared + rest[0].noise / left,
        degrees_of_freedom=max(1, round(left * rest[0].degrees_of_freedom)),
    )


def _without_levels(tables: dict[Pair, FloatArray]) -> dict[Pair, FloatArray]:
    """The rewards less what each seed has above the others in all cells alike, at each budget."""
    rewards = np.stack([*tables.values()])  # (cells, seeds, budgets)
    present = np.isfinite(rewards)
    known, level = np.where(present, rewards, 0.0), np.zeros(rewards.shape[1:])
    seeds, cells = np.maximum(present.sum(axis=1), 1), np.maximum(present.sum(axis=0), 1)
    for _ in range(_ROUNDS):
        mean = (known - present * level).sum(axis=1) / seeds
        level = (known - present * mean[:, None]).sum(axis=0) / cells
        level -= level.mean(axis=0)
    return dict(zip(tables, rewards - level, strict=True))


def _means_of(
    tables: dict[Pair, FloatArray], budgets: list[float]
) -> tuple[Means, FloatArray] | None:
    """The means of rewards, (seeds, budgets) of each (n, B), and the part of their noise that all
    cells share: (means, means)."""
    log2_n_of, log2_batch_of = np.log2(list(tables)).T
    decades = np.log10(budgets)
    relative = relative_spread(list(tables.values()), log2_n_of, log2_batch_of, decades)
    # Of one spread at each budget: (seeds, budgets) of every cell.
    alike = [table / of for table, of in zip(tables.values(), relative, strict=True)]
    covariance, freedom = _seed_covariance(alike, decades)
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
    common = _common_share(alike)
    tilt, along = _tilt_share(alike, log2_n_of)
    same, at_n = (of_cell[:, None] == of_cell).astype(np.float64), along[of_cell]
    at_budget = budget.astype(np.int64)
    shared, rest = np.sqrt(common)[at_budget], np.sqrt(1 - common)[at_budget]
    alike_in_all = np.outer(shared, shared)
    between = alike_in_all + np.outer(rest, rest) * (
        (1 - tilt) * same + tilt * np.outer(at_n, at_n)
    )
    own = relative[of_cell, at_budget]
    noise = covariance[np.ix_(at_budget, at_budget)] * (of_seeds @ of_seeds.T)
    scale = np.outer(own, own)
    if len({n for n, _ in tables}) == len(tables):
        log2_batch = np.zeros_like(log2_batch)
    means = Means(
        budgets=tuple(budgets),
        log2_n=log2_n,
        log2_batch=log2_batch,
        budget=at_budget,
        reward=np.array(reward),
        noise=noise * between * scale,
        covariance=covariance,
        spread=np.sqrt(np.diag(covariance))[at_budget] * own,
        degrees_of_freedom=freedom,
        common=float(common.mean()),
    )
    return means, noise * alike_in_all * scale


def _common_share(tables: list[FloatArray]) -> FloatArray:
    """Share of the seeds' variance that is common to all cells, 0 unless it surely is more:
    (budgets,), the same at all budgets but those at which more surely is.

    `tables`: (seeds, budgets) of every cell, nan where nothing was read. Of the products of two
    cells' deviations with the same seed, each sum over seeds has the expectation share x variance
    x (seeds - 1). One standard error, of no share at all, is taken off: so that a share that is
    not there is hardly ever assumed; or that of what is left, in proportion to it, if that is
    less. One seed may be off in all cells by many times what the others differ by: nearly all of
    the variance is then common, at the budgets where it is off, and an error of no share would
    leave most of it to every cell.
    """
    away, freedom = deviations(tables)  # (cells, seeds, budgets), (cells, budgets)
    kept = np.isfinite(tables) & (freedom > 0)[:, None]
    shares, errors, surely = [], [], np.zeros(away.shape[2])
    for k in np.flatnonzero((freedom > 0).any(axis=0)):
        here = kept[:, :, k].astype(np.float64)
        pairs = np.maximum(here @ here.T - 1, 0)
        own = float(np.trace(pairs))
        spread = float((away[:, :, k] ** 2).sum()) / max(own, 1.0)
        np.fill_diagonal(pairs, 0.0)
        if pairs.sum() and spread > 0:
            products = away[:, :, k] @ away[:, :, k].T
            total = float(products.sum() - np.trace(products))
            share = total / spread / float(pairs.sum())
            # Degrees of freedom of what is left once seeds have levels of their own.
            left = own - (int(here.any(axis=0).sum()) - 1)
            of_rest = (1 - share) * math.sqrt(2 / left) if left > 0 else math.inf
            shares.append(share)
            errors.append(min(math.sqrt(2 / float(pairs.sum())), max(0.0, of_rest)))
            if errors[-1] == of_rest:
                surely[k] = share - of_rest
    if not shares:
        return surely
    everywhere = np.mean(shares) - np.mean(errors)
    return np.asarray(np.clip(np.maximum(everywhere, surely), 0.0, _MOST_COMMON))


def _tilt_share(tables: list[FloatArray], log2_n: FloatArray) -> tuple[float, FloatArray]:
    """Share of what is not common that goes with log2 n in all runs of a seed; log2 n scaled.

    Runs of neighbouring n see much the same, so that a seed may favour large n in all of them: n*
    then moves by luck, in every n alike. `tables` as in `_common_share`; `log2_n` and the result:
    (cells,), of mean square 1. The share is what slopes of seeds over log2 n differ by beyond what
    independent runs would, and one standard error of that; 0 with fewer than three n or two seeds.
    """
    along = log2_n - log2_n.mean()
    along = along / max(float(np.sqrt((along**2).mean())), 1e-12)
    rewards = np.stack(tables)  # (cells, seeds, budgets)
    tilted, own = [], []
    for here in np.moveaxis(rewards, 2, 0):
        seeds = np.isfinite(here).sum(axis=0) >= _TILTED
        cells = np.isfinite(here[:, seeds]).all(axis=1)
        away, x = here[np.ix_(cells, seeds)], along[cells]
        if len(np.unique(x)) < _TILTED or away.shape[1] < 2:
            continue
        away = away - away.mean(axis=1, keepdims=True)
        away = away - away.mean(axis=0)
        x = x - x.mean()
        slopes = x @ away / (x @ x)
        left = ((away - np.outer(x, slopes)) ** 2).sum()
        freedom = away.shape[1] - 1
        own.append(float(left) / ((len(x) - 2) * freedom))
        chance = own[-1] / float(x @ x) * (1 + math.sqrt(2 / freedom))
        tilted.append(float((slopes**2).sum()) / freedom - chance)
    if not own or sum(tilted) <= 0:
        return 0.0, along
    return min(0.95, sum(tilted) / (sum(tilted) + sum(own))), along


def _seed_covariance(
    tables: list[FloatArray], decades: FloatArray
) -> tuple[FloatArray | None, int]:
    """Covariance (budgets, budgets) of one seed's rewards around its cell, degrees of freedom.

    `decades`: (budgets,), log10 of each.
    """
    budgets = len(decades)
    products, weight = np.zeros((budgets, budgets)), np.zeros((budgets, budgets))
    freedom = 0
    for table in tables:
        present = np.isfinite(table)
        several = present.sum(axis=0) > 1
        if not several.any():
            continue
        deviation = np.zeros_like(table)
        deviation[:, several] = table[:, several] - np.nanmean(table[:, several], axis=0)
        deviation = np.nan_to_num(deviation)
        here = (present & several).astype(np.float64)
        products += deviation.T @ deviation
        weight += np.maximum(here.T @ here - 1, 0)
        freedom += int(present.sum(axis=0).max()) - 1
    known = np.diag(weight) > 0
    variance = np.diag(products) / np.maximum(np.diag(weight), 1)
    if not known.any() or variance[known].mean() < 1e-18:
        return None, 0
    # A budget whose seeds agree borrows from the others.
    variance = np.maximum(variance, 0.01 * variance[known].mean())
    off = (weight > 0) & ~np.eye(budgets, dtype=bool)
    sd = np.sqrt(variance)
    correlation = products / np.maximum(weight, 1) / np.outer(sd, sd)
    expected = _smooth_correlation(correlation, np.where(off, weight, 0.0), decades)
    shrunk = np.minimum(1.0, budgets / np.maximum(weight, 1))
    sd = np.sqrt(_smoothed(variance, np.diag(weight), expected, decades))
    mixed = np.where(off, (1 - shrunk) * correlation + shrunk * expected, expected)
    np.fill_diagonal(mixed, 1.0)
    values, vectors = np.linalg.eigh(mixed)
    mixed = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    return np.outer(sd, sd) * mixed, freedom


def _smoothed(
    variance: FloatArray, freedom: FloatArray, alike: FloatArray, decades: FloatArray
) -> FloatArray:
    """Means of each budget's variance and what the budgets around it expect, by their degrees of
    freedom: (budgets,).

    Few seeds agree by chance at some budgets and differ at others, and n* would seem known where
    they agree. What is expected: the log of the variance varies smoothly with log C, as a Gaussian
    process around a line; what is known of it has the error of so few seeds, which neighbours share
    as they share luck. `alike`: (budgets, budgets) correlation of one seed's rewards.
    """
    from scipy.special import digamma

    known = np.flatnonzero(freedom > 0)
    some = freedom[known]
    # The log of an estimated variance is too small, the more so the fewer seeds it has.
    log_variance = np.log(variance[known]) + np.log(some / 2) - digamma(some / 2)
    away = decades - np.average(decades[known], weights=some)
    apart = np.abs(away[:, None] - away[known]) / _COURSE_DECADES
    smooth = _SLOPE**2 * np.outer(away, away[known]) + _COURSE**2 * (1 + apart) * np.exp(-apart)
    error = 2 * alike[np.ix_(known, known)] ** 2 / np.maximum.outer(some, some)
    told = np.linalg.solve(smooth[known] + error, np.stack([np.ones(len(known)), log_variance], 1))
    level = told[:, 1].sum() / told[:, 0].sum()
    expected = np.exp(level + smooth @ (told[:, 1] - level * told[:, 0]))
    return np.asarray(expected + freedom / (freedom + _COURSE_FREEDOM) * (variance - expected))


def _smooth_correlation(
    correlation: FloatArray, weight: FloatArray, decades: FloatArray
) -> FloatArray:
    """The nearest to the known ones of a + (1 - a) exp(-d / l), by distance d in decades: a is a
    run's luck at all of its budgets, the rest what neighbours, and readings of one record, share.

    `weight`: (budgets, budgets), degrees of freedom of each; 0: not known.
    """
    apart = np.abs(decades[:, None] - decades)
    known = weight > 0
    of = weight[known]
    if not known.any():
        return np.eye(len(decades))
    fits = []
    for length in _LUCK_DECADES:
        near = np.exp(-apart / length)
        rest = 1 - near[known]
        lacking = correlation[known] - near[known]
        share = (of * rest) @ lacking / max(float((of * rest) @ rest), 1e-12)
        share = float(np.clip(share, 0.0, 0.95))
        fitted = share + (1 - share) * near
        fits.append((float(of @ (correlation - fitted)[known] ** 2), length, fitted))
    return np.asarray(min(fits, key=lambda fit: fit[:2])[2])
