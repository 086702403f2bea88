"""What MLflow says of a sweep once it is analysed: read off the analysis's files."""

import csv
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.files import JsonObject
from isosweep.modes.display_search import (
    as_searched,
    stopped_runs,
    stored_search,
)
from isosweep.modes.sweeps import StoredSweep
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.tally import Tally
from isosweep.store.attempts import newest
from isosweep.store.paths import SweepPaths
from isosweep.words import tracking as words
from isosweep.words.numbers import amount, tally

if TYPE_CHECKING:
    from isosweep.analysis.answer import Answer
    from isosweep.tracking.tracker import Overview

# Values of `grid.axes`, where their analysis lies, and its answer.json.
_Known = list[tuple[dict[str, Any], SweepPaths, "Answer"]]


def sweep_overview(sweep: StoredSweep) -> "Overview":
    """Verdicts, rewards at the budgets, and files; of the search alone where the analysis was asked
    for another metric, set or method than the sweep's own."""
    from isosweep.analysis.answer import read_answer
    from isosweep.tracking.tracker import Overview

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    search = stored_search(sweep)
    tags, stopped = defaultdict[str | None, dict[str, str]](dict), stopped_runs(search)
    if search is not None and search["decision"] is not None:
        tags[None]["search/stopped"] = search["decision"]["stop"] or ""
    if config.analysis.view({}):
        return Overview(tags=tags, stopped=stopped, files=_drawn(paths))
    known: _Known = []
    frontier: set[str] = set()
    for axes in plan.axes:
        view = replace(paths, view=config.analysis.view(axes))
        if (answer := read_answer(view.answer)) is not None:
            known.append((axes, view, answer))
            frontier |= _best_runs(answer, plan.of_axes(axes))
    for axes, _, _ in known:
        for run in plan.of_axes(axes).runs:
            tags[run.run_id]["on_frontier"] = str(run.run_id in frontier).lower()
    tags[None] |= _verdict_tags([answer for _, _, answer in known])
    tags[None]["runs"] = _counted(sweep, search)
    notes: list[str] = []
    for axes, _, answer in known:
        notes += words.answer(answer, variant_label(axes))
    if len(known) != 1:
        # What variants say of themselves does not add up to it: they share runs.
        notes.append(_spent(plan, paths))
    metrics: dict[str, dict[str, float]] = {}
    for _, view, _ in known:
        _add_readings(metrics, tags, view, plan)
    found = [view.answer for _, view, _ in known]
    tables = (paths.frontier, paths.table("choices"))
    files = (paths.plan_page, paths.config, *tables, *found[:1])
    return Overview(
        note="\n\n".join([*notes, f"Report: `{paths.report}`"]),
        tags=tags,
        metrics=metrics,
        unix_time=max((path.stat().st_mtime for path in found), default=0.0),
        files=(*_drawn(paths), *((path, "") for path in files if path.exists())),
        collapsed=sweep.collapsed(),
        stopped=stopped,
    )


def _drawn(paths: SweepPaths) -> tuple[tuple[Path, str], ...]:
    """The report, and figures, each with its folder: `figures`, and in it the variant of
    `grid.axes` if the sweep has several."""
    drawn = [(paths.report, "")] if paths.report.exists() else []
    for figure in sorted(paths.analysis.rglob("*.png")):
        if not figure.stem.endswith("-dark"):
            variant = figure.parent.parent.relative_to(paths.analysis)
            drawn.append((figure, str(Path("figures", variant))))
    return tuple(drawn)


def _best_runs(answer: "Answer", plan: Plan) -> set[str]:
    """The runs of the best (n, B) at one of the plan's budgets."""
    best = {
        (at.best.num_generations, at.best.problems_per_batch)
        for at in answer.generations
        if at.budget in plan.budgets
    }
    return {r.run_id for r in plan.runs if (r.num_generations, r.problems_per_batch) in best}


def _verdict_tags(answers: "list[Answer]") -> dict[str, str]:
    """Of several variants their words, in the order of `grid.axes`."""
    uses = [answer.use for answer in answers]
    optima = [use.optimum if use else None for use in uses]
    columns: dict[str, list[str]] = {
        "verdict": [answer.verdict for answer in answers],
        "best_n": [str(use.num_generations) if use else "" for use in uses],
        "n_star": [at.words if at else "" for at in optima],
        "n_d": [at.enough.words if at and at.enough else "" for at in optima],
        "best_B": [str(use.problems_per_batch) if use else "" for use in uses],
    }
    return {key: ", ".join(values) for key, values in columns.items() if any(values)}


def _counted(sweep: StoredSweep, search: JsonObject | None) -> str:
    """How many runs stand how, as every other surface has it."""
    runs = {name: as_searched(each, search) for name, each in sweep.standing().runs.items()}
    counted = Tally.of(runs, sweep.collapsed())
    return tally(counted.counts, counted.collapsed)


def _spent(plan: Plan, paths: SweepPaths) -> str:
    attempts = [newest(paths.run(run.run_id)) for run in plan.runs]
    begun = [each.compute for each in attempts if each is not None and each.begun]
    spent = sum(compute.spent(plan.budget_unit) for compute in begun)
    hours = sum(compute.device_seconds for compute in begun) / 3600
    unit, pricing = plan.budget_unit, plan.pricing
    return words.spent(len(begun), len(plan.runs), spent, unit, hours, pricing)


def _add_readings(
    metrics: dict[str, dict[str, float]],
    tags: dict[str | None, dict[str, str]],
    view: SweepPaths,
    plan: Plan,
) -> None:
    """Add each run's reward at the plan's budgets, and the compute at which it collapsed."""
    from isosweep.tracking.points import budget_metric, rounded

    names = {rounded(budget): budget_metric(budget, plan.budgets) for budget in plan.budgets}
    collapsed: dict[str, float] = {}
    with view.frontier.open(newline="") as file:
        for row in csv.DictReader(file):
            run_id, budget = row["run_id"], float(row["budget"])
            if row["reward"]:
                if name := names.get(rounded(budget)):
                    metrics.setdefault(run_id, {})[name] = rounded(float(row["reward"]))
                collapsed.setdefault(run_id, math.inf)
            elif row["reading"] == "collapsed":
                collapsed[run_id] = min(budget, collapsed.get(run_id, budget))
    for run_id, budget in collapsed.items():
        # Said of all that were read: one that is trained further may have recovered.
        fell = budget < math.inf
        tags[run_id]["collapsed"] = f"by {amount(budget, plan.budget_unit)}" if fell else "no"
