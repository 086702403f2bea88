"""Smaller budgets that a sweep's runs have passed on their way: read off, and nothing is trained.

A plan with one budget has records of every run between its first steps and that budget. Read at a
ladder of budgets below it, and between budgets that lie far apart, they show n*(C) over decades. A
reading between two records is interpolated in log C, as any other (`curves.read_cell`); what it
shares with its neighbours is in the covariance that the seeds show.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from isosweep.analysis.curves import Curve, read_cell
from isosweep.plan.cells import Cell, Plan

# Updates before which a run has hardly begun.
_LEAST_STEPS = 4


def with_ladder(plan: Plan, curves: Sequence[Curve], per_decade: int, decades: float) -> Plan:
    """The plan with cells at further budgets, of the runs that can be read there; runs and curves
    are in the same order.

    `per_decade` of them in every factor of ten, down to `decades` below the smallest budget; those
    that lie nearer to one of the plan's own than half of their distance are left out.
    """
    rungs = _rungs(plan.budgets, per_decade, decades)
    cells: list[Cell] = []
    for run, curve in zip(plan.runs, curves, strict=True):
        own = [cell for cell in plan.cells if cell.run_id == run.run_id] if rungs else []
        if not own:
            continue
        last = max(own, key=lambda cell: cell.budget)
        for rung in rungs:
            share = rung / last.planned_compute
            cell = replace(
                last,
                budget=rung,
                num_steps=round(last.num_steps * share),
                planned_compute=rung,
                planned_flops=last.planned_flops * share,
                device_hours=last.device_hours * share,
            )
            if cell.num_steps >= _LEAST_STEPS and rung < last.budget:
                reading = read_cell(cell, curve)
                if reading.reward is not None or reading.fallen is not None:
                    cells.append(cell)
    added = {cell.budget for cell in cells}
    return replace(
        plan,
        budgets=tuple(sorted({*plan.budgets, *added})),
        cells=(*plan.cells, *cells),
    )


def _rungs(budgets: Sequence[float], per_decade: int, decades: float) -> list[float]:
    """Budgets of the ladder, ascending, counted from the largest budget downwards."""
    if not per_decade or not budgets:
        return []
    largest, smallest = max(budgets), min(budgets)
    count = math.floor(per_decade * (math.log10(largest / smallest) + decades) + 1e-9)
    known = [math.log10(budget) for budget in budgets]
    rungs = [largest * 10 ** (-k / per_decade) for k in range(count, 0, -1)]
    room = 0.5 / per_decade
    return [rung for rung in rungs if min(abs(math.log10(rung) - b) for b in known) > room]
