"""What the terminal shows of a search: what it may cost, what it has asked for, and why."""

import json
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject
from isosweep.modes.sweeps import StoredSweep
from isosweep.modes.terminal import warn
from isosweep.plan.cells import Plan
from isosweep.plan.tally import Standing
from isosweep.words import status as words
from isosweep.words.numbers import short
from isosweep.words.plan import search as described
from isosweep.words.plan import search_cost

if TYPE_CHECKING:
    from isosweep.analysis.course import Course
    from isosweep.modes.observed import ObservedRun


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
        return read_search(sweep.plan, sweep.paths)
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


def described_plan(plan: Plan, config: SweepConfig) -> list[str]:
    """Lines on what a search may train of the plan, and what that has cost in simulated sweeps;
    none without a search."""
    search, unit = config.search, plan.budget_unit
    if not search.searches:
        return []
    whole = sum(run.milestones[-1] for run in plan.runs)
    lines = [described(search.name, search.max_compute, whole, unit)]
    if search.name == "frontier":
        # As benchmarks/search.py has measured it.
        text = files("isosweep.search").joinpath("expected.json").read_text(encoding="utf-8")
        lines.append(search_cost(json.loads(text)))
    return lines


def described_step(step: JsonObject, plan: Plan) -> str:
    """A phrase: how far which run goes, the value expected of that, and why."""
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
