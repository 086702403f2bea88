"""Readings: a run's reward at the budgets of its cells, and at smaller ones that it passed.

A plan with one budget has records of every run between its first steps and that budget. Read at a
ladder of budgets below it, and between budgets that lie far apart, they show n*(C) over decades,
and nothing is trained. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.bounds import Positive
from isosweep.analysis.curves import CellReading, Curve, Reading
from isosweep.compute import BudgetUnit, sits_at
from isosweep.costs.steps import steps_for
from isosweep.plan.cells import Cell, Plan, PlannedRun

# Updates before which a run has hardly begun.
LEAST_STEPS = 4
# (n, B) times budgets: the time of the reward surface grows with the cube of it.
_MOST_READINGS = 1000
# Records further apart, in decades of compute, say nothing of what lies between them: the best n
# can move by several doublings in less.
_MOST_APART = 0.5
# Factor by which a record may miss a budget and still be its reading, where no other is near.
_AT_BUDGET = 1.01


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


def read_runs(
    plan: Plan, curves: Sequence[Curve], per_decade: int = 0, decades: float = 0.0
) -> tuple[Plan, tuple[CellReading, ...]]:
    """The plan with cells at the further budgets of `rungs_of` that its runs were read at, and one
    reading for each of its cells, in its order.

    Runs and curves are in the same order.
    """
    by_id = {curve.run.run_id: curve for curve in curves}
    readings = [read_cell(cell, by_id[cell.run_id]) for cell in plan.cells]
    rungs, updates = rungs_of(plan, per_decade, decades), updates_per_generation(curves)
    last: dict[str, Cell] = {}
    for cell in plan.cells:
        if cell.run_id not in last or cell.budget > last[cell.run_id].budget:
            last[cell.run_id] = cell
    for end in (last[run_id] for run_id in by_id if run_id in last):
        for rung in rungs:
            if not has_begun(end, rung) or rung >= end.budget:
                continue
            share = rung / end.planned_compute
            cell = replace(
                end,
                budget=rung,
                num_steps=steps_for(rung, end.cost_of_step, updates),
                planned_compute=rung,
                planned_flops=end.planned_flops and end.planned_flops * share,
                device_hours=end.device_hours and end.device_hours * share,
            )
            reading = read_cell(cell, by_id[end.run_id])
            if reading.reward is not None or reading.fallen is not None:
                readings.append(reading)
    cells = tuple(reading.cell for reading in readings)
    budgets = tuple(sorted({*plan.budgets, *(cell.budget for cell in cells)}))
    return replace(plan, budgets=budgets, cells=cells), tuple(readings)


def read_cell(cell: Cell, curve: Curve) -> CellReading:
    """The cell's reward at its budget.

    Exact where the nearest record is the budget's own step (`sits_at`); otherwise linear in
    log compute between the records on either side; missing where there is none on either side, and
    where these two are more than half a decade apart.
    """
    kept = _place(cell.budget, curve, curve.collapsed_at)
    if kept is not None:
        nearest = min(curve.compute[[kept.low, kept.high]], key=lambda at: abs(at - cell.budget))
        return CellReading(
            cell=cell,
            reward=float(kept.read(curve.reward)),
            measured_compute=float(nearest),
            reading="exact" if kept.low == kept.high else "interpolated",
        )
    reading, fallen = _fallen(cell.budget, curve)
    return CellReading(
        cell=cell, reward=None, measured_compute=None, reading=reading, fallen=fallen
    )


def _fallen(budget: float, curve: Curve) -> tuple[Reading, float | None]:
    """How a run is read that has kept no reward at `budget`, and the reward it was left with.

    Past its last record it stays as it was: without it those that lasted would stand for all.
    """
    whole = _place(budget, curve, None)
    beyond = not (curve.compute >= budget).any()
    last = float(curve.reward[-1]) if beyond and curve.reward.size else None
    if beyond and whole is None and curve.ending.status == "diverged":
        return "diverged", last
    if curve.collapsed_at is None or budget <= curve.compute[0]:
        return "missing", None
    if not beyond and whole is not None:
        last = float(whole.read(curve.reward))
    return "missing" if last is None else "collapsed", last


@dataclass(frozen=True)
class _Place:
    """Where a curve is read: `share` of the way from record `low` to `high`, which may be one."""

    low: int
    high: int
    share: float

    def read(self, values: FloatArray | IntArray) -> FloatArray:
        """Between (records, ...): (...)."""
        return np.asarray((1 - self.share) * values[self.low] + self.share * values[self.high])


def _place(budget: float, curve: Curve, end: int | None) -> _Place | None:
    """Where the records before `end` have the budget; None where none is near on both sides."""
    first = int(np.searchsorted(curve.steps, 0, side="right"))
    compute = curve.compute[first:end]
    if not compute.size:
        return None
    nearest = int(np.argmin(np.abs(compute - budget)))
    spent = float(compute[nearest])
    above = int(np.searchsorted(compute, budget))
    if not sits_at(budget, spent, int(curve.generations[first + nearest])):
        if _readable(compute, above):
            low, high = math.log(compute[above - 1]), math.log(compute[above])
            share = (math.log(budget) - low) / (high - low)
            return _Place(first + above - 1, first + above, share)
        if not 1 / _AT_BUDGET <= spent / budget <= _AT_BUDGET:
            return None
    return _Place(first + nearest, first + nearest, 0.0)


def _readable(compute: FloatArray, above: int) -> bool:
    """Whether the records on both sides of `above`, the first at a budget or past it, are near
    enough for a reading between them."""
    inside = 0 < above < compute.size and compute[above - 1] > 0
    return inside and _are_near(compute[above - 1], compute[above])


def _are_near(low: float, high: float) -> bool:
    return math.log10(high / low) <= _MOST_APART + 1e-6


def problem_rates(cell: Cell, curve: Curve) -> FloatArray:
    """Success rate of every held-out problem, read where the cell's reward is: (problems,).

    Of a cell that was read with a reward.
    """
    place = _place(cell.budget, curve, curve.collapsed_at)
    assert place is not None
    return place.read(curve.successes) / curve.samples_per_problem


def gaps_of(curves: Sequence[Curve], budgets: Sequence[float]) -> tuple[Gap, ...]:
    """Where, between neighbouring budgets that were read, no run can be read; ascending."""
    known = [curve.compute[curve.compute > 0] for curve in curves]
    every = np.unique(np.concatenate([*known, np.zeros(0)]))
    found = {}
    for before, after in pairwise(budgets):
        number = math.ceil(math.log10(after / before) / (_MOST_APART / 2))
        for at in np.geomspace(before, after, number + 1)[1:-1]:
            if any(_readable(compute, int(np.searchsorted(compute, at))) for compute in known):
                continue
            low, high = float(every[every < at][-1]), float(every[every > at][0])
            empty = not _are_near(low, high)
            ends = (low, high) if empty else (before, after)
            found[after] = Gap(low=ends[0], high=ends[1], empty=empty, after=after)
    return tuple(found.values())


def rungs_of(plan: Plan, per_decade: int, decades: float) -> list[float]:
    """Budgets besides those of the plan, ascending; none with `per_decade` 0.

    About `per_decade` in every factor of ten: evenly between two of the plan's own budgets that lie
    further apart, and from the smallest of those down to `decades` below it. Fewer where there are
    so many (n, B) that they show enough with fewer, and would take minutes with all.
    """
    pairs = len({(run.num_generations, run.problems_per_batch) for run in plan.runs})
    rungs = _rungs(plan.budgets, per_decade, decades)
    while per_decade > 1 and pairs * (len(plan.budgets) + len(rungs)) > _MOST_READINGS:
        per_decade -= 1
        rungs = _rungs(plan.budgets, per_decade, decades)
    return rungs


def _rungs(budgets: Sequence[float], per_decade: int, decades: float) -> list[float]:
    if not per_decade or not budgets:
        return []
    known = sorted(budgets)
    below = math.floor(per_decade * decades + 1e-9)
    rungs = [known[0] * 10 ** (-k / per_decade) for k in range(below, 0, -1)]
    for low, high in pairwise(known):
        steps = round(per_decade * math.log10(high / low))
        rungs += [low * (high / low) ** (k / steps) for k in range(1, steps)]
    return rungs


def has_begun(cell: Cell, budget: float) -> bool:
    """Whether the run of `cell` has made enough updates at `budget` to be read there."""
    return steps_for(budget, cell.cost_of_step, 1) >= LEAST_STEPS


def updates_per_generation(curves: Sequence[Curve]) -> int:
    """Optimiser updates made with each generation, by the records; 1 where they do not say."""
    last = [(curve.steps[-1], curve.generations[-1]) for curve in curves if curve.steps.size]
    return max((round(steps / made) for steps, made in last if steps and made), default=1)


def on_axis(
    plan: Plan, curves: Sequence[Curve], spent: Sequence[FloatArray], unit: BudgetUnit
) -> Plan:
    """The plan with every budget in `unit`: what the runs had spent of it at that budget.

    Of each run `curves` have the compute in `unit` and `spent` in the plan's unit, (records,). A
    budget becomes the geometric mean over runs, so that (n, B) which need more of `unit` for the
    same budget are read off earlier.
    """
    known: dict[float, list[float]] = {}
    for before, curve in zip(spent, curves, strict=True):
        past = (before > 0) & (curve.compute > 0)
        for budget in plan.budgets:
            if past.any() and before[past][-1] * 1.05 >= budget >= before[past][0]:
                at = np.log(before[past]), np.log(curve.compute[past])
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
