"""Curves of runs and readings of cells: what an analysis works on. Pure: no files, no records."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.bounds import Positive
from isosweep.analysis.course import Course
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.compute import BudgetUnit, sits_at
from isosweep.metrics import METRICS, MetricName, Scored
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
# Share of the runs whose last records can have been broken by chance.
_ENDS = 0.1
# Fewer distances than this say too little of the spread.
_MIN_DISTANCES = 10
# Records of which one lies between two.
_LEAST_BETWEEN = 3
# Records further apart, in decades of compute, say nothing of what lies between them: the best n
# can move by several doublings in less.
_MOST_APART = 0.5
# Factor by which a record may miss a budget and still be its reading, where no other is near.
_AT_BUDGET = 1.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Held-out evaluations of one run, by step; empty arrays for a run that left no records.

    `steps`, `generations`, `compute` (in the plan's budget unit) and `reward` (by the metric
    chosen, avg@k by default): (records,). `hours`: device-hours of training so far,
    (records,), 0 or None where they are not known.
    `successes`: (records, problems), how many of `samples_per_problem` completions were right, or
    the points by another metric; where records have means alone no problems, and `errors`,
    (records,), their standard errors, which are `errors_estimated` from the curve itself where
    nobody told them.
    `scores`: 0 or 1 for each problem by further metrics, (records, problems).
    `status` and `status_reason` are what the run last reported of itself, `warnings` the health
    rules that it broke, `diverged_by` the one that ended it. `collapsed_at`: first record from
    which on the run never again has half of its best gain; None if it keeps it.
    `evaluation_hours`: of its evaluations. `standing`: how far
    the run is by its files, None without any. `broken`: steps of the records that were left out
    (see `without_broken`). `has_metrics`: whether it wrote metrics of its steps, by which rules of
    health judge it.
    """

    run: PlannedRun
    steps: IntArray
    generations: IntArray
    compute: FloatArray
    reward: FloatArray
    successes: IntArray | FloatArray
    samples_per_problem: int
    status: str | None
    status_reason: str | None
    warnings: tuple[HealthWarning, ...] = ()
    diverged_by: str | None = None
    collapsed_at: int | None = None
    hours: FloatArray | None = None
    evaluation_hours: float | None = None
    standing: Standing | None = None
    errors: FloatArray | None = None
    scores: Mapping[str, FloatArray] = field(default_factory=dict)
    broken: tuple[int, ...] = ()
    errors_estimated: bool = False
    has_metrics: bool = True

    def until_collapse(self) -> "Curve":
        """The curve without the records from its collapse on."""
        return self if self.collapsed_at is None else self._first(self.collapsed_at)

    def _first(self, number: int) -> "Curve":
        """The curve with so many of its records, which have no collapse."""
        return replace(self._only(np.arange(number)), collapsed_at=None)

    def _only(self, places: IntArray) -> "Curve":
        """The curve with the records at these places, but for `collapsed_at`."""
        names = ("steps", "generations", "compute", "hours", "reward", "successes")
        of_records = {name: getattr(self, name) for name in (*names, "errors")}
        kept: dict[str, Any] = {
            name: None if all_of is None else all_of[places] for name, all_of in of_records.items()
        }
        scores = {name: of[places] for name, of in self.scores.items()}
        return replace(self, **kept, scores=scores)

    def without(self, places: Sequence[int]) -> "Curve":
        """The curve without these records, none of them of its collapse or after."""
        kept = self._only(np.setdiff1d(np.arange(self.steps.size), places))
        first = None if self.collapsed_at is None else self.collapsed_at - len(places)
        broken = {*self.broken, *self.steps[list(places)].tolist()}
        return replace(kept, collapsed_at=first, broken=tuple(sorted(broken)))

    def scored_by(
        self, metric: MetricName, difficulty: tuple[float, float] | None = None
    ) -> "Curve":
        """A curve by avg@k scored by another metric, or on the problems whose success rate at step
        0 lies in the range; as it is where it has means alone.

        Without a record at step 0 no difficulty is known, and no record is left.
        """
        if not self.counted or not self.steps.size:
            return self
        if difficulty is not None and self.base_reward is None:
            return self._first(0)
        right, k, scores = self.successes.astype(np.int64), self.samples_per_problem, self.scores
        if difficulty is not None:
            rates = right[0] / k
            kept = (rates >= difficulty[0]) & (rates <= difficulty[1])
            right, scores = right[:, kept], {name: of[:, kept] for name, of in scores.items()}
        score = METRICS[metric]
        # No problems where the records do not tell it.
        told = Scored(points=scores.get(metric, right[:, :0]), of=1)
        found = told if score is None else score(right, k)
        curve = replace(
            self,
            successes=found.points,
            samples_per_problem=found.of,
            scores=scores,
            reward=found.points.sum(axis=1) / max(1, found.points.shape[1] * found.of),
        )
        return replace(curve, collapsed_at=collapse(curve))

    @property
    def counted(self) -> bool:
        """Whether successes of single problems are known, of all records there are."""
        return self.errors is None

    def tells(self, metric: MetricName) -> bool:
        """Whether the records can be scored by that metric."""
        if metric == "avg" or not self.steps.size:
            return True
        return metric in self.scores or (self.counted and METRICS[metric] is not None)

    @property
    def device_hours(self) -> float | None:
        """Of training up to its last record."""
        return None if self.hours is None or not self.hours.size else float(self.hours[-1])

    @property
    def num_samples(self) -> int:
        """Completions that a record scored."""
        return int(self.successes.shape[1]) * self.samples_per_problem

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
class Gap:
    """Compute between two budgets at which no run can be read, since its records there are too far
    apart."""

    low: Positive
    """Where it begins, in budget_unit."""
    high: Positive
    """Where it ends, in budget_unit."""
    empty: bool
    """Whether no run has any record there; else no run has two that are near enough."""
    after: Positive
    """The first budget past it that was read, in budget_unit."""


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
    plan_document: dict[str, Any]
    config_document: dict[str, Any]
    curves: tuple[Curve, ...]
    readings: tuple[CellReading, ...]
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


def updates_per_generation(curves: Sequence[Curve]) -> int:
    """Optimiser updates made with each generation, by the records; 1 where they do not say."""
    last = [(curve.steps[-1], curve.generations[-1]) for curve in curves if curve.steps.size]
    return max((round(steps / made) for steps, made in last if steps and made), default=1)


def on_axis(plan: Plan, curves: Sequence[Curve], moved: Sequence[Curve], unit: BudgetUnit) -> Plan:
    """The plan with every budget in `unit`: what the runs had spent of it at that budget.

    `curves` are in the plan's unit, `moved` in `unit`. A budget becomes the geometric mean over
    runs, so that (n, B) which need more of `unit` for the same budget are read off earlier.
    """
    known: dict[float, list[float]] = {}
    for before, after in zip(curves, moved, strict=True):
        past = (before.compute > 0) & (after.compute > 0)
        for budget in plan.budgets:
            if past.any() and before.compute[past][-1] * 1.05 >= budget >= before.compute[past][0]:
                at = np.log(before.compute[past]), np.log(after.compute[past])
                known.setdefault(budget, []).append(float(np.interp(math.log(budget), *at)))
    budgets = {budget: math.exp(float(np.mean(logs))) for budget, logs in known.items()}

    def move(run: PlannedRun) -> PlannedRun:
        return replace(run, milestones=tuple(budgets[b] for b in run.milestones if b in budgets))

    return replace(
        plan,
        budget_unit=unit,
        budgets=tuple(budgets[budget] for budget in sorted(budgets)),
        cells=tuple(
            replace(cell, budget=budgets[cell.budget], planned_compute=budgets[cell.budget])
            for cell in plan.cells
            if cell.budget in budgets
        ),
        runs=tuple(move(run) for run in plan.runs),
        rejected=(),
    )


def _are_near(low: float, high: float) -> bool:
    """Whether records at these amounts of compute are near enough for a reading between them."""
    return math.log10(high / low) <= _MOST_APART + 1e-6


def gaps_of(curves: Sequence[Curve], budgets: Sequence[float]) -> tuple[Gap, ...]:
    """Where, between neighbouring budgets that were read, no run can be read; ascending."""
    known = [curve.compute[curve.compute > 0] for curve in curves]
    every = np.unique(np.concatenate([*known, np.zeros(0)]))
    found = []
    for before, after in pairwise(budgets):
        number = math.ceil(math.log10(after / before) / (_MOST_APART / 2))
        for at in np.geomspace(before, after, number + 1)[1:-1]:
            if any(_readable(compute, at) for compute in known):
                continue
            low, high = float(every[every < at][-1]), float(every[every > at][0])
            empty = not _are_near(low, high)
            ends = (low, high) if empty else (before, after)
            found.append(Gap(low=ends[0], high=ends[1], empty=empty, after=after))
    return tuple({gap.after: gap for gap in found}.values())


def _readable(compute: FloatArray, at: float) -> bool:
    """Whether records at `compute`, ascending, lie near enough on both sides of `at`."""
    above = int(np.searchsorted(compute, at))
    return 0 < above < compute.size and _are_near(compute[above - 1], compute[above])


def collapse(curve: Curve, *, witnessed: bool = False) -> int | None:
    """First record of a collapse (see `Curve`), or None.

    Without a record at step 0 what was gained before the first record is not known: half of the
    gain since has to be lost beyond the error of evaluation. Of a run whose training reward has
    collapsed the fall is certain already. `witnessed`: so is one that only the last record shows.
    """
    reward, errors, count = curve.reward, curve.errors, curve.num_samples
    certain = 0.0 if curve.diverged_by == "collapse" else _CERTAIN
    if len(reward) < (3 if certain else 2) or not (count or errors is not None):
        return None
    best = np.maximum.accumulate(reward)
    error = math.sqrt(2) * _errors_of(curve, best)
    lost = best - reward
    least = _COLLAPSED * (best - reward[0]) + (0 if curve.steps[0] == 0 else certain * error)
    fallen = (lost > least) & (lost > certain * error)
    kept = np.flatnonzero(~fallen)
    first = int(kept[-1]) + 1
    # One record may err: a second has to say so, unless training's own reward has, or another run.
    return first if first < len(reward) - (1 if certain and not witnessed else 0) else None


def _errors_of(curve: Curve, reward: FloatArray) -> FloatArray:
    """Standard error of evaluation of each record, were its reward this one: (records,)."""
    if curve.errors is not None:
        return curve.errors
    # Binomial, with one success and one failure added: wide enough for problems of all kinds.
    count = max(1, curve.num_samples)
    rate = (reward * count + 1) / (count + 2)
    return np.asarray(np.sqrt(rate * (1 - rate) / count))


def with_witnesses(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """The curves, with falls that only a last record shows where runs of the same (n, B) fell too.

    Such a fall may be one bad evaluation; of two runs it is none.
    """
    last: dict[str, int] = {}
    for group in by_pair(curves, lambda curve: curve.run).values():
        fallen = {curve.run.run_id: collapse(curve, witnessed=True) for curve in group}
        found = {name: first for name, first in fallen.items() if first is not None}
        if len(found) > 1:
            last.update(found)
    return tuple(replace(c, collapsed_at=last.get(c.run.run_id, c.collapsed_at)) for c in curves)


def without_broken(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """The curves without broken records: an evaluation that went wrong, and not the run.

    Such a record lies far above, or far below, both of its neighbours: by six spreads of records
    around their neighbours (robust, over all runs), by six errors of evaluation, and by more than
    these two differ. Never the first record, nor one from a collapse on: a fall that lasts is the
    run's own; nor what two runs of the same (n, B) do at the same step. A collapse that a last
    record alone shows may be one: it is left out as well, unless a run of the sweep has collapsed,
    or more runs than one, and than one in ten, end so.
    """
    known = [distance for curve in curves for distance in _from_neighbours(curve).tolist()]
    if len(known) < _MIN_DISTANCES:
        return tuple(curves)
    # A normal's median distance is 0.6745 standard deviations.
    spread = float(np.median(np.abs(known))) / 0.6745
    found = [_broken(curve, spread) for curve in curves]
    if not any(curve.collapsed_at is not None for curve in curves):
        ends = [
            (places, len(curve.steps) - 1)
            for curve, places in zip(curves, found, strict=True)
            if collapse(curve.without(places), witnessed=True) is not None
        ]
        if len(ends) <= max(1, _ENDS * len(curves)):
            for places, last in ends:
                places.append(last)
    seen = Counter(
        (Pair.of(curve.run), int(curve.steps[k]))
        for curve, places in zip(curves, found, strict=True)
        for k in places
    )
    return tuple(
        curve.without([k for k in places if seen[Pair.of(curve.run), int(curve.steps[k])] == 1])
        for curve, places in zip(curves, found, strict=True)
    )


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
    reward, found = curve.until_collapse().reward, list[int]()
    left = np.arange(len(reward))
    while len(left) >= _LEAST_BETWEEN:
        y = reward[left]
        low, high = np.minimum(y[:-2], y[2:]), np.maximum(y[:-2], y[2:])
        # The neighbours' errors count as well: 1 + 1/2 of the variance.
        error = math.sqrt(1.5) * _errors_of(curve._only(left[1:-1]), (low + high) / 2)
        # Beside a fall that lasts the neighbours differ: no record there is far from both.
        least = np.maximum(_BROKEN * np.maximum(spread, error), high - low)
        beyond = np.maximum(low - y[1:-1], y[1:-1] - high) / least
        worst = int(np.argmax(beyond))
        if beyond[worst] <= 1:
            break
        found.append(int(left[worst + 1]))
        left = np.delete(left, worst + 1)
    return found


def read_cells(plan: Plan, curves: Sequence[Curve]) -> tuple[CellReading, ...]:
    """One reading for each of the plan's cells, in its order."""
    by_id = {curve.run.run_id: curve for curve in curves}
    return tuple(read_cell(cell, by_id[cell.run_id]) for cell in plan.cells)


def read_cell(cell: Cell, curve: Curve) -> CellReading:
    """The cell's reward at its budget.

    Exact where the nearest record is the budget's own step (`sits_at`); otherwise linear in
    log compute between the records on either side; missing where there is none on either side, and
    where these two are more than half a decade apart.
    """
    ended = curve.status == "diverged" and not (curve.compute >= cell.budget).any()
    lacking: Reading = "diverged" if ended else "missing"
    last = float(curve.reward[-1]) if ended and curve.reward.size else None
    missing = CellReading(
        cell=cell, reward=None, measured_compute=None, reading=lacking, fallen=last
    )
    if curve.collapsed_at is not None:
        # Reached by the whole run and not by what came before its collapse.
        before = read_cell(cell, curve.until_collapse())
        whole = read_cell(cell, replace(curve, collapsed_at=None))
        if before.reward is not None or cell.budget <= curve.compute[0]:
            return before
        if whole.fallen is not None:
            return whole
        # Past its last record it stays as it was: without it those that lasted would stand for all.
        beyond = cell.budget > curve.compute[-1]
        fallen = float(curve.reward[-1]) if beyond else whole.reward
        reading: Reading = "missing" if fallen is None else "collapsed"
        return replace(missing, reading=reading, fallen=fallen)
    place = place_of(cell, curve)
    if place is None:
        return missing
    share = place.share
    value = (1 - share) * curve.reward[place.low] + share * curve.reward[place.high]
    return CellReading(
        cell=cell,
        reward=float(value),
        measured_compute=float(curve.compute[place.nearest]),
        reading="exact" if place.low == place.high else "interpolated",
    )


class Place(NamedTuple):
    """Where a curve is read: `share` of the way from record `low` to `high`, which may be one.
    `nearest`: of both, the record nearer to the budget."""

    low: int
    high: int
    share: float
    nearest: int


def place_of(cell: Cell, curve: Curve) -> Place | None:
    """Where a curve without a collapse has the cell; None where no record is near on both sides."""
    first = int(np.argmax(curve.steps > 0)) if (curve.steps > 0).any() else curve.steps.size
    compute = curve.compute[first:]
    if not compute.size:
        return None
    nearest = first + int(np.argmin(np.abs(compute - cell.budget)))
    if sits_at(cell.budget, float(curve.compute[nearest]), int(curve.generations[nearest])):
        return Place(nearest, nearest, 0.0, nearest)
    above = first + int(np.searchsorted(compute, cell.budget))
    inside = first < above < curve.compute.size and curve.compute[above - 1] > 0
    if not inside or not _are_near(curve.compute[above - 1], curve.compute[above]):
        ratio = float(curve.compute[nearest]) / cell.budget
        at = 1 / _AT_BUDGET <= ratio <= _AT_BUDGET
        return Place(nearest, nearest, 0.0, nearest) if at else None
    low, high = math.log(curve.compute[above - 1]), math.log(curve.compute[above])
    return Place(above - 1, above, (math.log(cell.budget) - low) / (high - low), nearest)


def problem_rates(cell: Cell, curve: Curve) -> FloatArray:
    """Success rate of every held-out problem, read where the cell's reward is: (problems,).

    Of a cell that was read with a reward.
    """
    kept = curve.until_collapse()
    place = place_of(cell, kept)
    assert place is not None
    of = (1 - place.share) * kept.successes[place.low] + place.share * kept.successes[place.high]
    return np.asarray(of / curve.samples_per_problem)
