"""A plan for people and programs: a CSV table, and a page with a map."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isosweep.plan.cells import Cell, Plan, Rejection, predicted
from isosweep.plan.rules import RULES
from isosweep.words.numbers import predicted_time, price_parts

_HERE = Path(__file__).parent
# Where the page's template takes its data.
_PLACEHOLDER = "PLAN_DATA"
_COLUMNS = (
    "status",
    "budget",
    "num_generations",
    "problems_per_batch",
    "num_steps",
    "seed",
    "planned_compute",
    "planned_flops",
    "device_hours",
    "dollars",
    "run_id",
    "rule",
    "reason",
)


def plan_csv(plan: Plan) -> str:
    """One line per candidate, by axes, budget, B, n and seed; write it with `newline=""`.

    `budget` and `planned_compute` are in the plan's budget unit. Every axis has a column of its
    own name. A column that does not apply is blank: costs and run of a rejected candidate (whose
    `num_steps` is the nearest to the budget), rule and reason of a planned one.
    """
    axes = sorted({name for item in _candidates(plan) for name in item.axes})
    text = io.StringIO()
    writer = csv.DictWriter(text, (*_COLUMNS, *axes), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in plan_rows(plan):
        writer.writerow({**row, **_axis_columns(row["axes"])})
    return text.getvalue()


def plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """What `plan_csv` has of every candidate, by field, with its `axes` as one; in that order."""
    return [
        {
            "status": "planned" if isinstance(item, Cell) else "rejected",
            **asdict(item),
            "dollars": plan.pricing.dollars(getattr(item, "device_hours", None)),
        }
        for item in sorted(_candidates(plan), key=_order)
    ]


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What the page says beside its map.

    `devices`: of each run, and its `nodes`; `device_hours` of all runs; `hours` that they take with
    `at_once` at a time; `lines`: what the plan could find, and what evaluation takes; `command`:
    what launches it.
    """

    model: str
    task: str
    hardware: str
    devices: int
    nodes: int
    device_hours: float
    hours: float
    at_once: int
    lines: tuple[str, ...]
    command: str


def plan_page(plan: Plan, title: str, facts: PlanFacts) -> str:
    """One HTML page that needs nothing but itself: the plan as a map of n and B to look through."""
    combinations = {json.dumps(item.axes): item.axes for item in _candidates(plan)}
    broken = {rule for rejection in plan.rejected for rule in rejection.rules}
    data = {
        "title": title,
        **asdict(plan),
        "combinations": sorted(combinations.values(), key=_axes_order),
        "rules": [rule.setting for rule in RULES if rule.setting in broken],
        "totals": {
            "flops": math.fsum(predicted(run.planned_flops) for run in plan.runs),
            "sharing": plan.sharing if plan.cells else None,
            "price": price_parts(facts.device_hours, plan.pricing),
            "time": predicted_time(facts.hours, plan.pricing),
        },
        "facts": asdict(facts),
    }
    # Inside a script element only "<" can end the data or begin a comment.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    template = (_HERE / "page.html").read_text(encoding="utf-8")
    return template.replace(_PLACEHOLDER, text, 1)


def _candidates(plan: Plan) -> tuple[Cell | Rejection, ...]:
    return (*plan.cells, *plan.rejected)


def _order(item: Cell | Rejection) -> tuple[Any, ...]:
    place = (item.budget, item.problems_per_batch, item.num_generations, item.seed)
    return (_axes_order(item.axes), *place)


def _axes_order(axes: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    """A sort key: by name, numbers by size and before words."""
    return [
        (name, value, "") if isinstance(value, int | float) else (name, math.inf, str(value))
        for name, value in sorted(axes.items())
    ]


def _axis_columns(axes: Mapping[str, Any]) -> dict[str, str]:
    """Words as they are, everything else as JSON: a null and a blank differ."""
    return {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in axes.items()
    }
