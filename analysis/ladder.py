"""Smaller budgets that a sweep's runs have passed on their way: read off, and nothing is trained.

A plan with one budget has records of every run between its first steps and that budget. Read at a
ladder of budgets below it, and between budgets that lie far apart, they show n*(C) over decades. A
reading between two records is interpolated in log C, as any other (`curves.read_cell`); what it
shares with its neighbours is in the covariance that the seeds show.
"""

from collections.abc import Sequence
from dataclasses import replace

from isosweep.analysis.curves import Curve, read_cell, updates_per_generation
from isosweep.analysis.rungs import has_begun, rungs_of
from isosweep.costs.steps import steps_for
from isosweep.plan.cells import Cell, Plan


def with_ladder(plan: Plan, curves: Sequence[Curve], per_decade: int, decades: float) -> Plan:
    """The plan with cells at further budgets (`rungs_of`), of the runs that can be read there.

    Runs and curves are in the same order.
    """
    rungs = rungs_of(plan, per_decade, decades)
    updates = updates_per_generation(curves)
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
                num_steps=steps_for(rung, last.cost_of_step, updates),
                planned_compute=rung,
                planned_flops=last.planned_flops and last.planned_flops * share,
                device_hours=last.device_hours and last.device_hours * share,
            )
            if has_begun(last, rung) and rung < last.budget:
                reading = read_cell(cell, curve)
                if reading.reward is not None or reading.fallen is not None:
                    cells.append(cell)
    added = {cell.budget for cell in cells}
    return replace(
        plan,
        budgets=tuple(sorted({*plan.budgets, *added})),
        cells=(*plan.cells, *cells),
    )
