"""One n more for a sweep's grid: the grid that takes it, and what it adds."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from isosweep.config.axes import combinations
from isosweep.config.base import replaced
from isosweep.config.grid import GridConfig
from isosweep.config.sweep import SweepConfig
from isosweep.plan.candidates import Candidates, Place
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.rules import rules_of
from isosweep.words.numbers import short

if TYPE_CHECKING:
    from isosweep.analysis.answer import AddN


def further_n(plan: Plan, config: SweepConfig, n: int) -> "AddN":
    """How `n` is run up to the largest budget, or which of the planner's rules keeps it out there.

    `plan`: of one combination of `grid.axes`.
    """
    from isosweep.analysis.answer import AddN

    return AddN(n=n, **_added(plan, config, n))


def _added(plan: Plan, config: SweepConfig, n: int) -> dict[str, Any]:
    """The fields of `AddN`, whose package takes more than a plan does."""
    why = "the grid's rules keep out"
    for grid in _grids(config.grid, n):
        table = _candidates(replaced(config, grid=grid), plan.axes[0])
        added = table.longest >= 0
        for run in plan.runs:
            added[table.pair(run.num_generations, run.problems_per_batch)] = False
        i, last = table.num_generations.tolist().index(n), len(table.budgets) - 1
        if (table.longest[i][added[i]] == last).any():
            compute = table.budgets[table.longest[added]].repeat(len(grid.seeds))
            ends = table.run_seconds[added, table.longest[added]]
            seconds = math.fsum(ends) * len(grid.seeds)
            return {
                "settings": _changed(config.grid, grid),
                "runs": len(compute),
                "share": math.fsum(compute) / math.fsum(run.milestones[-1] for run in plan.runs),
                "device_hours": seconds * config.devices_taken / 3600,
                "variants": bool(config.grid.axes),
            }
        if (refused := np.flatnonzero(table.listed[i] & (table.longest[i] < last))).size:
            place = Place(i, int(refused[0]), last)
            rule = rules_of(int(table.broken[place]))[0]
            why = f"{rule.setting} keeps out at {short(config.budgets[-1])} "
            why += f"({rule.reason(table.at(place))})"
    return {"settings": {}, "kept_out": why}


def _grids(grid: GridConfig, n: int) -> Iterator[GridConfig]:
    """The grid with `n`, and where its n x B is fixed with the B that go with it."""
    wider = replaced(grid, num_generations=sorted({*grid.num_generations, n}))
    yield wider
    fixed = grid.completions_per_step or ()
    batches = {product // n for product in fixed if product % n == 0}
    if not batches <= set(grid.problems_per_batch):
        yield replaced(wider, problems_per_batch=sorted({*grid.problems_per_batch, *batches}))


def _candidates(config: SweepConfig, axes: dict[str, Any]) -> Candidates:
    """Those of one combination of `grid.axes`."""
    variant = next(each for each in combinations(config) if each.axes == axes)
    (table,) = enumerate_candidates([variant])
    return table


def _changed(old: GridConfig, new: GridConfig) -> dict[str, list[int]]:
    """What of `new` is not as in `old`."""
    names = ("num_generations", "problems_per_batch")
    return {name: getattr(new, name) for name in names if getattr(old, name) != getattr(new, name)}
