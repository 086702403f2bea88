"""One n more for a sweep's grid: the grid that takes it, and what it adds."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from isosweep.config.grid import GridConfig
from isosweep.config.search import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.study import resolve_stored
from isosweep.words.numbers import short

if TYPE_CHECKING:
    from isosweep.analysis.answer import AddN


def further_n(plan: Plan, config: SweepConfig, n: int) -> "AddN":
    """How `n` is run up to the largest budget, or what keeps it out. By the planner itself: a grid
    that takes no such n is not offered.

    `plan`: of one combination of `grid.axes`.
    """
    from isosweep.analysis.answer import AddN

    own = {run.run_id for run in plan.runs}
    why = "the grid's rules keep out"
    for grid in _grids(config.grid, n):
        asked = replace(config, name=None, sweep_dir=None, grid=grid, search=SearchConfig())
        try:
            wide = resolve_stored(asked).plan.of_axes(plan.axes[0])
        except SettingError as error:
            why = f"the planner refuses: {error}"
            continue
        added = [run for run in wide.runs if run.run_id not in own]
        reaching = [
            run
            for run in added
            if run.num_generations == n and run.milestones[-1] == plan.budgets[-1]
        ]
        if reaching and own <= {run.run_id for run in wide.runs}:
            return AddN(
                n=n,
                settings=_changed(config.grid, grid),
                runs=len(added),
                share=_compute(wide.runs) / _compute(plan.runs) - 1,
                variants=bool(config.grid.axes),
            )
        refused = [item for item in wide.rejected if item.num_generations == n]
        if refused:
            last = max(refused, key=lambda item: item.budget)
            why = f"{last.rule} keeps out at {short(last.budget)} ({last.reason})"
    return AddN(n=n, settings={}, kept_out=why)


def _grids(grid: GridConfig, n: int) -> Iterator[GridConfig]:
    """The grid with `n`, and where its n x B is fixed with the B that go with it."""
    wider = replace(grid, num_generations=sorted({*grid.num_generations, n}))
    yield wider
    fixed = grid.completions_per_step or ()
    batches = {product // n for product in fixed if product % n == 0}
    if not batches <= set(grid.problems_per_batch):
        yield replace(wider, problems_per_batch=sorted({*grid.problems_per_batch, *batches}))


def _changed(old: GridConfig, new: GridConfig) -> dict[str, list[int]]:
    """What of `new` is not as in `old`."""
    names = ("num_generations", "problems_per_batch")
    return {name: getattr(new, name) for name in names if getattr(old, name) != getattr(new, name)}


def _compute(runs: tuple[PlannedRun, ...]) -> float:
    """Of all runs to their last budgets, in the plan's unit."""
    return math.fsum(run.milestones[-1] for run in runs)
