"""What MLflow says of a sweep once it is analysed: read off the analysis's files."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isosweep import words
from isosweep.config.identity import identity
from isosweep.config.task import TaskConfig
from isosweep.files import JsonObject, read_json
from isosweep.modes.directory import StoredSweep
from isosweep.modes.display_search import (
    as_searched,
    stopped_runs,
    stored_search,
    trial_tags,
)
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.tally import Tally
from isosweep.store.paths import SweepPaths
from isosweep.store.state import view_run
from isosweep.words.numbers import amount

if TYPE_CHECKING:
    from isosweep.tracking.overview import Overview, Problems, Table

# Of the figures, the one that says most at a glance.
_FIGURE = "reward.png"
# Columns of choices.csv that its table in MLflow has.
_SHOWN = (
    *("budget", "n", "expected", "low", "high", "probability_best", "loss_upper", "may_be_best"),
    *("B", "T", "seeds", "fallen"),
)
# Values of `grid.axes`, where their analysis lies, and its answer.json.
_Known = list[tuple[dict[str, Any], SweepPaths, JsonObject]]


def sweep_overview(sweep: StoredSweep) -> "Overview":
    """Verdicts, rewards at the budgets, tables and files; of the search alone where the analysis
    was asked for another metric, set or method than the sweep's own."""
    from isosweep.tracking.overview import Overview

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    search = stored_search(sweep)
    tags, stopped = trial_tags(search, plan), stopped_runs(search)
    if config.analysis.view({}):
        return Overview(tags=tags, stopped=stopped)
    known: _Known = []
    frontier: set[str] = set()
    for axes in plan.axes:
        view = replace(paths, view=config.analysis.view(axes))
        if (answer := read_json(view.answer)) is not None:
            known.append((axes, view, answer))
            frontier |= _best_runs(answer, plan.of_axes(axes))
    for axes, _, _ in known:
        for run in plan.of_axes(axes).runs:
            tags[run.run_id]["on_frontier"] = str(run.run_id in frontier).lower()
    tags[None] |= _verdict_tags([answer for _, _, answer in known])
    tags[None]["runs"] = _counted(sweep, search)
    notes: list[str] = []
    for axes, _, answer in known:
        notes += words.lines("mlflow", "answer", variant_label(axes), answer)
    if len(known) != 1:
        # What variants say of themselves does not add up to it: they share runs.
        notes.append(_spent(plan, paths))
    metrics: dict[str, dict[str, float]] = {}
    run_notes: dict[str, str] = {}
    for _, view, _ in known:
        run_notes |= _add_readings(metrics, tags, view, plan)
    figure = paths.figures / _FIGURE
    found = [view.fits for _, view, _ in known]
    files = (paths.plan_page, paths.config, *found[:1])
    return Overview(
        note="\n\n".join([*notes, f"Report: `{paths.report}`"]),
        notes=run_notes,
        figure=figure if figure.exists() else None,
        tags=tags,
        metrics=metrics,
        unix_time=max((path.stat().st_mtime for path in found), default=0.0),
        tables=_tables(known, plan.budgets),
        files=tuple(path for path in files if path.exists()),
        problems=_problems(config.task),
        collapsed=sweep.collapsed(),
        stopped=stopped,
    )


def _best_runs(answer: JsonObject, plan: Plan) -> set[str]:
    """The runs of the best (n, B) at one of the plan's budgets."""
    best = {
        (at["best"]["num_generations"], at["best"]["problems_per_batch"])
        for at in answer["generations"]
        if at["budget"] in plan.budgets
    }
    return {r.run_id for r in plan.runs if (r.num_generations, r.problems_per_batch) in best}


def _verdict_tags(answers: list[JsonObject]) -> dict[str, str]:
    """Of several variants their words, in the order of `grid.axes`."""
    use = [answer["use"] or {} for answer in answers]
    columns = {
        "verdict": [answer["verdict"] for answer in answers],
        "best_n": [str(each.get("num_generations", "")) for each in use],
        "n_star": [_range(each.get("optimum"), "optimum") for each in use],
        "n_d": [_range((each.get("optimum") or {}).get("enough"), "within") for each in use],
        "best_B": [str(each.get("problems_per_batch", "")) for each in use],
    }
    return {key: ", ".join(values) for key, values in columns.items() if any(values)}


def _range(at: JsonObject | None, macro: str) -> str:
    """An n with its interval, as every other surface has it."""
    return words.line("numbers", macro, at) if at else ""


def _counted(sweep: StoredSweep, search: JsonObject | None) -> str:
    """How many runs stand how, as every other surface has it."""
    runs = {name: as_searched(each, search) for name, each in sweep.standing().runs.items()}
    tally = Tally.of(runs, sweep.collapsed())
    return words.line("numbers", "tally", tally.counts, tally.collapsed)


def _spent(plan: Plan, paths: SweepPaths) -> str:
    states = [view_run(paths.run(run.run_id)).state for run in plan.runs]
    begun = [state.compute for state in states if state is not None]
    spent = sum(compute.spent(plan.budget_unit) for compute in begun)
    hours = sum(compute.device_seconds for compute in begun) / 3600
    unit, pricing = plan.budget_unit, plan.pricing
    return words.line("mlflow", "spent", len(begun), len(plan.runs), spent, unit, hours, pricing)


def _add_readings(
    metrics: dict[str, dict[str, float]],
    tags: dict[str | None, dict[str, str]],
    view: SweepPaths,
    plan: Plan,
) -> dict[str, str]:
    """What was read of each run: its reward at the plan's budgets, and by which compute it had
    collapsed, which is its description too."""
    from isosweep.tracking.view import budget_metric

    names = {_rounded(budget): budget_metric(budget, plan.budgets) for budget in plan.budgets}
    collapsed: dict[str, float] = {}
    with view.frontier.open(newline="") as file:
        for row in csv.DictReader(file):
            run_id, budget = row["run_id"], float(row["budget"])
            if row["reward"]:
                if name := names.get(_rounded(budget)):
                    metrics.setdefault(run_id, {})[name] = _rounded(float(row["reward"]))
                collapsed.setdefault(run_id, math.inf)
            elif row["reading"] == "collapsed":
                collapsed[run_id] = min(budget, collapsed.get(run_id, budget))
    notes = {}
    for run_id, budget in collapsed.items():
        # Said of all that were read: one that is trained further may have recovered.
        fell, unit = budget < math.inf, plan.budget_unit
        tags[run_id]["collapsed"] = f"by {amount(budget, unit)}" if fell else "no"
        notes[run_id] = words.line("mlflow", "collapsed", budget, unit) if fell else ""
    return notes


def _rounded(number: float) -> float:
    """To the four digits that a page shows."""
    return float(f"{number:.4g}")


def _tables(known: _Known, budgets: Sequence[float]) -> "dict[str, Table]":
    """Cells and frontier; of several variants each under its label."""
    tables = {}
    for axes, view, _ in known:
        label = f"-{variant_label(axes).replace(' ', '-').replace('/', '_')}" if axes else ""
        tables[f"cells{label}"] = _table(view, "frontier")
        tables[f"frontier{label}"] = _at_budgets(_table(view, "choices"), budgets)
    return tables


def _table(view: SweepPaths, name: str) -> "Table":
    from isosweep.tracking.overview import Table

    with view.table(name).open(newline="") as file:
        head, *rows = csv.reader(file)
    return Table(columns=head, rows=[[_cell(text) for text in row] for row in rows])


def _cell(text: str) -> str | float | None:
    try:
        return _rounded(float(text)) if text else None
    except ValueError:
        return text


def _at_budgets(table: "Table", budgets: Sequence[float]) -> "Table":
    """Its rows at `budgets`, the largest first, and the columns that say most: the page has room
    for a dozen of each. All rows where they are in another unit."""
    order = [table.columns.index(name) for name in _SHOWN]
    rows = [[row[i] for i in order] for row in table.rows]
    asked = [row for row in rows if row[0] in [_rounded(budget) for budget in budgets]]
    kept = sorted(asked or rows, key=lambda row: -float(row[0] or 0))
    return replace(table, columns=_SHOWN, rows=kept)


def _problems(task: TaskConfig) -> "tuple[Problems, ...]":
    """Of the sweep's own task: a variant of `grid.axes` may have another."""
    from isosweep.tracking.overview import Problems

    source = identity(task)
    return (
        Problems(f"{task.name} to train on", "training", task.num_train_problems, source),
        Problems(f"{task.name} held out", "evaluation", task.num_eval_problems, source),
    )
