"""The plan of runs that were trained elsewhere: budgets they passed, and cells there. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from isosweep.compute import BudgetUnit, has_reached, sits_at
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError
from isosweep.importing.runs import ForeignRun
from isosweep.plan.cells import Cell, Plan, PlannedRun
from isosweep.plan.document import Note
from isosweep.words.numbers import short

# Budgets of a ladder in a factor of ten, and at least.
_PER_DECADE, _FEWEST = 4, 3
# A budget is to be one that at least so many n were trained to. Runs that end at this share of it
# or later were to end there: the last budget is what the shortest of them has spent.
_N, _ALIKE = 2, 0.9


def ladder(runs: Sequence[ForeignRun]) -> tuple[float, ...]:
    """Budgets over the range of compute that two n or more were evaluated in, rounded to three
    digits.

    Raises SettingError where no two n have any in common.
    """
    first, last = [], []
    for _, own in groupby(runs, key=lambda run: run.num_generations):
        alike = list(own)
        first.append(min(float(run.compute[run.compute > 0][0]) for run in alike))
        last.append(max(float(run.compute[-1]) for run in alike))
    if len(last) < _N:
        n = runs[0].num_generations
        rule = f"every run has n={n}, and the best n shows where several were trained"
        raise SettingError("import.n", n, rule, "runs of another n in the same table")
    low, high = sorted(first)[_N - 1], sorted(last)[-_N]
    ends = [float(run.compute[-1]) for run in runs]
    high = min(end for end in ends if end >= _ALIKE * high)
    if low >= high:
        rule = f"no two n were evaluated at the same compute: runs of one end at {short(high)}"
        raise SettingError("import.compute", short(low), rule, "runs that overlap")
    number = max(_FEWEST, 1 + round(_PER_DECADE * math.log10(high / low)))
    rungs = np.geomspace(low, high, number)
    # The last is one that runs have reached, so that it is rounded down.
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    rounded = {*(float(f"{rung:.3g}") for rung in rungs[:-1]), math.floor(high / unit) * unit}
    return tuple(sorted(float(f"{each:.6g}") for each in rounded))


def imported_plan(
    runs: Sequence[ForeignRun], unit: BudgetUnit, asked: Sequence[float] | None
) -> tuple[Plan, list[ForeignRun], list[Note]]:
    """The plan, the runs that it is of, and which runs ended before its first budget.

    Its cells are those of every run at every budget from its first evaluation on: a run that ended
    before one is missing there, as one that was never finished is. `asked`: None for a ladder.
    """
    budgets = tuple(asked) if asked else ladder(runs)
    kept = [run for run in runs if has_come(run, budgets[0])]
    early = [run for run in runs if not has_come(run, budgets[0])]
    if not kept:
        most = max(float(run.compute[-1]) for run in runs)
        rule = f"no run has come that far: the longest ends at {short(most)}"
        raise SettingError("budget", f"{budgets[0]:g}", rule, f"budget={most:.3g}")
    notes = []
    if early:
        lost = Note(kind="short", count=len(early), example=early[0].name, value=budgets[0])
        notes.append(lost)
    planned = [_planned(run, budgets) for run in kept]
    cells = tuple(cell for _, own in planned for cell in own)
    return (
        Plan(
            budget_unit=unit,
            budgets=tuple(sorted({cell.budget for cell in cells})),
            cells=cells,
            runs=tuple(run for run, _ in planned),
            rejected=(),
        ),
        kept,
        notes,
    )


def has_come(run: ForeignRun, budget: float) -> bool:
    """Whether the run was trained to that budget, to the nearest step."""
    return has_reached(budget, float(run.compute[-1]), int(run.steps[-1]))


def run_id(run: ForeignRun) -> str:
    """Its name among the runs: what it is, and a hash of all that was read of it."""
    sizes = f"n{run.num_generations}-b{run.problems_per_batch}-s{run.seed}"
    return f"imported-{sizes}-{run.digest[:12]}"


def _planned(run: ForeignRun, budgets: Sequence[float]) -> tuple[PlannedRun, list[Cell]]:
    name = run_id(run)
    past = run.compute > 0
    steps, compute = run.steps[past], run.compute[past]
    begun = [b for b in budgets if b >= compute[0] or sits_at(b, float(compute[0]), int(steps[0]))]
    cells = [_cell(run, name, budget) for budget in begun]
    reached = tuple(budget for budget in begun if has_come(run, budget))
    last = next(cell for cell in reversed(cells) if cell.budget in reached)
    planned = PlannedRun(
        run_id=name,
        num_generations=run.num_generations,
        problems_per_batch=run.problems_per_batch,
        seed=run.seed,
        milestones=reached,
        num_steps=last.num_steps,
    )
    return planned, cells


def _cell(run: ForeignRun, name: str, budget: float) -> Cell:
    past = run.compute > 0
    steps, compute = np.append(0, run.steps[past]), np.append(0.0, run.compute[past])
    cost = float(compute[-1] / steps[-1])
    if budget <= compute[-1]:
        at = max(1, round(float(np.interp(budget, compute, steps))))
        spent = float(np.interp(at, steps, compute))
    else:
        at = steps_for(budget, cost, 1)
        spent = at * cost
    return Cell(
        num_generations=run.num_generations,
        problems_per_batch=run.problems_per_batch,
        num_steps=at,
        seed=run.seed,
        budget=budget,
        planned_compute=spent,
        run_id=name,
    )


def further_plan(plan: Plan, generations: Iterable[int], seeds: int) -> Plan:
    """The plan with all its runs to its last budget, `seeds` further seeds, and further n.

    What a rollout costs is the median of the plan's own runs.
    """
    costs = [c.cost_of_step / (c.num_generations * c.problems_per_batch) for c in plan.cells]
    cost = float(np.median(costs))
    own = {(r.num_generations, r.problems_per_batch, r.seed): r for r in plan.runs}
    known = sorted({run.seed for run in plan.runs})
    every = [*known, *range(known[-1] + 1, known[-1] + 1 + seeds)]
    grid = sorted({run.num_generations for run in plan.runs} | set(generations))
    cells, runs = [], []
    for n in grid:
        for B in sorted({run.problems_per_batch for run in plan.runs}):
            for seed in every:
                name = f"new-n{n}-b{B}-s{seed}"
                if (run := own.get((n, B, seed))) is not None:
                    name = run.run_id
                mine = [_further_cell(name, n, B, seed, budget, cost) for budget in plan.budgets]
                cells += mine
                runs.append(
                    PlannedRun(
                        run_id=name,
                        num_generations=n,
                        problems_per_batch=B,
                        seed=seed,
                        milestones=plan.budgets,
                        num_steps=mine[-1].num_steps,
                    )
                )
    return replace(plan, cells=tuple(cells), runs=tuple(runs))


def _further_cell(name: str, n: int, B: int, seed: int, budget: float, cost: float) -> Cell:
    steps = steps_for(budget, cost * n * B, 1)
    return Cell(
        num_generations=n,
        problems_per_batch=B,
        num_steps=steps,
        seed=seed,
        budget=budget,
        planned_compute=steps * cost * n * B,
        run_id=name,
    )
