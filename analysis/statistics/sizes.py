"""How fast models of different size learn: the law of arXiv 2509.25300.

    ln(1 - R) = -k(N) ln X + E(N),    k(N) = K_max / (1 + N0 / N)

R is the reward, N the model's parameters, X compute or data: whatever the budgets are in. Each run
of one (n, B) has a line by least squares over its readings. The noise of slopes is what evaluation
adds to them, which is known, and luck of seeds in proportion to k, which is estimated over all
sizes. Every (K_max, N0) of a grid is tried, and those that the slopes do not refute (likelihood
ratio) are the intervals. An N0 of next to nothing says that size does not matter, one far above the
largest model that k goes in proportion to N: there the interval is open.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive
from isosweep.analysis.curves import CellReading, Curve
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.across import MISFIT, Across, Group, Parameter, Unidentified
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.fits import sampled_error
from isosweep.analysis.statistics.intervals import Interval
from isosweep.evidence import MIN_SEEDS

# N0 is tried from so far below the smallest model to as far above the largest.
_REACH = 100.0
_POINTS = 201
# K_max is tried from e^-_WIDE to e^_WIDE times what fits best at each N0.
_WIDE = 1.0
# Spreads between seeds of a slope, relative to it, that are tried.
_LUCK = np.linspace(0.002, 0.6, 300)
# Sizes at which the law is drawn.
_CURVE = 40


@dataclass(frozen=True, kw_only=True)
class SizeFit:
    """k(N) = K_max / (1 + N0 / N), where the slopes bear it out."""

    largest: Parameter
    """K_max. No unit."""
    half_size: Parameter
    """N0. Parameters."""
    at: tuple[Positive, ...]
    """Parameters N of the points of curve."""
    curve: tuple[Interval, ...]
    """k(N): the likeliest, and the ends of what is not refuted."""


@dataclass(frozen=True, kw_only=True)
class SizeLaw:
    """How slopes go with the size of the model, for one (n, B)."""

    entries: tuple[str, ...]
    """Entries, by size, ascending."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    sizes: tuple[Positive, ...]
    """Parameters N of each entry's model."""
    slopes: tuple[Interval, ...]
    """k of each. No unit."""
    levels: tuple[Interval, ...]
    """E of each: ln(1 - R) at X = 1. No unit."""
    found: SizeFit | Unidentified
    """How k goes with N, or why that is not identified."""


def _lines(entry: Entry, _: float) -> dict[Pair, FloatArray]:
    """Slope k of every run of an (n, B), its level E, and what evaluation adds to the slope's
    error: (runs, 3), of two runs or more."""
    runs: dict[str, list[CellReading]] = {}
    for reading in entry.data.readings:
        if reading.reward is not None:
            runs.setdefault(reading.cell.run_id, []).append(reading)
    found: dict[Pair, list[tuple[float, float, float]]] = {}
    for curve in entry.data.curves:
        mine = runs.get(curve.run.run_id, [])
        if len(mine) > 1:
            found.setdefault(Pair.of(curve.run), []).append(_line(curve, mine))
    return {pair: np.array(lines) for pair, lines in found.items() if len(lines) >= MIN_SEEDS}


def _line(curve: Curve, readings: Sequence[CellReading]) -> tuple[float, float, float]:
    """Slope, level and error of one run's line through its readings."""
    budgets = np.array([reading.cell.budget for reading in readings])
    rewards = np.array([reading.reward for reading in readings], dtype=np.float64)
    # A run that errs nowhere may err in half a completion of those that it was asked.
    least = 0.5 / curve.num_samples if curve.errors is None else float(np.mean(curve.errors))
    wrong = np.maximum(1 - rewards, least)
    nearest = np.abs(curve.compute[:, None] - budgets).argmin(axis=0)
    errors = np.array([sampled_error(curve, i) for i in nearest]) / wrong
    away = np.log(budgets) - np.log(budgets).mean()
    pull = away / (away @ away)
    slope = -float(pull @ np.log(wrong))
    level = float(np.log(wrong).mean()) + slope * float(np.log(budgets).mean())
    return slope, level, math.sqrt(float(pull**2 @ errors**2))


def _law(group: Group[Pair, float, FloatArray]) -> SizeLaw:
    slopes, levels = ([each[:, column] for each in group.seen] for column in (0, 1))
    errors = np.array([math.sqrt(float((each[:, 2] ** 2).mean())) for each in group.seen])
    return SizeLaw(
        **group.labels,
        sizes=group.amounts,
        slopes=tuple(Interval.student(each, group.confidence) for each in slopes),
        levels=tuple(Interval.student(each, group.confidence) for each in levels),
        found=fit_sizes(np.array(group.amounts), slopes, errors, group.confidence),
    )


# Of two seeds and more that were read at two budgets and more.
SIZES = Across(varied=("model.",), amount=lambda entry: entry.parameters, read=_lines, fit=_law)


def fit_sizes(
    sizes: FloatArray, slopes: Sequence[FloatArray], errors: FloatArray, confidence: float
) -> SizeFit | Unidentified:
    """Of `sizes` (sizes,), ascending, slopes k of the seeds of each, and what evaluation adds to
    the error of one slope (sizes,); or why none."""
    from scipy import stats

    mean = np.array([each.mean() for each in slopes])
    if (mean <= 0).any():
        return Unidentified(kind="no fall")
    spare = np.array([len(each) - 1 for each in slopes])
    square = np.array([float(((each - each.mean()) ** 2).sum()) for each in slopes])
    # Seeds learn faster or slower by a factor; how much they do explains their spread best.
    variances = errors**2 + (_LUCK[:, None] * mean) ** 2
    likelihood = -(spare * np.log(variances) + square / variances).sum(axis=1)
    weight = (spare + 1) / variances[int(likelihood.argmax())]
    half = np.geomspace(sizes[0] / _REACH, sizes[-1] * _REACH, _POINTS)
    share = 1 / (1 + half[:, None] / sizes)  # (half sizes, sizes)
    centre = (share @ (weight * mean)) / (share**2 @ weight)
    largest = centre[:, None] * np.exp(np.linspace(-_WIDE, _WIDE, _POINTS))
    left = mean - largest[:, :, None] * share[:, None]
    misfit = (weight * left**2).sum(axis=2)  # (half sizes, largest)
    best = np.unravel_index(misfit.argmin(), misfit.shape)
    freedom, free = int(spare.sum()), len(sizes) - 2
    if stats.f.sf(misfit[best] / free, free, freedom) < MISFIT:
        return Unidentified(kind="no law")
    kept = misfit <= misfit[best] + stats.f.ppf(confidence, 1, freedom)
    rows = kept.any(axis=1)
    if rows.all():
        return Unidentified(kind="uncertain")
    at = np.geomspace(sizes[0], sizes[-1], _CURVE)
    drawn = largest[kept][:, None] / (1 + np.repeat(half, kept.sum(axis=1))[:, None] / at)
    middle = largest[best] / (1 + half[best[0]] / at)
    ends = zip(middle, drawn.min(axis=0), drawn.max(axis=0), strict=True)
    values = largest[kept]
    return SizeFit(
        largest=Parameter(
            value=float(largest[best]) if best[0] < _POINTS - 1 else None,
            low=None if kept[:, 0].any() else float(values.min()),
            # Where k goes in proportion to N, K_max may be as large as N0.
            high=None if rows[-1] or kept[:, -1].any() else float(values.max()),
        ),
        half_size=Parameter(
            value=float(half[best[0]]) if 0 < best[0] < _POINTS - 1 else None,
            low=None if rows[0] else float(half[rows].min()),
            high=None if rows[-1] else float(half[rows].max()),
        ),
        at=tuple(at.tolist()),
        curve=tuple(
            Interval(median=float(m), low=float(low), high=float(high)) for m, low, high in ends
        ),
    )
