"""Smaller budgets at which an analysis reads a plan's runs as well. Pure, and quick to import."""

import math
from collections.abc import Sequence
from itertools import pairwise

from isosweep.costs.steps import steps_for
from isosweep.plan.cells import Cell, Plan

# Updates before which a run has hardly begun.
LEAST_STEPS = 4
# (n, B) times budgets: the time of the reward surface grows with the cube of it.
_MOST_READINGS = 1000


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


def has_begun(cell: Cell, budget: float) -> bool:
    """Whether the run of `cell` has made enough updates at `budget` to be read there."""
    return steps_for(budget, cell.cost_of_step, 1) >= LEAST_STEPS


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
