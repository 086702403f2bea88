"""What MLflow says of a sweep once it is analysed: read off the analysis's files."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isosweep.config.identity import identity
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.files import JsonObject, read_json
from isosweep.modes.display_search import (
    as_searched,
    search_document,
    stopped_runs,
    trial_tags,
)
from isosweep.modes.look import collapsed_runs
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.standing import standing
from isosweep.plan.tally import Tally
from isosweep.store.paths import SweepPaths
from isosweep.store.state import view_run

if TYPE_CHECKING:
    from isosweep.tracking.overview import Overview, Problems, Table

# Of the figures, the one that says most at a glance.
_FIGURE = "reward.png"
# Columns of choices.csv that its table in MLflow has.
_SHOWN = (
    *("budget", "n", "expected", "low", "high", "probability_best", "loss_upper", "may_be_best"),
    *("B", "T", "seeds", "fallen"),
)
# Values of `grid.axes`, where their analysis lies, and its fits.json.
_Known = list[tuple[dict[str, Any], SweepPaths, JsonObject]]


def sweep_overview(config: SweepConfig, plan: Plan, paths: SweepPaths) -> "Overview":
    """Verdicts, rewards at the budgets, tables and files; of the search alone where the analysis
    was asked for another metric, set or method than the sweep's own."""
    from isosweep.tracking.overview import Overview

    search = search_document(config, plan, paths)
    tags, stopped = trial_tags(search, plan), stopped_runs(search)
    if config.analysis.view({}):
        return Overview(tags=tags, stopped=stopped)
    known: _Known = []
    frontier: set[str] = set()
    for axes in plan.axes:
        view = replace(paths, view=config.analysis.view(axes))
        if (fits := read_json(view.fits)) is not None:
            known.append((axes, view, fits))
            frontier |= _best_runs(fits, plan.of_axes(axes))
    read = {run.run_id for axes, _, _ in known for run in plan.of_axes(axes).runs}
    for run_id in read:
        told = {"on_frontier": str(run_id in frontier).lower()}
        tags[run_id] = tags.get(run_id, {}) | told
    tags[None] = tags.get(None, {}) | _verdict_tags([fits for _, _, fits in known])
    tags[None]["runs"] = _counted(config, plan, paths, search)
    tuning = read_json(paths.tuning) if config.search.kind == "tune" else None
    if tuning is not None and (handed := _handed(tuning)):
        tags[None] |= {"verdict": handed}
    notes = _notes(known) if tuning is None else _tuned_notes(tuning)
    if len(known) != 1 or tuning is not None:
        # What variants say of themselves does not add up to it: they share runs.
        notes.append(_spent(plan, paths))
    metrics: dict[str, dict[str, float]] = {}
    for _, view, _ in known:
        _add_readings(metrics, tags, view, plan)
    figure = paths.figures / _FIGURE
    read_of = [view.fits for _, view, _ in known]
    found = [*read_of, *([] if tuning is None else [paths.tuning])]
    files = (paths.plan_page, paths.config, *found[:1])
    return Overview(
        note="\n\n".join([*notes, f"Report: `{paths.report}`"]),
        figure=figure if figure.exists() else None,
        tags=tags,
        metrics=metrics,
        unix_time=max((path.stat().st_mtime for path in found), default=0.0),
        tables=_tables(known, plan.budgets),
        files=tuple(path for path in files if path.exists()),
        problems=_problems(config.task),
        stopped=stopped,
    )


def _counted(config: SweepConfig, plan: Plan, paths: SweepPaths, search: JsonObject | None) -> str:
    """How many runs stand how, as every other surface has it."""
    found = standing(plan, paths.run, config.health.stop).runs
    runs = {name: as_searched(each, search) for name, each in found.items()}
    return Tally.of(runs, collapsed_runs(config, plan, paths)).words()


def _problems(task: TaskConfig) -> "tuple[Problems, ...]":
    """Of the sweep's own task: a variant of `grid.axes` may have another."""
    from isosweep.tracking.overview import Problems

    source = identity(task)
    return (
        Problems(f"{task.name} to train on", "training", task.num_train_problems, source),
        Problems(f"{task.name} held out", "evaluation", task.num_eval_problems, source),
    )


def _last(fits: JsonObject) -> JsonObject | None:
    """The frontier at the budget that the answer is of; of a file of before, at the largest."""
    budgets: list[JsonObject] = fits["frontier"]["budgets"]
    of_answer = [at for at in budgets if at["budget"] == fits.get("answered_at")]
    chosen = of_answer or budgets
    return chosen[-1] if chosen else None


def _best_runs(fits: JsonObject, plan: Plan) -> set[str]:
    """The runs of the best (n, B) at one of the plan's budgets."""
    best = {
        (at["best"]["cell"]["num_generations"], at["best"]["cell"]["problems_per_batch"])
        for at in fits["frontier"]["budgets"]
        if at["budget"] in plan.budgets
    }
    return {r.run_id for r in plan.runs if (r.num_generations, r.problems_per_batch) in best}


def _verdict_tags(documents: list[JsonObject]) -> dict[str, str]:
    """Of several variants their words, in the order of `grid.axes`."""
    ends = [at["best"]["cell"] if (at := _last(fits)) else {} for fits in documents]
    columns = {
        "verdict": [fits["verdict"] for fits in documents],
        "best_n": [str(end.get("num_generations", "")) for end in ends],
        "best_B": [str(end.get("problems_per_batch", "")) for end in ends],
    }
    return {key: ", ".join(values) for key, values in columns.items() if any(values)}


def _notes(known: _Known) -> list[str]:
    """A part for each variant."""
    notes = []
    for axes, _, fits in known:
        label = variant_label(axes)
        heading = f"**{label + ': ' if label else ''}{fits['verdict']}.** {fits['reason']}"
        # A file of an earlier version has none.
        notes += [heading, "\n".join(_line(fact) for fact in fits.get("answer", []))]
    return notes


def _line(fact: JsonObject) -> str:
    detail = f"; {fact['detail']}" if fact["detail"] else ""
    # An interval before brackets would be a link.
    return f"- {fact['term']}: **{fact['answer'].rstrip('.')}**{detail}".replace("[", "\\[")


def _handed(tuning: JsonObject) -> str:
    """What tuning found for the grid, as it is typed; empty where that is nothing."""
    return " ".join(f"{name}={value}" for name, value in tuning["settings_for_the_grid"].items())


def _tuned_notes(tuning: JsonObject) -> list[str]:
    """What `search=tune` found: a part for each cell, for the rules, and for the grid."""
    notes = [_tuned_at(cell, tuning["unit"]) for cell in tuning["cells"]]
    if not notes:
        return ["**Nothing is tuned yet.** No run has come as far as a budget."]
    rules = tuning["rules"]
    if rules and all(rule["agrees"] is not None for rule in rules):
        agree = " or ".join(rule["rule"] for rule in rules if rule["agrees"])
        none = f"none of {', '.join(rule['rule'] for rule in rules)}"
        notes.append(f"Rules of the rate that agree with both cells: **{agree or none}**.")
    handed = _handed(tuning)
    return [*notes, f"For the grid: `{handed}`" if handed else "Nothing is recommended yet."]


def _tuned_at(cell: JsonObject, unit: str) -> str:
    best = cell["best"]
    values = ", ".join(f"{name} = {value:g}" for name, value in best["values"].items())
    reward = best["mean"] if best["expected"] is None else best["expected"]
    kind = "measured" if best["expected"] is None else "expected"
    return (
        f"**{values}** is best at n = {cell['num_generations']}, B = {cell['problems_per_batch']} "
        f"and {cell['budget']:.4g} {unit}: {kind} reward {reward:.3f}."
    )


def _spent(plan: Plan, paths: SweepPaths) -> str:
    states = [view_run(paths.run(run.run_id)).state for run in plan.runs]
    begun = [state.compute for state in states if state is not None]
    spent = sum(compute.spent(plan.budget_unit) for compute in begun)
    hours = sum(compute.device_seconds for compute in begun) / 3600
    return (
        f"{len(begun)} of {len(plan.runs)} runs have begun and spent {spent:.4g} "
        f"{plan.budget_unit} of training, {hours:.3g} device-hours."
    )


def _add_readings(
    metrics: dict[str, dict[str, float]],
    tags: dict[str | None, dict[str, str]],
    view: SweepPaths,
    plan: Plan,
) -> None:
    """What was read of each run at every budget: its reward, and by which one it had collapsed."""
    from isosweep.tracking.view import budget_metric

    collapsed: dict[str, float] = {}
    with view.frontier.open(newline="") as file:
        for row in csv.DictReader(file):
            run_id, budget = row["run_id"], float(row["budget"])
            if row["reward"]:
                metrics.setdefault(run_id, {})[budget_metric(budget)] = float(row["reward"])
                collapsed.setdefault(run_id, math.inf)
            elif row["reading"] == "collapsed":
                collapsed[run_id] = min(budget, collapsed.get(run_id, budget))
    for run_id, budget in collapsed.items():
        # Said of all that were read: one that is trained further may have recovered.
        by = "no" if budget == math.inf else f"by {_rounded(budget):g} {plan.budget_unit}"
        tags[run_id] = tags.get(run_id, {}) | {"collapsed": by}


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


def _at_budgets(table: "Table", budgets: Sequence[float]) -> "Table":
    """Its rows at `budgets`, the largest first, and the columns that say most: the page has room
    for a dozen of each. All rows where they are in another unit."""
    order = [table.columns.index(name) for name in _SHOWN]
    rows = [[row[i] for i in order] for row in table.rows]
    asked = [row for row in rows if row[0] in [_rounded(budget) for budget in budgets]]
    kept = sorted(asked or rows, key=lambda row: -float(row[0] or 0))
    return replace(table, columns=_SHOWN, rows=kept)


def _cell(text: str) -> str | float | None:
    try:
        return _rounded(float(text)) if text else None
    except ValueError:
        return text


def _rounded(number: float) -> float:
    """To the four digits that a page shows."""
    return float(f"{number:.4g}")
