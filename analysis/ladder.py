"""Smaller budgets that a sweep's runs have passed on their way: read off, and nothing is trained.

A plan with one budget has records of every run between its first steps and that budget. Read at a
ladder of budgets below it, and between budgets that lie far apart, they show n*(C) over decades. A
reading between two records is interpolated in log C, as any other (`curves.read_cell`); what it
shares with its neighbours is in the covariance that the seeds show.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from isosweep.analysis.curves import Curve, read_cell
from isosweep.analysis.pairs import Pair
from isosweep.plan.cells import Cell, Plan

# Updates before which a run has hardly begun.
_LEAST_STEPS = 4
# (n, B) times budgets: the surface's time grows with the cube of it.
_MOST_READINGS = 1000


def with_ladder(plan: Plan, curves: Sequence[Curve], per_decade: int, decades: float) -> Plan:
    """The plan with cells at further budgets, of the runs that can be read there; runs and curves
    are in the same order.

    About `per_decade` of them in every factor of ten: evenly between two of the plan's own budgets
    that lie further apart, and from the smallest of those down to `decades` below it. Fewer where
    there are so many (n, B) that they show enough with fewer, and would take minutes with all.
    """
    pairs = len({Pair.of(run) for run in plan.runs})
    rungs = _rungs(plan.budgets, per_decade, decades)
    while per_decade > 1 and pairs * (len(plan.budgets) + len(rungs)) > _MOST_READINGS:
        per_decade -= 1
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
    """Budgets of the ladder, ascending."""
    if not per_decade or not budgets:
        return []
    known = sorted(budgets)
    below = math.floor(per_decade * decades + 1e-9)
    rungs = [known[0] * 10 ** (-k / per_decade) for k in range(below, 0, -1)]
    for low, high in pairwise(known):
        steps = round(per_decade * math.log10(high / low))
        rungs += [low * (high / low) ** (k / steps) for k in range(1, steps)]
    return rungs
