"""The limit A of learning curves by several forms, and how much the end of the curves favours each.

The forms are those of `forms` that rise to a limit, with R0 held. Midpoint and exponent lie on a
grid; given those A is normal, so that all is closed form. Seeds of an (n, B) share form and
exponent.

No form holds over a whole curve (where the best n moves, none does), and what a form says of A
rests on where it bends. So a record counts less by e for every 0.4 decades that it lies before the
last one: a local likelihood (Tibshirani and Hastie, Journal of the American Statistical Association
82, 1987), after which the forms differ in how they go on rather than in how they began. Of windows
of 0.3 to 0.7 decades, and none, in ten simulated worlds, longer ones make A too low where tails are
slow or n* moves, and shorter ones widen intervals.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import NotNegative, Share
from isosweep.analysis.statistics.forms import FORMS, regress

Form = Literal["sigmoid", "Gompertz", "power law", "slow tail"]

# Decades before the last record by which a record counts less by a factor e.
_WINDOW = 0.4 * math.log(10)
# ln C_mid lies within this of the records.
_MIDPOINTS, _REACH = 30, 1.5
# ln b: normal around 0, over a little more than one standard deviation each way.
_EXPONENTS = np.linspace(math.log(0.25), math.log(4.0), 11)
# Standard deviation of A - R0 before any record is seen, in reward.
_GAIN = 0.3
# Records by which the likelihood counts by half, as in `forecast`: no form is right, and a run
# wanders, so that records that lie close together say the same.
_HALF = 20
# Seeds of an (n, B) count as this times the square root of their number, and as themselves at most:
# what no form has is the same in all of them, so that many seeds would be sure of a wrong one.
_SEEDS = 2.5
# Over-dispersion below which rounding, not noise, would speak, and parameters of a form.
_LEAST_DISPERSION, _PARAMETERS = 0.1, 3


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What one form says of the limit of a run's curve."""

    form: Form
    """The form."""
    weight: Share
    """Of all forms, by all seeds of the run's (n, B) together. A share."""
    asymptote: float
    """A by this form. Reward."""
    spread: NotNegative
    """Standard deviation of A between its exponents, the same for all those seeds. Reward."""
    risen: Share
    """Of the way from R0 to this A, what is behind the run at its last record. A share."""


def find_limits(
    compute: FloatArray, reward: FloatArray, error: FloatArray, base: FloatArray
) -> list[tuple[Limit, ...]]:
    """The limits of each seed's curve of one (n, B), one a form.

    `compute`, `reward` and its `error`: (seeds, records) past step 0, NaN past a curve's end;
    `base` R0: (seeds,).
    """
    evidence, gain, risen = _by_exponent(compute, reward, error, base)
    counted = min(1.0, _SEEDS / math.sqrt(len(base)))
    log = counted * evidence.sum(axis=0) + special.log_softmax(-(_EXPONENTS**2) / 2)
    # A form of no weight has exponents all the same.
    within = special.softmax(log, axis=1)
    mean = gain.mean(axis=0)
    centre = (within * mean).sum(axis=1, keepdims=True)
    spread = np.sqrt((within * (mean - centre) ** 2).sum(axis=1))
    weight, asymptote, spread, risen = np.broadcast_arrays(
        special.softmax(log).sum(axis=1),
        base[:, None] + (within * gain).sum(axis=2),
        spread,
        (within * risen).sum(axis=2),
    )
    of_seeds = np.stack([weight, asymptote, spread, risen], axis=-1).tolist()
    return [
        tuple(
            Limit(form=form, weight=w, asymptote=a, spread=s, risen=r)
            for form, (w, a, s, r) in zip(get_args(Form), of_seed, strict=True)
        )
        for of_seed in of_seeds
    ]


def _by_exponent(
    compute: FloatArray, reward: FloatArray, error: FloatArray, base: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log likelihood, A - R0 and the share of it at the last record, over all midpoints: each
    (seeds, forms, exponents). Arguments as `find_limits` has them."""
    present = np.isfinite(compute)
    logs = np.log(np.where(present, compute, compute[:, :1]))
    first, last = logs[:, 0], logs.max(axis=1)
    share = np.where(present, np.exp((logs - last[:, None]) / _WINDOW), 0.0)
    weight = share / np.where(present, error, 1.0) ** 2
    rise = np.where(present, reward - base[:, None], 0.0)
    middle = np.linspace(first - _REACH, last + _REACH, _MIDPOINTS, axis=1)
    u = np.hstack([logs, last[:, None]])[:, None, None, :] - middle[:, :, None, None]
    b = np.exp(_EXPONENTS)[:, None]
    # (seeds, forms, midpoints, exponents, records and the last one again)
    curves = np.stack([FORMS[form].curve(u, b) for form in get_args(Form)], axis=1)
    columns = curves[..., :-1].reshape(len(logs), -1, logs.shape[1])
    found = regress(columns, rise[:, None], weight[:, None])  # (seeds, 1, columns)
    # The least sum of squares of any form is the noise, over what `error` says of it.
    count = share.sum(axis=1)
    dispersion = found.misfit(found.gain()).min(axis=(1, 2)) / np.maximum(count - _PARAMETERS, 1.0)
    noise = np.maximum(dispersion, _LEAST_DISPERSION)[:, None, None]
    precision = found.square / noise + _GAIN**-2
    gain = found.cross / noise / precision
    log = (gain**2 * precision - found.total / noise - np.log(precision)) / 2
    log, gain = (array.reshape(curves.shape[:-1]) for array in (log, gain))
    over = special.logsumexp(log, axis=2)
    chance = np.exp(log - over[:, :, None])
    trust = (_HALF / (_HALF + count))[:, None, None]
    return trust * over, (chance * gain).sum(axis=2), (chance * curves[..., -1]).sum(axis=2)
