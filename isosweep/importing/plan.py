"""The plan of runs that were trained elsewhere: budgets they passed, and cells there. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Any

import numpy as np

from isosweep.compute import BudgetUnit, has_reached, sits_at
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError
from isosweep.evidence import MIN_GENERATIONS
from isosweep.importing.runs import ForeignRun
from isosweep.plan.cells import Cell, Plan, PlannedRun
from isosweep.plan.document import Note
from isosweep.words.numbers import short

# Budgets of a ladder in a factor of ten, and at least.
_PER_DECADE, _FEWEST = 4, 3
# A budget is to be one that at least so many n were trained to. Runs that end at this share of it
# or later were to end there: the last budget is what the shortest of them has spent.
_N, _ALIKE = 2, 0.9
# Half a decade: between records further apart nothing is read, and an n that ends so far before
# those that a verdict takes does not end the budgets.
_FAR = 10**0.5


def ladder(runs: Sequence[ForeignRun]) -> tuple[float, ...]:
    """Budgets over the range of compute that two n or more were evaluated in, rounded to three
    digits, up to what all n have reached that are not far behind; none lies in a gap between
    records.

    Raises SettingError where no two n can be read at the same compute.
    """
    begins, ends = dict[int, float](), dict[int, float]()
    for run in runs:
        n, compute = run.num_generations, run.compute[run.compute > 0]
        begins[n] = min(float(compute[0]), begins.get(n, math.inf))
        ends[n] = max(float(compute[-1]), ends.get(n, 0.0))
    if len(ends) < _N:
        rule = f"every run has n={n}, and the best n shows where several were trained"
        raise SettingError("import.columns.n", n, rule, "runs of another n in the same table")
    first, last = sorted(begins.values()), sorted(ends.values())
    low, enough = first[_N - 1], last[-min(MIN_GENERATIONS, len(last))]
    high = min(end for end in last if end * _FAR >= enough)
    if low >= high:
        # No three n overlap.
        high = last[-_N]
    high = min(end for run in runs if (end := float(run.compute[-1])) >= _ALIKE * high)
    if low >= high:
        rule = f"no two n were evaluated at the same compute: runs of one end at {short(high)}"
        raise SettingError("import.columns.compute", short(low), rule, "runs that overlap")
    rungs = np.geomspace(low, high, max(_FEWEST, 1 + round(_PER_DECADE * math.log10(high / low))))
    # The last is one that runs have reached, so that it is rounded down.
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    rounded = {*(float(f"{rung:.3g}") for rung in rungs[:-1]), math.floor(high / unit) * unit}
    found = _outside_gaps(sorted(float(f"{each:.6g}") for each in rounded), high, runs)
    if not found:
        rule = (
            "no two n can be read at the same compute: some end before others begin, or "
            f"evaluations of a run are more than a factor of {_FAR:.1f} apart"
        )
        raise SettingError("import.columns.compute", short(low), rule, "logs with more evaluations")
    return tuple(found)


def _outside_gaps(rungs: Sequence[float], high: float, runs: Sequence[ForeignRun]) -> list[float]:
    """The rungs that two n can be read at; for one in a gap the nearest record up to `high`, if
    there is no rung near it."""
    records = np.unique(np.concatenate([run.compute[run.compute > 0] for run in runs]))
    records = records[(records >= rungs[0]) & (records <= high)]
    found = [rung for rung in rungs if _is_read(rung, runs)]
    for rung in rungs:
        if rung in found or not len(records):
            continue
        nearest = float(f"{records[np.argmin(np.abs(np.log(records / rung)))]:.6g}")
        apart = min((abs(math.log10(each / nearest)) for each in found), default=math.inf)
        if apart * _PER_DECADE > 1 / 2 and _is_read(nearest, runs):
            found.append(nearest)
    return sorted(found)


def _is_read(budget: float, runs: Iterable[ForeignRun]) -> bool:
    """Whether two n have a run with a record at the budget, or with two about it that are near
    each other."""
    return len({run.num_generations for run in runs if _reads(run, budget)}) >= _N


def _reads(run: ForeignRun, budget: float) -> bool:
    past = run.compute > 0
    steps, compute = run.steps[past], run.compute[past]
    after = int(np.searchsorted(compute, budget))
    about = range(max(after - 1, 0), min(after + 1, len(compute)))
    if any(sits_at(budget, float(compute[k]), int(steps[k])) for k in about):
        return True
    return 0 < after < len(compute) and bool(compute[after] <= _FAR * compute[after - 1])


def _behind(runs: Sequence[ForeignRun], last: float, chosen: bool) -> list[Note]:
    """Which n and B end before the last budget, or at it while others go on. `chosen`: the budgets
    are the user's."""
    ends: dict[tuple[int, int], float] = {}
    for run in runs:
        pair = run.problems_per_batch, run.num_generations
        reached = last if has_come(run, last) else 0.0
        ends[pair] = max(ends.get(pair, 0.0), float(run.compute[-1]), reached)
    furthest = max(ends.values())
    short_of = [pair for pair, end in ends.items() if end < last]
    at_end = [pair for pair, end in ends.items() if last <= end < last / _ALIKE]
    further = at_end if not chosen and furthest >= last / _ALIKE else []
    return [
        Note(kind=kind, count=len(pairs), example=_pairs(pairs), value=value)
        for kind, pairs, value in (("behind", short_of, last), ("further", further, furthest))
        if pairs
    ]


def _pairs(pairs: Iterable[tuple[int, int]]) -> str:
    by_B = groupby(sorted(pairs), key=lambda pair: pair[0])
    return ", ".join(f"n = {', '.join(str(n) for _, n in own)} (B = {B})" for B, own in by_B)


def imported_plan(
    runs: Sequence[ForeignRun], unit: BudgetUnit, asked: Sequence[float] | None
) -> tuple[Plan, list[ForeignRun], list[Note]]:
    """The plan, the runs that it is of, and which runs have no record that reaches a budget.

    Its cells are those of every run at every budget from its first evaluation on: a run that ended
    before one is missing there, as one that was never finished is. `asked`: None for a ladder.
    """
    budgets = tuple(asked) if asked else ladder(runs)
    planned = [(run, *_planned(run, budgets)) for run in runs]
    kept = [(run, made, cells) for run, made, cells in planned if made.milestones]
    if not kept:
        most = max(float(run.compute[-1]) for run in runs)
        rule = f"no run has come that far: the longest ends at {short(most)}"
        raise SettingError("budget", f"{budgets[0]:g}", rule, f"budget={most:.3g}")
    notes = []
    if early := [run for run, made, _ in planned if not made.milestones]:
        example = early[0].name
        notes.append(Note(kind="short", count=len(early), example=example, value=budgets[0]))
    own = [run for run, _, _ in kept]
    cells = tuple(cell for _, _, cells in kept for cell in cells)
    plan = Plan(
        budget_unit=unit,
        budgets=tuple(sorted({cell.budget for cell in cells})),
        cells=cells,
        runs=tuple(made for _, made, _ in kept),
        rejected=(),
    )
    return plan, own, [*notes, *_behind(own, budgets[-1], bool(asked))]


def has_come(run: ForeignRun, budget: float) -> bool:
    """Whether the run was trained to that budget, to the nearest step."""
    return has_reached(budget, float(run.compute[-1]), int(run.steps[-1]))


def run_id(run: ForeignRun) -> str:
    """Its name among the runs: what it is, and a hash of all that was read of it."""
    sizes = f"n{run.num_generations}-b{run.problems_per_batch}-s{run.seed}"
    return f"imported-{sizes}-{run.digest[:12]}"


def _planned(run: ForeignRun, budgets: Sequence[float]) -> tuple[PlannedRun, list[Cell]]:
    """The run with the budgets that it was trained to, and cells from its first evaluation on."""
    past = run.compute > 0
    steps, compute = np.append(0, run.steps[past]), np.append(0.0, run.compute[past])
    cost = float(compute[-1] / steps[-1])
    shared: dict[str, Any] = {
        "num_generations": run.num_generations,
        "problems_per_batch": run.problems_per_batch,
        "seed": run.seed,
        "axes": run.axes,
        "run_id": run_id(run),
    }
    cells = []
    for budget in budgets:
        if budget < compute[1] and not sits_at(budget, float(compute[1]), int(steps[1])):
            continue
        if budget <= compute[-1]:
            at = max(1, round(float(np.interp(budget, compute, steps))))
            spent = float(np.interp(at, steps, compute))
        else:
            at = steps_for(budget, cost, 1)
            spent = at * cost
        cells.append(Cell(**shared, num_steps=at, budget=budget, planned_compute=spent))
    reached = [cell for cell in cells if has_come(run, cell.budget)]
    milestones = tuple(cell.budget for cell in reached)
    num_steps = reached[-1].num_steps if reached else 0
    return PlannedRun(**shared, milestones=milestones, num_steps=num_steps), cells


def further_plan(plan: Plan, generations: Iterable[int], seeds: int) -> Plan:
    """The plan with all its runs to its last budget, `seeds` further seeds, and further n.

    What a rollout costs is the median of the runs with the same axes.
    """
    cells, runs = [], []
    for number, axes in enumerate(plan.axes):
        part = plan.of_axes(axes)
        cost = np.median(
            [c.cost_of_step / (c.num_generations * c.problems_per_batch) for c in part.cells]
        )
        own = {(r.num_generations, r.problems_per_batch, r.seed): r.run_id for r in part.runs}
        grid, batches, known = (sorted(set(each)) for each in zip(*own, strict=True))
        every = [*known, *range(known[-1] + 1, known[-1] + 1 + seeds)]
        for n, B, seed in product(sorted({*grid, *generations}), batches, every):
            shared: dict[str, Any] = {
                "num_generations": n,
                "problems_per_batch": B,
                "seed": seed,
                "axes": axes,
                "run_id": own.get((n, B, seed), f"new{number or ''}-n{n}-b{B}-s{seed}"),
            }
            of_step = float(cost * n * B)
            steps = [steps_for(budget, of_step, 1) for budget in plan.budgets]
            cells += [
                Cell(**shared, num_steps=at, budget=budget, planned_compute=at * of_step)
                for budget, at in zip(plan.budgets, steps, strict=True)
            ]
            runs.append(PlannedRun(**shared, milestones=plan.budgets, num_steps=steps[-1]))
    return replace(plan, cells=tuple(cells), runs=tuple(runs))
