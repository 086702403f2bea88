"""Mean rewards over seeds, and the covariance of their noise: what the reward surface is fitted to.

A run's reward deviates from the expected one of its (n, B). With C_jk the covariance of one run's
deviations between budgets j and k (a lucky run is lucky at all its budgets), r the standard
deviation of an (n, B) relative to that of all, and s_a the seeds of mean a,

    noise_ab = C_jk * r_a * r_b * |s_a and s_b| / (|s_a| |s_b|) * rho_ab,
    rho_ab = c + (1 - c) ((1 - t) [same (n, B)] + t x_a x_b).

Variance components, of unit total: c is common to all runs of a seed, which see the same problems
in the same order, and moves all n together; t goes with x = log2 n (centred, scaled), and moves n*
however many n agree; the rest is every run's own. All are moment estimators.

The spread is heteroscedastic: the gradient of a step averages over n x B rollouts, so runs of few
rollouts differ more. log r^2 is a plane whose slopes may change with log C,

    log r^2(n, B, C) = (a + b log10 C) log2 n + (d + e log10 C) log2 B - level(C).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair

# Most of the variance that may be common: the rest is known of few (n, B).
_MOST_COMMON = 0.98
# From this common share on one seed is off everywhere, and seed effects are taken out first. Seeds
# of simulated sweeps of five and nine n, none of them off, share less.
_SEED_EFFECTS, _ROUNDS = 0.8, 20
# Runs of one seed, of as many n, for a slope over log2 n.
_LEAST_FOR_SLOPE = 3
# Prior standard deviations of a slope of log r^2 per doubling (a variance in proportion to 1/n has
# -0.69), and of its change in a decade of compute.
_SLOPE_N, _SLOPE_CHANGE = 0.5, 0.25
# A variance of 1e-18 is rounding.
_NOTHING = 1e-18
# Least and greatest variance of an (n, B) over that of its budget: seeds that happen to agree, as
# where nothing is learned yet, are no evidence of a run without luck.
_LEAST, _MOST = 0.01, 100.0
# Correlation lengths of a run's passing luck, in decades.
_LUCK_DECADES = tuple(np.geomspace(0.02, 2.0, 12))
# Prior of log variance over compute: standard deviations of its slope per decade and of what
# remains around that line, and the correlation length of the latter in decades.
_SLOPE, _AROUND, _AROUND_DECADES = 1.0, 0.5, 1.0
# Degrees of freedom that this prior counts as. In simulation, standard deviations of two seeds of
# five n then err a fifth less than alone where they change slowly over compute, and a quarter more
# where they jump tenfold; of four seeds of nine n 6% less, and a fifth more.
_PRIOR_FREEDOM = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """Mean rewards over seeds of every (n, B) that was read at a budget.

    `log2_n`, `log2_batch`: (means,); where no n has two B, B goes with n and is no axis: all of
    `log2_batch` is 0. `budget`: (means,) index into `budgets` (ascending); `reward`: (means,);
    `noise`: (means, means) covariance, with `degrees_of_freedom`; `covariance`: (budgets, budgets)
    of one run's rewards, pooled over n and B; `spread`: (means,) standard deviation between the
    replicates of each; `common`: share of its square common to all runs of a seed, mean over
    budgets.
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
        """Lower triangular root of the noise: (means, means)."""
        return np.asarray(np.linalg.cholesky(self.noise))

    @property
    def seed_sd(self) -> FloatArray:
        """Standard deviation between seeds, pooled over n and B: (budgets,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def places(self, budget: int, pairs: Sequence[Pair]) -> IntArray:
        """Indices of the means of some (n, B) at a budget, by its index: (pairs,)."""
        at = np.flatnonzero(self.budget == budget)
        known = {(self.log2_n[k], self.log2_batch[k]): k for k in at.tolist()}
        several = self.log2_batch.any()
        wanted = [(math.log2(n), math.log2(B) if several else 0.0) for n, B in pairs]
        return np.array([known[pair] for pair in wanted], dtype=np.int64)

    def draws(self, budget: int, pairs: Sequence[Pair], count: int) -> FloatArray:
        """Draws of the expected rewards of some (n, B) at a budget, by their means alone: (count,
        pairs), multivariate t. Seeded."""
        at = self.places(budget, pairs)
        rng, freedom = np.random.default_rng(budget), self.degrees_of_freedom
        noise = rng.multivariate_normal(np.zeros(len(at)), self.noise[np.ix_(at, at)], count)
        scale = np.sqrt(freedom / rng.chisquare(freedom, (count, 1)))
        return np.asarray(self.reward[at] + scale * noise)

    def subset(self, number: int, rng: np.random.Generator) -> "Means":
        """So many of the means, at random."""
        kept = np.sort(rng.choice(len(self.reward), number, replace=False))
        names = ("log2_n", "log2_batch", "budget", "reward", "spread")
        chosen = {name: getattr(self, name)[kept] for name in names}
        return replace(self, **chosen, noise=self.noise[np.ix_(kept, kept)])


def gather_means(readings: Iterable[CellReading]) -> Means | None:
    """Means over seeds and the covariance of their noise; None where no two seeds can be compared.

    Where one seed is off everywhere, its effect at each budget is taken out of all means, and its
    variance kept in their noise.
    """
    runs: dict[Pair, dict[tuple[int, float], float]] = {}
    for reading in readings:
        if reading.reward is not None:
            cell = reading.cell
            runs.setdefault(Pair.of(cell), {})[cell.seed, cell.budget] = reading.reward
    if not runs:
        return None
    budgets = sorted({budget for read in runs.values() for _, budget in read})
    seeds = sorted({seed for read in runs.values() for seed, _ in read})
    pairs = sorted(runs)
    rewards = np.array(
        [[[runs[p].get((s, b), np.nan) for b in budgets] for s in seeds] for p in pairs]
    )  # (pairs, seeds, budgets)
    found = _means_of(rewards, pairs, budgets)
    if found is None:
        return None
    means, shared = found
    if means.common < _SEED_EFFECTS:
        return means
    rest = _means_of(rewards - _seed_effects(rewards), pairs, budgets)
    if rest is None:
        return means
    # Seed effects take as many degrees of freedom as one (n, B) has.
    left = 1 - 1 / len(pairs)
    return replace(
        means,
        reward=rest[0].reward,
        noise=shared + rest[0].noise / left,
        degrees_of_freedom=max(1, round(left * rest[0].degrees_of_freedom)),
    )


def _seed_effects(rewards: FloatArray) -> FloatArray:
    """What each seed has above the others in all (n, B), by two-way analysis of variance with
    missing cells: (seeds, budgets)."""
    present = np.isfinite(rewards)
    known, effect = np.where(present, rewards, 0.0), np.zeros(rewards.shape[1:])
    seeds, pairs = np.maximum(present.sum(axis=1), 1), np.maximum(present.sum(axis=0), 1)
    for _ in range(_ROUNDS):
        mean = (known - present * effect).sum(axis=1) / seeds
        effect = (known - present * mean[:, None]).sum(axis=0) / pairs
        effect -= effect.mean(axis=0)
    return effect


def _means_of(
    rewards: FloatArray, pairs: list[Pair], budgets: list[float]
) -> tuple[Means, FloatArray] | None:
    """Means of rewards (pairs, seeds, budgets), nan where nothing was read; and the part of their
    noise that is common to all: (means, means)."""
    x, y = np.log2(pairs).T
    decades = np.log10(budgets)
    relative = _relative_spread(rewards, x, y, decades)  # (pairs, budgets)
    scaled = rewards / relative[:, None]
    covariance, freedom = _run_covariance(scaled, decades)
    if covariance is None:
        return None
    common = _common_share(scaled)
    tilt, along = _tilt_share(scaled, x)
    of_pair, at = np.nonzero(np.isfinite(rewards).any(axis=1))
    read = np.isfinite(rewards[of_pair, :, at])  # (means, seeds)
    weights = read / read.sum(axis=1, keepdims=True)
    alike = np.outer(np.sqrt(common)[at], np.sqrt(common)[at])
    apart = np.outer(np.sqrt(1 - common)[at], np.sqrt(1 - common)[at])
    slope = along[of_pair]
    own = (1 - tilt) * (of_pair[:, None] == of_pair) + tilt * np.outer(slope, slope)
    spread = relative[of_pair, at]
    noise = covariance[np.ix_(at, at)] * (weights @ weights.T) * np.outer(spread, spread)
    means = Means(
        budgets=tuple(budgets),
        log2_n=x[of_pair],
        log2_batch=np.zeros(len(at)) if len(set(x)) == len(x) else y[of_pair],
        budget=at,
        reward=np.nanmean(rewards[of_pair, :, at], axis=1),
        noise=noise * (alike + apart * own),
        covariance=covariance,
        spread=np.sqrt(np.diag(covariance))[at] * spread,
        degrees_of_freedom=freedom,
        common=float(common.mean()),
    )
    return means, noise * alike


def _deviations(rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Deviations of replicates from their mean, 0 where there is no other: (pairs, seeds, budgets);
    and degrees of freedom: (pairs, budgets)."""
    present = np.isfinite(rewards)
    count = present.sum(axis=1)
    mean = np.where(present, rewards, 0.0).sum(axis=1) / np.maximum(count, 1)
    away = np.where(present & (count > 1)[:, None], rewards - mean[:, None], 0.0)
    return away, np.maximum(count - 1, 0).astype(np.float64)


def _relative_spread(
    rewards: FloatArray, log2_n: FloatArray, log2_batch: FloatArray, decades: FloatArray
) -> FloatArray:
    """Standard deviation between replicates over that of all (n, B) at the budget: (pairs,
    budgets), of mean square 1 over those of a budget that have several replicates."""
    away, freedom = _deviations(rewards)
    squares = (away**2).sum(axis=1)
    known = (freedom > 0).any(axis=0) & (squares.sum(axis=0) > _NOTHING * freedom.sum(axis=0))
    axes = [axis for axis in (log2_n, log2_batch) if np.ptp(axis) > 0]
    if not known.any() or not axes:
        return np.ones_like(squares)
    when = decades - decades[known].mean()
    design = np.stack(
        [
            feature
            for axis in axes
            for along in [np.broadcast_to((axis - axis.mean())[:, None], squares.shape)]
            for feature in (along, along * when)
        ]
    )  # (slopes, pairs, budgets)
    # Neighbouring budgets see the same luck: they count as often as they are independent.
    counted = _independent(away[:, :, known]) / int(known.sum())
    pooled = squares.sum(axis=0) / np.maximum(freedom.sum(axis=0), 1)
    slopes = _most_likely_slopes(
        design[:, :, known],
        np.maximum(squares, _LEAST * pooled * freedom)[:, known],
        freedom[:, known],
        counted,
        np.array([_SLOPE_N, _SLOPE_CHANGE] * len(axes)),
    )
    variance = np.exp(np.tensordot(slopes, design, axes=1))
    total = freedom.sum(axis=0)
    level = np.where(
        total > 0, (freedom * variance).sum(axis=0) / np.maximum(total, 1), variance.mean(axis=0)
    )
    return np.asarray(np.sqrt(np.clip(variance / level, _LEAST, _MOST)))


def _independent(away: FloatArray) -> float:
    """To how many independent budgets the squares of these deviations amount: 1 or more."""
    flat = away.reshape(-1, away.shape[2])
    sd = np.sqrt((flat**2).sum(axis=0))
    correlation = flat.T @ flat / np.outer(sd, sd)
    # Squares of normal variables correlate by the square of their own correlation.
    return float(away.shape[2] ** 2 / (correlation**2).sum())


def _most_likely_slopes(
    design: FloatArray, squares: FloatArray, freedom: FloatArray, counted: float, priors: FloatArray
) -> FloatArray:
    """The slopes of the greatest posterior, each budget's level profiled out: (slopes,).

    Sums of squares are variance x chi-square: with the levels gone the loss is
    sum over budgets of D/2 log(sum of squares / v) + sum of freedom/2 log v, which is convex.
    """
    from scipy.optimize import minimize

    total = freedom.sum(axis=0)

    def loss(slopes: FloatArray) -> tuple[float, FloatArray]:
        log_v = np.tensordot(slopes, design, axes=1)
        scaled = squares * np.exp(-log_v)
        sums = scaled.sum(axis=0)
        value = 0.5 * float((total * np.log(sums)).sum() + (freedom * log_v).sum())
        residual = 0.5 * (freedom - total * scaled / sums)
        gradient = np.tensordot(design, residual, axes=2)
        penalty = 0.5 * float(((slopes / priors) ** 2).sum())
        return counted * value + penalty, counted * gradient + slopes / priors**2

    return np.asarray(minimize(loss, np.zeros(len(design)), jac=True, method="BFGS").x)


def _common_share(rewards: FloatArray) -> FloatArray:
    """Share of the variance that is common to all runs of a seed: (budgets,), one value but at
    budgets that surely have more.

    Of the products of two (n, B)'s deviations with the same seed, each sum over seeds has the
    expectation share x variance x (seeds - 1). A standard error is taken off, so that a share that
    is not there is assumed in one sweep of six: the lesser of that under no share and that of what
    remains.
    The latter matters where one seed is off everywhere by many times what the others differ by.
    """
    away, freedom = _deviations(rewards)
    kept = np.isfinite(rewards) & (freedom > 0)[:, None]
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
            # Degrees of freedom that remain once seeds have effects of their own.
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


def _tilt_share(rewards: FloatArray, log2_n: FloatArray) -> tuple[float, FloatArray]:
    """Share of what is not common that goes with log2 n in all runs of a seed; and log2 n, centred
    and of mean square 1: (pairs,).

    By method of moments: the variance of the seeds' slopes over log2 n beyond what independent runs
    would show, less one standard error of that. 0 with fewer than three n or two seeds.
    """
    along = log2_n - log2_n.mean()
    along = along / max(float(np.sqrt((along**2).mean())), 1e-12)
    tilted, own = [], []
    for here in np.moveaxis(rewards, 2, 0):
        seeds = np.isfinite(here).sum(axis=0) >= _LEAST_FOR_SLOPE
        pairs = np.isfinite(here[:, seeds]).all(axis=1)
        away, x = here[np.ix_(pairs, seeds)], along[pairs]
        if len(np.unique(x)) < _LEAST_FOR_SLOPE or away.shape[1] < 2:
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


def _run_covariance(rewards: FloatArray, decades: FloatArray) -> tuple[FloatArray | None, int]:
    """Covariance (budgets, budgets) of one run's deviations, pooled over n and B, and its degrees
    of freedom; None where no two replicates differ.

    Correlations and variances of few runs are shrunk towards smooth courses over compute.
    """
    away, freedom = _deviations(rewards)
    flat = away.reshape(-1, len(decades))
    here = (np.isfinite(rewards) & (freedom > 0)[:, None]).astype(np.float64)
    products = flat.T @ flat
    weight = np.maximum(np.swapaxes(here, 1, 2) @ here - 1, 0).sum(axis=0)
    known = np.diag(weight) > 0
    variance = np.diag(products) / np.maximum(np.diag(weight), 1)
    if not known.any() or variance[known].mean() < _NOTHING:
        return None, 0
    # A budget whose seeds agree borrows from the others.
    variance = np.maximum(variance, 0.01 * variance[known].mean())
    off = (weight > 0) & ~np.eye(len(decades), dtype=bool)
    sd = np.sqrt(variance)
    correlation = products / np.maximum(weight, 1) / np.outer(sd, sd)
    expected = _smooth_correlation(correlation, np.where(off, weight, 0.0), decades)
    shrunk = np.minimum(1.0, len(decades) / np.maximum(weight, 1))
    sd = np.sqrt(_smooth_variance(variance, np.diag(weight), expected, decades))
    mixed = np.where(off, (1 - shrunk) * correlation + shrunk * expected, expected)
    np.fill_diagonal(mixed, 1.0)
    values, vectors = np.linalg.eigh(mixed)
    mixed = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    return np.outer(sd, sd) * mixed, int(freedom.max(axis=1).sum())


def _smooth_variance(
    variance: FloatArray, freedom: FloatArray, correlation: FloatArray, decades: FloatArray
) -> FloatArray:
    """Means of each budget's variance and what the others predict, by their degrees of freedom:
    (budgets,).

    Few seeds agree by chance at some budgets and differ at others, and n* would seem known where
    they agree. The prediction: the log of the variance is a Gaussian process around a line over
    log C, observed with the error of so few seeds, which budgets share as far as they correlate.
    `correlation`: (budgets, budgets) of one run's deviations.
    """
    from scipy.special import digamma

    known = np.flatnonzero(freedom > 0)
    some = freedom[known]
    # The log of an estimated variance is too small, the more so the fewer seeds it has.
    log_variance = np.log(variance[known]) + np.log(some / 2) - digamma(some / 2)
    away = decades - np.average(decades[known], weights=some)
    distance = np.abs(away[:, None] - away[known]) / _AROUND_DECADES
    around = _AROUND**2 * (1 + distance) * np.exp(-distance)
    smooth = _SLOPE**2 * np.outer(away, away[known]) + around
    error = 2 * correlation[np.ix_(known, known)] ** 2 / np.maximum.outer(some, some)
    ones = np.ones(len(known))
    solved = np.linalg.solve(smooth[known] + error, np.stack([ones, log_variance], 1))
    level = solved[:, 1].sum() / solved[:, 0].sum()
    expected = np.exp(level + smooth @ (solved[:, 1] - level * solved[:, 0]))
    return np.asarray(expected + freedom / (freedom + _PRIOR_FREEDOM) * (variance - expected))


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
