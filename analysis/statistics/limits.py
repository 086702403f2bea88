"""The limit A of learning curves by several forms, and how much the end of the curves favours each.

    sigmoid     1 / (1 + (C_mid / C)^b)         ScaleRL, arXiv 2510.13786
    Gompertz    exp(-(C_mid / C)^b)
    power law   1 - (1 + C / C_mid)^-b
    slow tail   1 - (1 + (C / C_mid)^b)^-0.3    a sigmoid that ends late

times A - R0, with R0 held. Midpoint and exponent lie on a grid; given those A is normal, so that
all is closed form, for all curves at once. Seeds of an (n, B) share form and exponent.

No form holds over a whole curve (where the best n moves, none does), and what a form says of A
rests on where it bends. So a record counts less by e for every 0.4 decades that it lies before the
last one: a local likelihood (Tibshirani and Hastie, Journal of the American Statistical Association
82, 1987), after which the forms differ in how they go on rather than in how they began. Windows of
0.3 to 0.7 decades, and none, were compared in ten simulated worlds: with longer ones A came out too
low where tails are slow or n* moves, with shorter ones intervals are wider.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import NotNegative, Share
from isosweep.analysis.statistics.sigmoids import gompertz, logistic

Form = Literal["sigmoid", "Gompertz", "power law", "slow tail"]

# Decades before the last record by which a record counts less by a factor e.
_WINDOW = 0.4 * math.log(10)
# ln C_mid lies within this of the records.
_MIDPOINTS, _REACH = 30, 1.5
# ln b: normal around 0, over a little more than one standard deviation each way.
_EXPONENTS = np.linspace(math.log(0.25), math.log(4.0), 11)
_SLOW = 0.3
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
# Numbers in an array at a time: they stay in the processor's cache.
_CHUNK = 1_000_000

# Each rises from 0 to 1: by u = ln C - ln C_mid and exponent b, which broadcast.
_FORMS: dict[Form, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "sigmoid": lambda u, b: logistic(b * u),
    "Gompertz": lambda u, b: gompertz(b * u),
    "power law": lambda u, b: -np.expm1(-b * np.logaddexp(0.0, u)),
    "slow tail": lambda u, b: -np.expm1(-_SLOW * np.logaddexp(0.0, b * u)),
}


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


@dataclass(frozen=True, kw_only=True)
class _Table:
    """By form and exponent, over all midpoints: each (curves, forms, exponents).

    `evidence`: log likelihood; `gain`: A - R0; `risen`: share of it at the last record.
    """

    evidence: FloatArray
    gain: FloatArray
    risen: FloatArray


def find_limits(
    compute: FloatArray,
    reward: FloatArray,
    error: FloatArray,
    base: FloatArray,
    seeds: Sequence[Sequence[int]],
) -> list[tuple[Limit, ...]]:
    """The limits of every curve, one a form.

    `compute`, `reward` and its `error`: (curves, records) past step 0, NaN past a curve's end;
    `base` R0: (curves,); `seeds`: the curves of each (n, B), each curve once.
    """
    size = len(_EXPONENTS) * _MIDPOINTS * compute.shape[1]
    step = max(1, _CHUNK // size)
    tables = [
        _table(*(array[begin : begin + step] for array in (compute, reward, error, base)))
        for begin in range(0, len(compute), step)
    ]
    evidence = np.concatenate([table.evidence for table in tables])
    gain = np.concatenate([table.gain for table in tables])
    risen = np.concatenate([table.risen for table in tables])
    prior = special.log_softmax(-(_EXPONENTS**2) / 2)
    found: dict[int, tuple[Limit, ...]] = {}
    for group in map(list, seeds):
        counted = min(1.0, _SEEDS / math.sqrt(len(group)))
        log = counted * evidence[group].sum(axis=0) + prior
        weight = special.softmax(log).sum(axis=1)
        # A form of no weight has exponents all the same.
        within = special.softmax(log, axis=1)
        mean = gain[group].mean(axis=0)
        centre = (within * mean).sum(axis=1, keepdims=True)
        spread = np.sqrt((within * (mean - centre) ** 2).sum(axis=1))
        for i in group:
            asymptote = base[i] + (within * gain[i]).sum(axis=1)
            share = (within * risen[i]).sum(axis=1)
            found[i] = tuple(
                Limit(form=form, weight=w, asymptote=a, spread=s, risen=r)
                for form, w, a, s, r in zip(
                    _FORMS, *(v.tolist() for v in (weight, asymptote, spread, share)), strict=True
                )
            )
    return [found[i] for i in range(len(compute))]


def _table(compute: FloatArray, reward: FloatArray, error: FloatArray, base: FloatArray) -> _Table:
    """All forms and exponents for a few curves; arguments as `find_limits` has them."""
    present = np.isfinite(compute)
    logs = np.log(np.where(present, compute, compute[:, :1]))
    rise = np.where(present, reward - base[:, None], 0.0)
    first, last = logs[:, 0], logs.max(axis=1)
    share = np.where(present, np.exp((logs - last[:, None]) / _WINDOW), 0.0)
    weight = share / np.where(present, error, 1.0) ** 2
    count = share.sum(axis=1)
    total = (weight * rise**2).sum(axis=1)[:, None, None]
    between = np.linspace(0, 1, _MIDPOINTS)
    middle = (first - _REACH)[:, None] + (last - first + 2 * _REACH)[:, None] * between
    b = np.exp(_EXPONENTS)[:, None]
    fitted = []
    for form in _FORMS.values():
        # (curves, midpoints, exponents, records), and without records at the last one.
        basis = form(logs[:, None, None, :] - middle[:, :, None, None], b)
        end = form((last[:, None] - middle)[:, :, None], b[:, 0])
        cross = np.einsum("cmbr,cr->cmb", basis, weight * rise)
        fitted.append((cross, np.einsum("cmbr,cr->cmb", basis**2, weight), end))
    # The least sum of squares of any form is the noise, over what `error` says of it.
    least = [
        (total - cross**2 / np.maximum(square, 1e-300)).min(axis=(1, 2))
        for cross, square, _ in fitted
    ]
    dispersion = np.min(least, axis=0) / np.maximum(count - _PARAMETERS, 1.0)
    noise = np.maximum(dispersion, _LEAST_DISPERSION)[:, None, None]
    trust = (_HALF / (_HALF + count))[:, None]
    columns: list[list[FloatArray]] = [[], [], []]
    for cross, square, end in fitted:
        precision = square / noise + _GAIN**-2
        gain = cross / noise / precision
        log = (gain**2 * precision - total / noise - np.log(precision)) / 2
        over = special.logsumexp(log, axis=1)
        chance = np.exp(log - over[:, None])
        columns[0].append(trust * over)
        columns[1].append((chance * gain).sum(axis=1))
        columns[2].append((chance * end).sum(axis=1))
    evidence, gains, risen = (np.stack(column, axis=1) for column in columns)
    return _Table(evidence=evidence, gain=gains, risen=risen)
