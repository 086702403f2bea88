"""Laws of what is needed, in the amounts that differ: powers, a sum, and the best batch.

    ln D = a - beta_U ln U - beta_B ln B - beta_N ln N
    D = D_min + (a_U / U)^alpha_U + (a_N / N)^alpha_N + (B / a_B)^alpha_B
    log2 B* = b + gamma_U log2 U + gamma_N log2 N

D: what is needed, U: updates per generation, B: problems per batch, N: parameters of the model.
The sum has the form of arXiv 2508.14881, D = D_min + (a / U)^alpha + (b / N)^beta, taken there at
the best B of each (U, N). Its term in B, with an exponent of 1, is the cost of a large batch in
arXiv 1812.06162, equation 2.11. The first paper's B = a_B / (U^alpha_B (1 + b_B N^-beta_B)) ends at
a largest batch as N grows, which a few models do not show: here B* is a power.

Intervals are Student's, of what the law leaves over, where that paper draws bootstraps over eight
and more seeds: two or three are too few to be drawn from. Those of the sum are the values that an
F-test at the same confidence does not refute, whatever the others are; those of B* are Fieller's.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import special, stats
from scipy.optimize import least_squares

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Positive
from isosweep.analysis.statistics.across import MIN_AMOUNTS, MISFIT, Parameter, Unidentified
from isosweep.analysis.statistics.intervals import Interval, upper_share

Amount = Literal["updates", "batch", "parameters", "iterations", "mini_batches"]
# Signs of the exponents in the sum: rollouts fall with more updates and a larger model.
SIGNS: Mapping[str, float] = {"updates": -1.0, "parameters": -1.0, "batch": 1.0}
# Terms of the sum that are tried, in ln of the mean need, and exponents.
_TERMS, _EXPONENTS = (-7.0, 3.0), (0.05, 4.0)
_UNKNOWN = Parameter(value=None, low=None, high=None)
# Halvings of the way from an estimate to the end of what is tried.
_HALVINGS = 14


@dataclass(frozen=True, kw_only=True)
class Need:
    """What it takes to reach the threshold."""

    means: tuple[Positive, ...]
    """At each point of the law, geometric mean over seeds."""
    factors: dict[Amount, Interval]
    """By how much it changes with every doubling of an amount, the others being as they are: on
    average, where the law is a sum, or where `by_setting` is the law."""
    by_setting: dict[Amount, Interval] = field(default_factory=dict)
    """The same for num_iterations and for mini_batches; empty where not both differ, or where
    powers of these are no law."""


@dataclass(frozen=True, kw_only=True)
class SumLaw:
    """D = D_min + (a_U / U)^alpha_U + (a_N / N)^alpha_N + (B / a_B)^alpha_B, of what differs."""

    floor: Parameter
    """D_min, for these seeds. Rollouts."""
    exponents: dict[Amount, Parameter]
    """alpha of each amount. No unit."""
    coefficients: dict[Amount, Positive]
    """Each term where its amount is 1: a^alpha, or for the batch a^-alpha. Rollouts."""


@dataclass(frozen=True, kw_only=True)
class BestBatch:
    """B* with which the fewest rollouts reach the threshold, as a power of the other amounts."""

    middle: Parameter
    """B* at the geometric mean of the other amounts; open where it may lie off the grid. A
    count."""
    factors: dict[Amount, Interval]
    """By how much it changes with every doubling of an amount."""


class _Spread:
    """Needs as levels: what they vary by between seeds, and how far a law may lie off them."""

    def __init__(self, needed: FloatArray) -> None:
        """Of `needed` (points, seeds), above 0."""
        self.points, self.seeds = needed.shape
        logs = np.log(needed)
        self.level = logs.mean(axis=1)  # (points,)
        # A seed's own level is no matter of the amounts.
        own = logs - logs.mean(axis=0)
        self.within = float(((own - own.mean(axis=1, keepdims=True)) ** 2).sum())
        self.freedom = (self.points - 1) * (self.seeds - 1)

    def refutes(self, off: float, parameters: int) -> bool:
        """Whether seeds agree too well for a law whose squares off the levels sum to `off`."""
        spare = self.points - parameters
        if spare < 1 or not self.freedom:
            return False
        ratio = (self.seeds * off / spare) / (self.within / self.freedom)
        return bool(special.fdtrc(spare, self.freedom, ratio) < MISFIT)

    def noise(self, off: float, parameters: int) -> tuple[float, int]:
        """Variance of a level, and its degrees of freedom: what the law leaves over, of seeds and
        of points, so that a bend counts as noise."""
        freedom = self.freedom + self.points - parameters
        return (self.seeds * off + self.within) / freedom / self.seeds, freedom


def _spread(needed: FloatArray) -> _Spread | Unidentified:
    if (needed <= 0).any():
        return Unidentified(kind="at once")
    spread = _Spread(needed)
    if spread.freedom and spread.within < 1e-12:
        return Unidentified(kind="no spread")
    return spread


def find_need(
    logs: Mapping[Amount, FloatArray],
    needed: FloatArray,
    confidence: float,
    *,
    bent: bool = False,
) -> Need | Unidentified:
    """The power of each amount in what was `needed` (points, seeds); or why none.

    `logs`: log2 of every amount, (points,). `bent`: the mean power is asked for, of needs that may
    follow another law.
    """
    spread = _spread(needed)
    if isinstance(spread, Unidentified):
        return spread
    x = np.column_stack([np.ones(spread.points), *logs.values()])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        return Unidentified(kind="together")
    pull = np.linalg.pinv(x)
    slopes = pull @ spread.level
    off = float(((spread.level - x @ slopes) ** 2).sum())
    if not bent and spread.refutes(off, x.shape[1]):
        return Unidentified(kind="no law")
    variance, freedom = spread.noise(off, x.shape[1])
    half = _student(confidence, freedom) * np.sqrt(variance * (pull**2).sum(axis=1))
    return Need(
        means=tuple(np.exp(spread.level).tolist()),
        factors={
            name: Interval.of(np.exp([slopes[k], slopes[k] - half[k], slopes[k] + half[k]]))
            for k, name in enumerate(logs, start=1)
        },
    )


def _student(confidence: float, freedom: int) -> float:
    return float(stats.t.ppf(upper_share(confidence), freedom))


def find_sum(
    logs: Mapping[Amount, FloatArray], needed: FloatArray, confidence: float
) -> SumLaw | Unidentified:
    """D_min and the exponents of two amounts or more in what was `needed` (points, seeds), of which
    one seed does; or why none. `logs`: as in `find_need`."""
    for name, of in logs.items():
        if (values := len(set(of.tolist()))) < MIN_AMOUNTS:
            return Unidentified(kind="few amounts", found=values, least=MIN_AMOUNTS, of=name)
    power = find_need(logs, needed, confidence, bent=True)
    if isinstance(power, Unidentified):
        return power
    for name, factor in power.factors.items():
        if (factor.low > 1) if SIGNS[name] < 0 else (factor.high < 1):
            return Unidentified(kind="wrong way", of=name)
    spread = _Spread(needed)
    parameters = 2 * len(logs) + 1
    if spread.points <= parameters:
        return Unidentified(kind="few amounts", found=spread.points, least=parameters + 1)
    fit = _Sum(logs, spread.level)
    best, off = fit.best()
    if spread.refutes(off, parameters):
        return Unidentified(kind="no law")
    variance, freedom = spread.noise(off, parameters)
    allowed = off + variance * float(stats.f.ppf(confidence, 1, freedom))
    exponents = {
        name: _UNKNOWN
        # Of a term that may be absent any exponent will do.
        if fit.best(absent=k)[1] <= allowed
        else fit.parameter(best, len(logs) + k, allowed)
        for k, name in enumerate(logs, start=1)
    }
    if all(each == _UNKNOWN for each in exponents.values()):
        return Unidentified(kind="uncertain")
    floor = fit.parameter(best, 0, allowed)
    value, low, high = (
        None if end is None else math.exp(fit.centre + end)
        for end in (floor.value, floor.low, floor.high)
    )
    return SumLaw(
        floor=Parameter(value=value, low=low, high=high),
        exponents=exponents,
        coefficients=fit.coefficients(best),
    )


class _Sum:
    """Least squares of ln(sum of exp(t_k) z_k^(sign alpha_k)) off levels; z: amounts over their
    geometric mean, the first term without one. Parameters: t (1 + amounts), alpha (amounts)."""

    def __init__(self, logs: Mapping[Amount, FloatArray], level: FloatArray) -> None:
        self.names = tuple(logs)
        self.centre = float(level.mean())
        self.level = level - self.centre
        away = [SIGNS[name] * math.log(2) * (of - of.mean()) for name, of in logs.items()]
        self.away = np.column_stack(away)  # (points, amounts)
        self.means = {name: math.log(2) * float(of.mean()) for name, of in logs.items()}
        amounts = len(logs)
        self.low = np.array([_TERMS[0]] * (amounts + 1) + [_EXPONENTS[0]] * amounts)
        self.high = np.array([_TERMS[1]] * (amounts + 1) + [_EXPONENTS[1]] * amounts)

    def best(self, absent: int | None = None) -> tuple[FloatArray, float]:
        """The parameters that fit best, and the sum of squares that they leave; with one term
        `absent`, if asked."""
        amounts, tried = len(self.names), []
        for floor, exponent in itertools.product((0.1, 0.5), (0.3, 1.0, 2.0)):
            terms = [math.log(floor), *[math.log((1 - floor) / amounts)] * amounts]
            start = np.array(terms + [exponent] * amounts)
            if absent is not None:
                start[absent] = self.low[absent]
            tried.append(self.solve(start, fixed=absent))
        return min(tried, key=lambda of: of[1])

    def parameter(self, best: FloatArray, k: int, allowed: float) -> Parameter:
        """Parameter k, no value at the end of what is tried, with its interval."""
        low, high = self.low[k], self.high[k]
        return Parameter(
            value=float(best[k]) if low + 0.01 < best[k] < high - 0.01 else None,
            low=self.end(best, k, allowed, low),
            high=self.end(best, k, allowed, high),
        )

    def solve(self, start: FloatArray, fixed: int | None = None) -> tuple[FloatArray, float]:
        """From `start`, of which one parameter may be fixed."""
        free = [k for k in range(len(start)) if k != fixed]
        at = start.copy()

        def terms(values: FloatArray) -> FloatArray:
            at[free] = values
            amounts = len(self.names)
            powers = at[1 : amounts + 1] + at[amounts + 1 :] * self.away
            return np.column_stack([np.full(len(self.level), at[0]), powers])

        def left(values: FloatArray) -> FloatArray:
            return np.asarray(special.logsumexp(terms(values), axis=1) - self.level)

        def slope(values: FloatArray) -> FloatArray:
            share = special.softmax(terms(values), axis=1)
            return np.asarray(np.hstack([share, share[:, 1:] * self.away])[:, free])

        inside = np.clip(start[free], self.low[free] + 1e-6, self.high[free] - 1e-6)
        found = least_squares(left, inside, slope, bounds=(self.low[free], self.high[free]))
        at[free] = found.x
        return at.copy(), 2 * float(found.cost)

    def end(self, best: FloatArray, k: int, allowed: float, bound: float) -> float | None:
        """Where parameter k leaves more squares than `allowed`, on its way to `bound`; None if it
        does not."""

        def fits(value: float, start: FloatArray) -> tuple[FloatArray, bool]:
            at = start.copy()
            at[k] = value
            found, off = self.solve(at, fixed=k)
            return found, off <= allowed

        inside, outside, start = float(best[k]), float(bound), best
        if fits(outside, start)[1]:
            return None
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            found, holds = fits(middle, start)
            if holds:
                inside, start = middle, found
            else:
                outside = middle
        return (inside + outside) / 2

    def coefficients(self, best: FloatArray) -> dict[Amount, float]:
        """Each term where its amount is 1."""
        terms, exponents = best[1 : len(self.names) + 1], best[len(self.names) + 1 :]
        return {
            name: math.exp(self.centre + term - SIGNS[name] * exponent * self.means[name])
            for name, term, exponent in zip(self.names, terms, exponents, strict=True)
        }


def find_best_batch(
    logs: Mapping[Amount, FloatArray], needed: FloatArray, confidence: float
) -> BestBatch | Unidentified:
    """B* by parabolas in log2 B through what was `needed` (points, seeds), one for every
    combination of the other amounts: of any height, with one curvature, their middle moved by a
    power of each. Intervals are Fieller's. `logs`: as in `find_need`."""
    batch, others = logs["batch"], {name: of for name, of in logs.items() if name != "batch"}
    if (values := len(set(batch.tolist()))) < MIN_AMOUNTS:
        return Unidentified(kind="few amounts", found=values, least=MIN_AMOUNTS, of="batch")
    spread = _spread(needed)
    if isinstance(spread, Unidentified):
        return spread
    away = batch - batch.mean()
    combinations = np.unique(np.column_stack(list(others.values())), axis=0, return_inverse=True)[1]
    heights = np.eye(int(combinations.max()) + 1)[combinations.ravel()]
    moved = [away * (of - of.mean()) for of in others.values()]
    x = np.column_stack([away**2, away, *moved, heights])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        return Unidentified(kind="together")
    pull = np.linalg.pinv(x)
    values_of = pull @ spread.level
    off = float(((spread.level - x @ values_of) ** 2).sum())
    if spread.refutes(off, x.shape[1]):
        return Unidentified(kind="no law")
    variance, freedom = spread.noise(off, x.shape[1])
    if freedom < 1:
        return Unidentified(kind="uncertain")
    known = variance * pull @ pull.T
    student = _student(confidence, freedom)
    if values_of[0] <= student * math.sqrt(known[0, 0]):
        return Unidentified(kind="no best")
    middle, *powers = (
        _ratio(values_of[[k, 0]], known[np.ix_([k, 0], [k, 0])], student)
        for k in range(1, 2 + len(others))
    )
    first, last = batch.min() - batch.mean(), batch.max() - batch.mean()
    low, value, high = (
        2.0 ** (at + float(batch.mean())) if first <= at <= last else None
        for at in (middle.low, middle.median, middle.high)
    )
    return BestBatch(
        middle=Parameter(value=value, low=low, high=high),
        factors={
            name: Interval.of(2.0 ** np.array([power.median, power.low, power.high]))
            for name, power in zip(others, powers, strict=True)
        },
    )


def _ratio(values: FloatArray, known: FloatArray, student: float) -> Interval:
    """-p / (2 q) with Fieller's interval, of p and q > 0, its curvature, with their covariance.

    Given: (p + 2 r q)^2 <= t^2 var(p + 2 r q); solve for r.
    """
    p, q = values.tolist()
    square = 4 * (q**2 - student**2 * known[1, 1])
    linear = 4 * (p * q - student**2 * known[0, 1])
    constant = p**2 - student**2 * known[0, 0]
    root = math.sqrt(max(0.0, linear**2 - 4 * square * constant))
    return Interval(
        median=-p / (2 * q),
        low=(-linear - root) / (2 * square),
        high=(-linear + root) / (2 * square),
    )
