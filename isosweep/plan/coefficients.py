"""What the seconds of each phase are made of, and how well records determine it.

A phase is a sum: amounts of work (FLOPs at the whole peak, in seconds; positions; updates; ...)
times coefficients, one for each setting of `SETTINGS`. `fit` finds the coefficients, and says
which of them the records determine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isosweep.costs.efficiency import Efficiency

Floats = NDArray[np.float64]
PhaseName = Literal["generation", "scoring", "training", "evaluation", "start-up"]

# What each phase's seconds are made of, by settings of the hardware. Scoring is log-probability
# passes, rewards and putting the batch together; training has all else of an update. With vLLM
# sending the weights is a part of generation.
PHASES: dict[PhaseName, tuple[str, ...]] = {
    "generation": ("generation_utilization", "token_overhead_s", "generation_overhead_s"),
    "scoring": (
        *("training_utilization", "pass_overhead_s"),
        *("step_overhead_s", "answer_overhead_s"),
    ),
    "training": ("training_utilization", "update_overhead_s", "pass_overhead_s"),
    "evaluation": (
        *("generation_utilization", "token_overhead_s"),
        *("generation_overhead_s", "answer_overhead_s"),
    ),
    "start-up": ("startup_s",),
}
# Of causes that nothing tells apart the last keep what was assumed.
SETTINGS = (
    *("training_utilization", "generation_utilization", "token_overhead_s", "update_overhead_s"),
    *("pass_overhead_s", "step_overhead_s", "answer_overhead_s", "generation_overhead_s"),
    "startup_s",
)

# A coefficient is determined if its relative standard error is below this,
RELATIVE_ERROR = 0.25
# or if its interval moves the seconds of its phases by less than this.
_SMALL = 0.05
_CONFIDENCE = 0.95
_REWEIGHTINGS = 30
# Residuals beyond so many standard deviations count less (Huber's constant).
_OUTLYING = 1.345
# Eigenvalues below this share of the largest: causes that go together in all records.
_ALIKE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Measured `seconds` of one phase between two records of `run`, and what they are made of.

    `amounts`: by setting, what its coefficient is multiplied by; `beside`: seconds that are
    modelled and not fitted.
    """

    phase: PhaseName
    run: str
    seconds: float
    amounts: Mapping[str, float]
    beside: float = 0.0

    def predicted(self, coefficients: Mapping[str, float]) -> float:
        """Seconds by the model."""
        parts = (amount * coefficients[name] for name, amount in self.amounts.items())
        return self.beside + math.fsum(parts)


def coefficient(name: str, value: float) -> float:
    """What amounts are multiplied by, for a setting's value; its own inverse."""
    return 1 / value if name.endswith("utilization") else value


def coefficients(reached: Efficiency, startup: float) -> dict[str, float]:
    """Of every setting, as runs are planned with it; `startup`: seconds until one begins."""
    values = vars(reached) | {"startup_s": startup}
    return {name: coefficient(name, value) for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A setting that the records determine: its value and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A setting that they do not: it keeps `value`.

    `why`: its phases were not recorded (`absent`), it goes with `other` in all records (`alike`),
    or its standard error is too large (`uncertain`).
    """

    value: float
    why: Literal["absent", "alike", "uncertain"]
    other: str | None = None


def fit(rows: Sequence[Timed], assumed: Mapping[str, float]) -> dict[str, Measured | Kept]:
    """Every setting as `rows` have it; what they do not determine keeps its `assumed` coefficient.

    Least squares of relative errors, reweighted so that an interval that was disturbed does not
    bend the rest (Huber), with no coefficient below what is possible: 0, or 1 for a utilization.
    Standard errors leave out one run at a time (the jackknife); each is that of a coefficient while
    all others are free as well. The one that is determined worst is set to what was assumed, and
    the rest is fitted again, until all are.
    """
    present = {name for row in rows for name, amount in row.amounts.items() if amount > 0}
    results: dict[str, Measured | Kept] = {
        name: Kept(value=coefficient(name, assumed[name]), why="absent")
        for name in SETTINGS
        if name not in present
    }
    free = [name for name in SETTINGS if name in present]
    while free:
        found = _estimates(rows, free, assumed)
        worst = max(found, key=lambda one: (one.doubt, free.index(one.name)))
        if worst.doubt <= 1:
            return results | {one.name: one.measured for one in found}
        value = coefficient(worst.name, assumed[worst.name])
        why: Literal["alike", "uncertain"] = "alike" if worst.other else "uncertain"
        results[worst.name] = Kept(value=value, why=why, other=worst.other)
        free.remove(worst.name)
    return results


@dataclass(frozen=True, kw_only=True)
class _Estimate:
    """A coefficient, its standard error, and half the width of its interval; `share`: by how much
    that moves the seconds of its phases; `other`: the setting that it cannot be told from."""

    name: str
    coefficient: float
    error: float
    half: float
    share: float
    other: str | None

    @property
    def relative(self) -> float:
        return self.error / self.coefficient if self.coefficient > 0 else math.inf

    @property
    def doubt(self) -> float:
        """Above 1: not determined."""
        if self.other is not None:
            return math.inf
        return min(self.relative / RELATIVE_ERROR, self.share / _SMALL)

    @property
    def measured(self) -> Measured:
        least = _least(self.name)
        ends = (
            coefficient(self.name, max(self.coefficient + side * self.half, least))
            for side in (-1, 1)
        )
        low, high = sorted(ends)
        return Measured(value=coefficient(self.name, self.coefficient), low=low, high=high)


def _least(name: str) -> float:
    """The least coefficient that is possible: no utilization exceeds 1."""
    return 1.0 if name.endswith("utilization") else 0.0


def _estimates(
    rows: Sequence[Timed], free: Sequence[str], assumed: Mapping[str, float]
) -> list[_Estimate]:
    from scipy.stats import t

    least = np.array([_least(name) for name in free])
    at_least = {**assumed, **dict(zip(free, least, strict=True))}
    measured = np.array([row.seconds for row in rows])
    causes = np.array([[row.amounts.get(name, 0.0) for name in free] for row in rows])
    design = causes / measured[:, None]
    wanted = 1 - np.array([row.predicted(at_least) for row in rows]) / measured
    solved, weights = _robust(design, wanted)
    runs = np.unique([row.run for row in rows], return_inverse=True)[1]
    errors, others = _jackknife(design, wanted, weights, runs)
    quantile = float(t.ppf((1 + _CONFIDENCE) / 2, max(int(runs.max()), 1)))
    shares = [np.median(column[column > 0]) for column in design.T]
    return [
        _Estimate(
            name=name,
            coefficient=float(solved[at] + least[at]),
            error=float(errors[at]),
            half=float(errors[at] * quantile),
            share=float(errors[at] * quantile * shares[at]),
            other=free[others[at]] if at in others else None,
        )
        for at, name in enumerate(free)
    ]


def _robust(design: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """Non-negative coefficients, and the weights of the rows."""
    from scipy.optimize import nnls

    scale = np.linalg.norm(design, axis=0)
    weights = np.ones(len(wanted))
    for _ in range(_REWEIGHTINGS):
        root = np.sqrt(weights)
        solved, _ = nnls(design / scale * root[:, None], wanted * root)
        off = np.abs(design / scale @ solved - wanted)
        # 1.4826: from the median of a normal distribution to its standard deviation. Rounding is
        # no reason to weigh one row more than another.
        spread = max(1.4826 * float(np.median(off)), 1e-9)
        weights = np.minimum(1.0, _OUTLYING * spread / np.maximum(off, 1e-12))
    return solved / scale, weights


def _jackknife(
    design: Floats, wanted: Floats, weights: Floats, runs: NDArray[np.intp]
) -> tuple[Floats, dict[int, int]]:
    """Standard errors, from leaving out one run at a time; and columns that go with another one,
    by their places, with that one's."""
    scale = np.linalg.norm(design, axis=0)
    scaled = design / scale
    count = int(runs.max()) + 1
    grams, sides = (np.zeros((count, scaled.shape[1], width)) for width in (scaled.shape[1], 1))
    for run in range(count):
        own = runs == run
        weighted = scaled[own] * weights[own, None]
        grams[run], sides[run] = weighted.T @ scaled[own], weighted.T @ wanted[own, None]
    gram, side = grams.sum(0), sides.sum(0)
    others: dict[int, int] = {}
    solutions = []
    for run in range(count):
        left = gram - grams[run]
        others |= _alike(left)
        solutions.append(np.linalg.lstsq(left, side - sides[run], rcond=None)[0][:, 0])
    spread = np.asarray(solutions) - np.mean(solutions, axis=0)
    return np.sqrt((count - 1) / count * (spread**2).sum(0)) / scale, others


def _alike(gram: Floats) -> dict[int, int]:
    """Places of columns that others add up to, each with that of the most similar of these.

    Two pairs that go together share a space, whose vectors may mix them: cosines tell them apart.
    """
    values, vectors = np.linalg.eigh(gram)
    length = np.sqrt(np.diag(gram))
    cosines = gram / np.outer(length, length)
    alike: dict[int, int] = {}
    for value, vector in zip(values, vectors.T, strict=True):
        if value > _ALIKE * values[-1]:
            continue
        part = np.abs(vector)
        for at in np.flatnonzero(part > 1e-3):
            similar = np.where(part > 1e-3, cosines[at], -np.inf)
            similar[at] = -np.inf
            alike[int(at)] = int(similar.argmax())
    return alike
