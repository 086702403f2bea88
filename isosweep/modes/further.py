"""One n more for a sweep's grid, for its report: how it is typed, and what it adds."""

import math
from collections.abc import Iterator
from dataclasses import replace

from isosweep.config.grid import GridConfig
from isosweep.config.search import SearchConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.study import resolve_stored


def further_n(plan: Plan, config: SweepConfig, n: int) -> str:
    """What is typed for `n` to be run up to the largest budget, with its price; or what keeps it
    out. By the planner itself: a grid that takes no such n is not offered.

    `plan`: of one combination of `grid.axes`.
    """
    from isosweep.analysis.statistics.intervals import short

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
            share = _compute(wide.runs) / _compute(plan.runs) - 1
            runs = f"{len(added)} runs{' of each variant' if config.grid.axes else ''}"
            more = f"{runs}, {share:.0%} more compute; what was trained stays"
            return f"{_typed(config.grid, grid)} ({more})"
        refused = [item for item in wide.rejected if item.num_generations == n]
        if refused:
            last = max(refused, key=lambda item: item.budget)
            why = f"{last.rule} keeps out at {short(last.budget)} ({last.reason})"
    return f"n = {n}, which {why}"


def _grids(grid: GridConfig, n: int) -> Iterator[GridConfig]:
    """The grid with `n`, and where its n x B is fixed with the B that go with it."""
    wider = replace(grid, num_generations=sorted({*grid.num_generations, n}))
    yield wider
    fixed = grid.completions_per_step or ()
    batches = {product // n for product in fixed if product % n == 0}
    if not batches <= set(grid.problems_per_batch):
        yield replace(wider, problems_per_batch=sorted({*grid.problems_per_batch, *batches}))


def _typed(old: GridConfig, new: GridConfig) -> str:
    """What of `new` is not as in `old`, as it is typed."""
    names = ("num_generations", "problems_per_batch")
    changed = [name for name in names if getattr(old, name) != getattr(new, name)]
    return " ".join(f"grid.{name}=[{','.join(map(str, getattr(new, name)))}]" for name in changed)


def _compute(runs: tuple[PlannedRun, ...]) -> float:
    """Of all runs to their last budgets, in the plan's unit."""
    return math.fsum(run.milestones[-1] for run in runs)
