"""How the spread between seeds goes with n and B: runs of small n are noisier, as a rule.

The gradient of a step averages over n x B rollouts, so runs of few rollouts differ more; pooled
over all n, their spread would be stated too small, and that of large n too large. The log of the
variance is a plane over log2 n and log2 B, whose slopes may move with log C:

    log v(n, B, C) = level(C) + (a + b log10 C) log2 n + (d + e log10 C) log2 B.

Each level is the data's own, the slopes are drawn towards 0 (`_SLOPE`, `_BEND`), so that few seeds
leave the spread the same everywhere.
"""

import numpy as np

from isosweep.analysis.arrays import FloatArray

# Standard deviations before the data: of a slope of log v per doubling (a variance in proportion
# to 1/n has -0.69), and of its change in a decade of compute.
_SLOPE, _BEND = 0.5, 0.25
# A variance of 1e-18 is rounding.
_NOTHING = 1e-18
# Least and greatest variance of a cell over that of its budget: seeds that happen to agree, as
# where nothing is learned yet, are no evidence of a run without luck.
_LEAST, _MOST = 0.01, 100.0


def relative_spread(
    tables: list[FloatArray], log2_n: FloatArray, log2_batch: FloatArray, decades: FloatArray
) -> FloatArray:
    """Standard deviation between seeds relative to that of all cells at the budget.

    `tables`: (seeds, budgets) rewards of every cell, nan where nothing was read; `log2_n`,
    `log2_batch`: (cells,); `decades`: (budgets,), log10 of each. Returns (cells, budgets), of mean
    square 1 over the cells of a budget that have several seeds.
    """
    away, freedom = deviations(tables)  # (cells, seeds, budgets), (cells, budgets)
    squares = (away**2).sum(axis=1)
    known = (freedom > 0).any(axis=0) & (squares.sum(axis=0) > _NOTHING * freedom.sum(axis=0))
    if not known.any():
        return np.ones_like(squares)
    when = decades - decades[known].mean()
    features, priors = [], []
    for axis in (log2_n, log2_batch):
        along = np.broadcast_to((axis - axis.mean())[:, None], squares.shape)
        if np.ptp(axis) > 0:
            features += [along, along * when]
            priors += [_SLOPE, _BEND]
    if not features:
        return np.ones_like(squares)
    design = np.stack(features)  # (slopes, cells, budgets)
    # Neighbouring budgets see the same luck: they count as often as they are independent.
    counted = _independent(away[:, :, known]) / int(known.sum())
    pooled = squares.sum(axis=0) / np.maximum(freedom.sum(axis=0), 1)
    slopes = _most_likely(
        design[:, :, known],
        np.maximum(squares, _LEAST * pooled * freedom)[:, known],
        freedom[:, known],
        counted,
        np.array(priors),
    )
    variance = np.exp(np.tensordot(slopes, design, axes=1))
    several = np.where(freedom > 0, freedom, 0.0)
    total = several.sum(axis=0)
    level = np.where(
        total > 0, (several * variance).sum(axis=0) / np.maximum(total, 1), variance.mean(axis=0)
    )
    return np.asarray(np.sqrt(np.clip(variance / level, _LEAST, _MOST)))


def deviations(tables: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Of every reward from the mean of its cell, 0 where it has no other: (cells, seeds, budgets);
    and the degrees of freedom of every cell: (cells, budgets)."""
    rewards = np.stack(tables)
    present = np.isfinite(rewards)
    count = present.sum(axis=1)
    mean = np.where(present, rewards, 0.0).sum(axis=1) / np.maximum(count, 1)
    away = np.where(present & (count > 1)[:, None], rewards - mean[:, None], 0.0)
    return away, np.maximum(count - 1, 0).astype(np.float64)


def _independent(away: FloatArray) -> float:
    """To how many independent budgets the squares of these deviations amount: 1 or more."""
    flat = away.reshape(-1, away.shape[2])
    sd = np.sqrt((flat**2).sum(axis=0))
    correlation = flat.T @ flat / np.outer(sd, sd)
    # Squares of normal variables correlate by the square of their own correlation.
    return float(away.shape[2] ** 2 / (correlation**2).sum())


def _most_likely(
    design: FloatArray,
    squares: FloatArray,
    freedom: FloatArray,
    counted: float,
    priors: FloatArray,
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
        lean = 0.5 * (freedom - total * scaled / sums)
        gradient = np.tensordot(design, lean, axes=2)
        penalty = 0.5 * float(((slopes / priors) ** 2).sum())
        return counted * value + penalty, counted * gradient + slopes / priors**2

    found = minimize(loss, np.zeros(len(design)), jac=True, method="BFGS")
    return np.asarray(found.x)
