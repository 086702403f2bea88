"""Where a learning curve goes next, with an interval, from what has been recorded of it.

A Bayesian mixture of forms in ln C: a saturating sigmoid, Gompertz's curve, a power law A - a C^-p,
a line, and a run that stays where it is, weighed by how well each explains the records. A run is
one of them, plus a random walk in ln C, plus the noise of its evaluations. The walk makes a
forecast start from where the run is now rather than from where the best curve would have it, and
widens the interval with the distance. Midpoint, exponent, size of gains, noise and walk lie on a
grid; given those, R0 and the gain are normal, so that every point of the grid has a closed form.

No run follows any such curve exactly, and the more records, the surer and the more wrongly so the
weights would single one out. So the likelihood is raised to the power S / (S + records), as if one
asked only that the records come close to the curve: the coarsened posterior of Miller and Dunson
(Journal of the American Statistical Association 114, 2019). Priors are wide, in rewards of 0 to 1.

Of ten choices of forms, chances, S, walk and degrees of freedom, those below err least with all
forms on 19 published runs (RETU, arXiv 2512.11470), and hold 86% of the second halves; scores of
the ten differ by 1%, which chance makes.

Broken evaluations count less. A fall in the very last record may be one, or may last: both are in
the mixture.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.statistics.forms import FORMS
from isosweep.analysis.statistics.intervals import central_quantiles

# Fewer records than this say too little of noise and direction.
MIN_RECORDS = 5
# Standard deviations of the gain's prior, equally likely, and of R0's around the first record.
_GAINS, _START = (0.03, 0.1, 0.3), 0.5
# ln C_mid lies from a factor e before the first record to one past the last: further off, what
# can be recorded of a sigmoid is as well described by a nearer one or by the line.
_MIDPOINTS, _REACH = 20, 1.0
# ln of a sigmoid's exponent: normal around 0, over one and a half standard deviations each way.
_EXPONENTS, _EXPONENT_SD = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5), 1.0
# Variance of the walk per factor e of compute, over the variance of the noise.
_WALKS = (0.3, 1.0, 3.0, 10.0, 30.0)
# Noise over the spread around the neighbours: their own noise adds to it, a rise may too.
_NOISES = (0.5, 0.7, 1.0, 1.4, 2.0)
# S: with this many records the likelihood counts by half.
_HALF = 20
_WINDOW = 3
# Records this many spreads from their neighbours count less, by the square of the excess.
_OUTLIER = 3.0
# Chance that a fall in the last record lasts. Below a half, so that the median stays with what
# several records have said until a second one confirms the fall.
_LASTS = 1 / 3
# Degrees of freedom of the predictive distribution: runs surprise more often than a normal does.
_FREEDOM = 5.0
_DRAWS = 8000


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Median and interval of the records to come: (points,), in reward."""

    median: FloatArray
    low: FloatArray
    high: FloatArray


# Mean, less the first record, and error of the points ahead, (draws, points), by the scale and the
# curve of each draw.
_Ahead = Callable[[IntArray, IntArray], tuple[FloatArray, FloatArray]]


def forecast(
    compute: FloatArray, reward: FloatArray, at: FloatArray, confidence: float
) -> Forecast | None:
    """Records at compute `at`: (points,), past the last; None with fewer than MIN_RECORDS.

    `compute`, `reward`: (records,), strictly ascending, compute above 0. The interval is for a
    record, its noise included.
    """
    if len(compute) < MIN_RECORDS:
        return None
    logs = np.log(np.concatenate([compute, at]))
    spread, noise = _noise(reward)
    curves, prior = _curves(logs, len(compute))
    # (scales, 2): variance of the noise, standard deviation of the gain.
    scales = np.array([((spread * n) ** 2, g) for n in _NOISES for g in _GAINS])
    shift = reward - reward[0]
    weights, ways = [], []
    for walk, (unsure, lasting, chance) in itertools.product(_WALKS, _last_record(noise)):
        kernel = walk * (np.minimum(logs[:, None], logs) - logs[0])
        last = np.arange(len(logs)) >= len(compute) - 1
        kernel += lasting * np.outer(last, last)
        evidence, ahead = _fit(shift, curves, kernel, unsure, scales)
        trust = _HALF / (_HALF + len(compute))
        weights.append(trust * evidence + prior + math.log(chance))
        ways.append(ahead)
    return _quantiles(np.array(weights), ways, float(reward[0]), confidence)


def _curves(logs: FloatArray, known: int) -> tuple[FloatArray, FloatArray]:
    """Every curve at `logs`, (curves, records and points), and its log prior, (curves,).

    From 0 to 1 over all compute where a form has a midpoint, else from the first record on; the
    line is 1 at the last of the first `known` of `logs`. Chances of forms are shared out over
    their midpoints and exponents.
    """
    start, end = logs[0], logs[known - 1]
    middle = np.linspace(start - _REACH, end + _REACH, _MIDPOINTS)[:, None, None]
    exponents = np.array(_EXPONENTS)[:, None]
    bell = np.exp(-(exponents[:, 0] ** 2) / (2 * _EXPONENT_SD**2))
    # Midpoint, exponent and chance, by how many of the first two a form has.
    grids = {
        2: (middle, np.exp(exponents), np.tile(bell, _MIDPOINTS)),
        1: (start, np.exp(exponents), bell),
        0: (start, np.array([[1 / (end - start)]]), np.ones(1)),
    }
    curves, chances = [], []
    for form in FORMS.values():
        if form.chance:
            midpoint, exponent, chance = grids[form.shapes]
            curves.append(form.curve(logs - midpoint, exponent).reshape(-1, len(logs)))
            chances.append(form.chance * chance / chance.sum())
    return np.vstack(curves), np.log(np.concatenate(chances))


def _noise(reward: FloatArray) -> tuple[float, FloatArray]:
    """Spread of the records, robustly, and each record's variance in units of its square.

    A record is compared with the median of as many neighbours before as after it, which follows a
    rise where a running median would follow the record. The last has neighbours on one side only:
    a rise above them is what runs do, a fall below them is suspect. The first counts in full.
    """
    count = len(reward)
    distance = np.zeros(count)
    for i in range(1, count - 1):
        reach = min(i, count - 1 - i, _WINDOW)
        around = np.concatenate([reward[i - reach : i], reward[i + 1 : i + reach + 1]])
        distance[i] = abs(reward[i] - np.median(around))
    # A normal's median distance is 0.6745 standard deviations.
    spread = float(np.median(distance[1:-1])) / 0.6745 + 1e-4
    distance[-1] = max(0.0, float(np.median(reward[-1 - _WINDOW : -1])) - reward[-1])
    return spread, np.maximum(1.0, distance / (_OUTLIER * spread)) ** 2


def _last_record(noise: FloatArray) -> list[tuple[FloatArray, float, float]]:
    """What the last record may mean: the records' variances, that of a lasting fall, the chance."""
    if noise[-1] == 1:
        return [(noise, 0.0, 1.0)]
    sound = np.append(noise[:-1], 1.0)
    return [(noise, 0.0, 1 - _LASTS), (sound, float(noise[-1]), _LASTS)]


def _fit(
    shift: FloatArray, curves: FloatArray, kernel: FloatArray, noise: FloatArray, scales: FloatArray
) -> tuple[FloatArray, _Ahead]:
    """Regression of the rewards on 1 and on each curve, whitened by `kernel` and `noise`: log
    likelihood, (scales, curves), and what it says of the points ahead.

    `shift`: (records,), reward less its first; `curves`: (curves, records and points); `kernel`:
    square, over records and points, and `noise`: (records,), both over the noise's variance;
    `scales`: that variance, and the standard deviation of the gain, (scales, 2).
    """
    known = len(shift)
    root = np.linalg.cholesky(kernel[:known, :known] + np.diag(noise))
    columns = np.vstack([np.ones(known), shift, curves[:, :known], kernel[known:, :known]])
    white = np.linalg.solve(root, columns.T).T
    ones, target, rises, reach = np.split(white, [1, 2, 2 + len(curves)])
    variance, gain = scales[:, :1], scales[:, 1:]
    # Precision and linear term of the normal posterior, 2 x 2 by its entries.
    p00 = (ones @ ones.T) / variance + _START**-2
    p01 = (ones @ rises.T) / variance
    p11 = (rises**2).sum(axis=1) / variance + gain**-2
    linear = np.array([(ones @ target.T) / variance + 0 * p01, (target @ rises.T) / variance])
    determinant = p00 * p11 - p01**2
    c00, c01, c11 = p11 / determinant, -p01 / determinant, p00 / determinant
    mean = np.array([c00 * linear[0] + c01 * linear[1], c01 * linear[0] + c11 * linear[1]])
    misfit = (target @ target.T) / variance - (linear * mean).sum(axis=0)
    volume = 2 * np.log(np.diag(root)).sum() + known * np.log(variance)
    # A point ahead is `carried` + `level` R0 + `rise` gain, and noise of its own.
    carried, level = reach @ target[0], 1 - reach @ ones[0]
    rises_by = curves[:, known:] - rises @ reach.T
    left = 1 + np.diag(kernel)[known:] - (reach**2).sum(axis=1)

    def ahead(scale: IntArray, curve: IntArray) -> tuple[FloatArray, FloatArray]:
        rise, (start, by) = rises_by[curve], mean[:, scale, curve, None]
        v00, v01, v11 = (entry[scale, curve][:, None] for entry in (c00, c01, c11))
        spread = level**2 * v00 + 2 * level * rise * v01 + rise**2 * v11
        return carried + level * start + rise * by, np.sqrt(spread + variance[scale] * left)

    return -0.5 * (misfit + volume + np.log(determinant)) - np.log(gain), ahead


def _quantiles(
    log_weight: FloatArray, ways: list[_Ahead], first: float, confidence: float
) -> Forecast:
    """Quantiles of the mixture by seeded draws; a reward lies between 0 and 1.

    `log_weight`: (ways, scales, curves); `first`: reward of the first record.
    """
    rng = np.random.default_rng(0)
    chosen = rng.choice(log_weight.size, size=_DRAWS, p=special.softmax(log_weight.ravel()))
    of_way, scale, curve = np.unravel_index(chosen, log_weight.shape)
    surprise = rng.standard_t(_FREEDOM, size=(_DRAWS, 1))
    draws = []
    for i, ahead in enumerate(ways):
        mine = of_way == i
        mean, error = ahead(scale[mine], curve[mine])
        draws.append(first + mean + error * surprise[mine])
    median, low, high = central_quantiles(np.clip(np.vstack(draws), 0.0, 1.0), confidence)
    return Forecast(median=median, low=low, high=high)
