"""Curves of runs: what their records say, without broken ones, and from where on they collapsed.

Pure: no files, no records.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.course import Course
from isosweep.analysis.pairs import Pair
from isosweep.metrics import MetricName
from isosweep.plan.cells import Cell, Plan, PlannedRun
from isosweep.plan.tally import Standing
from isosweep.store.warnings import HealthWarning

# How a cell's reward was read off its run.
Reading = Literal["exact", "interpolated", "collapsed", "diverged", "missing"]

# A run has collapsed if it ends having lost for good this share of its best gain, and by more than
# this many errors of evaluation, by two records at least.
_COLLAPSED, _CERTAIN = 0.5, 6.0
# A record is broken this many spreads, and errors of evaluation, beyond both of its neighbours.
_BROKEN = 6.0
# Fewer distances than this say too little of the spread.
_MIN_DISTANCES = 10
# Records of which one lies between two.
_LEAST_BETWEEN = 3


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What a run last reported of itself, or what is known to have become of it.

    `diverged_by`: the rule of health that ended it; `warnings`: those that it broke; `standing`:
    how far it is by its files, None without any; `has_metrics`: whether it wrote metrics of its
    steps, by which rules of health judge it.
    """

    status: str | None = None
    reason: str | None = None
    diverged_by: str | None = None
    standing: Standing | None = None
    warnings: tuple[HealthWarning, ...] = ()
    has_metrics: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Held-out evaluations of one run, by step; empty arrays for a run that left no records.

    `steps`, `generations`, `compute` (in the unit of the analysis), `hours` (device-hours of
    training so far) and `reward`: (records,). `successes`: (records, problems), how many of
    `samples_per_problem` completions were right, or the points by another metric; where records
    have means alone no problems, and `errors`, (records,), their standard errors.
    `collapsed_at`: first record from which on the run never again has half of its best gain; None
    if it keeps it. `broken`: steps of the records that were left out (see `judged_curves`).
    `evaluation_hours`: device-hours of its evaluations.
    """

    run: PlannedRun
    ending: Ending
    steps: IntArray
    generations: IntArray
    compute: FloatArray
    hours: FloatArray
    reward: FloatArray
    successes: IntArray | FloatArray
    samples_per_problem: int
    errors: FloatArray | None = None
    evaluation_hours: float | None = None
    collapsed_at: int | None = None
    broken: tuple[int, ...] = ()

    def until_collapse(self) -> "Curve":
        """The curve without the records from its collapse on."""
        if self.collapsed_at is None:
            return self
        return replace(self._only(np.arange(self.collapsed_at)), collapsed_at=None)

    def without(self, places: Sequence[int]) -> "Curve":
        """The curve without these records, none of them of its collapse or after."""
        kept = self._only(np.setdiff1d(np.arange(self.steps.size), places))
        first = None if self.collapsed_at is None else self.collapsed_at - len(places)
        broken = {*self.broken, *self.steps[list(places)].tolist()}
        return replace(kept, collapsed_at=first, broken=tuple(sorted(broken)))

    def _only(self, places: IntArray) -> "Curve":
        """The curve with the records at these places, but for `collapsed_at`."""
        names = ("steps", "generations", "compute", "hours", "reward", "successes", "errors")
        known: dict[str, Any] = {name: getattr(self, name) for name in names}
        kept = {name: own[places] for name, own in known.items() if own is not None}
        return replace(self, **kept)

    @property
    def counted(self) -> bool:
        """Whether successes of single problems are known, of all records there are."""
        return self.errors is None

    @property
    def device_hours(self) -> float | None:
        """Of training up to its last record."""
        return float(self.hours[-1]) if self.hours.size else None

    @property
    def base_reward(self) -> float | None:
        """Reward before training, from the record at step 0."""
        return float(self.reward[0]) if self.steps.size and self.steps[0] == 0 else None


@dataclass(frozen=True, kw_only=True)
class CellReading:
    """A cell's held-out reward.

    `measured_compute`, in the budget's unit, is the compute of the record nearest to the budget;
    both it and `reward` are None when the run has not come that far (and never will, if it has
    `diverged`), or had collapsed by then. `fallen`: the reward of one that had collapsed, or that
    diverged, then or, past its last record, there; None of the others.
    """

    cell: Cell
    reward: float | None
    measured_compute: float | None
    reading: Reading
    fallen: float | None = None


@dataclass(frozen=True, kw_only=True)
class SetReading:
    """What records have of one evaluation set; None: of the main held-out problems.

    `num_problems` by `samples_per_problem` completions a record; `before`, `last`: avg@k before
    training (None without a record at step 0) and in a run's last record, means over the `num_runs`
    that have any.
    """

    name: str | None
    num_problems: int
    samples_per_problem: int
    before: float | None
    last: float
    num_runs: int


@dataclass(frozen=True, kw_only=True)
class TrainingCourse:
    """Per-step metrics of one run, means over stretches of its steps.

    `compute`: in the budget's unit, at the middle of each stretch; `values`: by the metric's name,
    (stretches,), None where no step of it has a finite value.
    """

    run: PlannedRun
    compute: tuple[float, ...]
    values: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepData:
    """A sweep as its files have it. `problems`: lines and files that could not be used.

    `curves` are in the plan's order of runs, `readings` in its order of cells; both are of
    `evaluation_set`, one of `sets`, which lists the main evaluation first. `course`: of the search
    that chose the runs; None without one. `training`: what runs wrote of their steps.
    """

    plan: Plan
    curves: tuple[Curve, ...]
    readings: tuple[CellReading, ...]
    plan_document: dict[str, Any]
    config_document: dict[str, Any]
    problems: tuple[str, ...]
    metric: MetricName = "avg"
    evaluation_set: str | None = None
    sets: tuple[SetReading, ...] = ()
    course: Course | None = None
    training: tuple[TrainingCourse, ...] = ()

    @property
    def searched(self) -> bool:
        """Whether a search chose which runs were trained."""
        search = self.config_document.get("search")
        return isinstance(search, dict) and search.get("name", "grid") != "grid"

    @property
    def generations(self) -> tuple[int, ...]:
        """Every n of the plan, ascending."""
        return tuple(sorted({cell.num_generations for cell in self.plan.cells}))

    @property
    def batches(self) -> tuple[int, ...]:
        """Every B of the plan, ascending."""
        return tuple(sorted({cell.problems_per_batch for cell in self.plan.cells}))

    @property
    def base_reward(self) -> float | None:
        """Reward before training, mean over runs; None without a record at step 0."""
        bases = [curve.base_reward for curve in self.curves if curve.base_reward is not None]
        return math.fsum(bases) / len(bases) if bases else None


def judged_curves(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """A sweep's curves with the collapses of those that have any, and without broken records.

    A record is broken where an evaluation went wrong, and not the run: it lies far above, or far
    below, both of its neighbours, by six spreads of records around their neighbours (robust, over
    all runs), by six errors of evaluation, and by more than these two differ. Never the first
    record, nor one from a collapse on, for a fall that lasts is the run's own; nor what two runs of
    the same (n, B) do at the same step.

    A fall that a last record alone shows is a collapse. Only where other evaluations of the sweep
    went wrong, no run has collapsed for sure and no second run of the same (n, B) fell, it is
    broken.
    """
    falls = Counter(Pair.of(c.run) for c in curves if collapse(c, witnessed=True) is not None)
    judged = [
        replace(c, collapsed_at=collapse(c, witnessed=falls[Pair.of(c.run)] > 1)) for c in curves
    ]
    known = [distance for curve in judged for distance in _from_neighbours(curve).tolist()]
    if len(known) < _MIN_DISTANCES:
        return tuple(judged)
    # A normal's median distance is 0.6745 standard deviations.
    spread = float(np.median(np.abs(known))) / 0.6745
    found = [_broken(curve, spread) for curve in judged]
    may_err = any(found) and all(curve.collapsed_at is None for curve in judged)
    for k, (curve, places) in enumerate(zip(judged, found, strict=True)):
        last = len(curve.steps) - 1
        ended = collapse(curve.without(places), witnessed=True)
        if curve.collapsed_at is None and ended is not None:
            if may_err:
                places.append(last)
            else:
                judged[k] = replace(curve, collapsed_at=last)
    named = [
        [(Pair.of(curve.run), int(curve.steps[k])) for k in places]
        for curve, places in zip(judged, found, strict=True)
    ]
    seen = Counter(name for names in named for name in names)
    return tuple(
        curve.without([k for k, name in zip(places, names, strict=True) if seen[name] == 1])
        for curve, places, names in zip(judged, found, named, strict=True)
    )


def collapse(curve: Curve, *, witnessed: bool = False) -> int | None:
    """First record of a collapse (see `Curve`), or None.

    Without a record at step 0 what was gained before the first record is not known: half of the
    gain since has to be lost beyond the error of evaluation. Of a run whose training reward has
    collapsed the fall is certain already. `witnessed`: so is one that only the last record shows.
    """
    reward = curve.reward
    certain = 0.0 if curve.ending.diverged_by == "collapse" else _CERTAIN
    if len(reward) < (3 if certain else 2):
        return None
    best = np.maximum.accumulate(reward)
    error = math.sqrt(2) * _errors_at(curve, best, np.arange(len(reward)))
    lost = best - reward
    least = _COLLAPSED * (best - reward[0]) + (0 if curve.steps[0] == 0 else certain * error)
    kept = np.flatnonzero((lost <= least) | (lost <= certain * error))
    first = int(kept[-1]) + 1
    # One record may err: a second has to say so, unless training's own reward has, or another run.
    return first if first < len(reward) - (1 if certain and not witnessed else 0) else None


def _errors_at(curve: Curve, reward: FloatArray, places: IntArray) -> FloatArray:
    """Standard errors of evaluation of the records at `places`, were these their rewards:
    (places,)."""
    if curve.errors is not None:
        return curve.errors[places]
    # Binomial, with one success and one failure added: wide enough for problems of all kinds.
    count = max(1, curve.successes.shape[1] * curve.samples_per_problem)
    rate = (reward * count + 1) / (count + 2)
    return np.asarray(np.sqrt(rate * (1 - rate) / count))


def _from_neighbours(curve: Curve) -> FloatArray:
    """Of records with one on either side, from the line in log compute between these two."""
    kept = curve.until_collapse()
    past = kept.compute > 0
    x, y = np.log(kept.compute[past]), kept.reward[past]
    if len(x) < _LEAST_BETWEEN:
        return np.zeros(0)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    return np.asarray(y[1:-1] - (1 - share) * y[:-2] - share * y[2:])


def _broken(curve: Curve, spread: float) -> list[int]:
    """Places of its broken records, the worst first: what lies beside it is judged without it."""
    found = list[int]()
    left = np.arange(len(curve.steps) if curve.collapsed_at is None else curve.collapsed_at)
    while len(left) >= _LEAST_BETWEEN:
        y = curve.reward[left]
        low, high = np.minimum(y[:-2], y[2:]), np.maximum(y[:-2], y[2:])
        # The neighbours' errors count as well: 1 + 1/2 of the variance.
        error = math.sqrt(1.5) * _errors_at(curve, (low + high) / 2, left[1:-1])
        # Beside a fall that lasts the neighbours differ: no record there is far from both.
        least = np.maximum(_BROKEN * np.maximum(spread, error), high - low)
        beyond = np.maximum(low - y[1:-1], y[1:-1] - high) / least
        worst = int(np.argmax(beyond))
        if beyond[worst] <= 1:
            break
        found.append(int(left[worst + 1]))
        left = np.delete(left, worst + 1)
    return found
