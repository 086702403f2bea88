"""What the terminal shows of a search: what it may cost, what it has asked for, and why."""

import json
from collections import defaultdict
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep
from isosweep.modes.terminal import warn
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.tally import Standing
from isosweep.words import status as words
from isosweep.words.numbers import short
from isosweep.words.plan import search_cost, search_limit

if TYPE_CHECKING:
    from isosweep.analysis.course import Course
    from isosweep.modes.observed import ObservedRun

# Steps that were not chosen, of those that the newest decision considered.
_SHOWN = 3


def stored_course(sweep: StoredSweep) -> "Course | None":
    """What the sweep's search asked for, and what was known then; None without one."""
    document = stored_search(sweep)
    if document is None:
        return None
    from isosweep.analysis.course import read_course

    over = stopped_runs(document) is not None
    return read_course(list(document["trials"].items()), over=over)


def stored_search(sweep: StoredSweep, console: Console | None = None) -> JsonObject | None:
    """Return what the sweep's search has written down, as `read_search` does; None without a search
    and where it cannot be read, which `console` is told."""
    if not sweep.config.search.searches:
        return None
    from isosweep.search.study import read_search

    try:
        return read_search(sweep.plan, sweep.paths, sweep.config.search)
    except SettingError as error:
        if console is not None:
            warn(console, f"the runs that the search chose are not known: {error}")
        return None


def stopped_runs(document: JsonObject | None) -> frozenset[str] | None:
    """The runs of a search that has ended; None while it goes on; `document`: as in `as_asked`."""
    over = as_searched(Standing.TO_EXTEND, document) is Standing.STOPPED
    return frozenset(document["trials"]) if over and document else None


def as_searched(standing: Standing, document: JsonObject | None) -> Standing:
    """How a run stands that a search may have ended with; `document`: as in `as_asked`."""
    decision = document and document["decision"]
    over = decision and decision["stop"] is not None and not (document and document["open"])
    return Standing.STOPPED if over and standing is Standing.TO_EXTEND else standing


def trial_tags(document: JsonObject | None, plan: Plan) -> dict[str | None, dict[str, str]]:
    """What a tracker says of the search's trials, by run id, and of the whole search by None."""
    tags: dict[str | None, dict[str, str]] = defaultdict(dict)
    if document is None:
        return tags
    # Each decision was made at a compute of its own.
    decisions = set[float | None]()
    for run_id, trial in document["trials"].items():
        decisions.update(step["known"].get("compute") for step in trial["steps"])
        tags[run_id] = {
            "search/state": trial["state"],
            "search/steps": str(len(trial["steps"])),
            "search/value": f"{sum(step['value'] for step in trial['steps']):.4g}",
            "search/ended": trial["ended"] or "",
        }
    decision = document["decision"] or {"stop": None, "known": {}}
    whole = sum(run.milestones[-1] for run in plan.runs)
    share = decision["known"].get("compute", 0.0) / whole
    tags[None] = {
        "search/stopped": decision["stop"] or "",
        "search/share_of_grid": f"{share:.3f}",
        "search/decisions": str(len(decisions - {None})),
    }
    return tags


def described_plan(plan: Plan, config: SweepConfig) -> list[str]:
    """Lines on what a search may train of the plan, and may cost; none without a search."""
    search, unit = config.search, plan.budget_unit
    whole = sum(run.milestones[-1] for run in plan.runs)
    if not search.searches:
        return []
    lines = [search_limit(search.name, search.max_compute, whole, unit)]
    if search.kind == "frontier":
        lines.append(_cost(plan, config, whole))
    return lines


def expected_cost() -> JsonObject:
    """Of so many simulated `sweeps`, the shares of the grid's compute that searches spent: `low`
    and `high` ends of the range, and `median`, as benchmarks/search.py has measured them."""
    text = files("isosweep.search").joinpath("expected.json").read_text(encoding="utf-8")
    document = json.loads(text)
    return {"sweeps": document["sweeps"], **document["share"]}


def _cost(plan: Plan, config: SweepConfig, whole: float) -> str:
    """What a search may cost of this plan, by what it has cost in simulated sweeps."""
    limit = config.search.max_compute
    most = 1.0 if limit is None else min(1.0, limit / whole)
    hours = sum(predicted(run.seconds) for run in plan.runs) * config.devices_taken / 3600
    numbers = expected_cost(), most, whole, hours
    return search_cost(*numbers, plan.budget_unit, plan.pricing)


def described_search(plan: Plan, document: JsonObject) -> list[str]:
    """What `read_search` has, in lines: how much was asked for, the newest decision, and why."""
    decision = document["decision"] or {"steps": [], "considered": []}
    chosen = [(step["run_id"], step["milestone"]) for step in decision["steps"]]
    others = [s for s in decision["considered"] if (s["run_id"], s["milestone"]) not in chosen]
    lines = [words.search(document, len(plan.runs))]
    lines += [f"  {described_step(step, plan)}" for step in decision["steps"]]
    if others:
        lines.append("also considered:")
        lines += [f"  {described_step(step, plan)}" for step in others[:_SHOWN]]
    return lines


def described_step(step: JsonObject, plan: Plan) -> str:
    """One line: how far which run goes, the value expected of that, and why."""
    labels = {run.run_id: run.label for run in plan.runs}
    return words.step(step, labels, plan.budget_unit)


def as_asked(seen: "ObservedRun", document: JsonObject | None) -> "ObservedRun":
    """Return a run at rest with a note on what the search has asked of it; `document`: as
    `stored_search` returns it."""
    if document is None or seen.note:
        return seen
    asked = document["asked"].get(seen.run.run_id)
    note = "" if asked is None else f"chosen up to {short(asked)}"
    if asked is None and seen.standing is Standing.NOT_BEGUN:
        note = "not chosen"
    return replace(seen, standing=as_searched(seen.standing, document), note=note)
