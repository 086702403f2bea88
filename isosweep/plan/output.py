"""A plan for people and programs: a CSV table, and a page that needs nothing but itself."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from isosweep.plan.cells import Cell, Plan, Rejection, predicted
from isosweep.plan.scheduling import makespan
from isosweep.plan.study import Study
from isosweep.words.numbers import amount, in_hours, predicted_time, price, short, size

_COLUMNS = (
    *("status", "budget", "num_generations", "problems_per_batch", "num_steps", "seed"),
    *("planned_compute", "planned_flops", "device_hours", "dollars", "run_id", "rule", "reason"),
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 1.5em auto; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border: 1px solid #8886; font-weight: normal; }
.facts th, .facts td, .why th, .why td { text-align: left; }
.out { opacity: .6; } code { overflow-wrap: anywhere; } div { overflow-x: auto; }
"""


def plan_csv(plan: Plan) -> str:
    """One line per candidate, by axes, budget, B, n and seed; write it with `newline=""`.

    `budget` and `planned_compute` are in the plan's budget unit. Every axis has a column of its
    own name. A column that does not apply is blank: costs and run of a rejected candidate (whose
    `num_steps` is the nearest to the budget), rule and reason of a planned one.
    """
    rows = list(plan_rows(plan))
    axes = sorted({name for row in rows for name in row["axes"]})
    text = io.StringIO()
    writer = csv.DictWriter(text, (*_COLUMNS, *axes), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        # Words as they are, everything else as JSON: a null and a blank differ.
        values = row["axes"].items()
        own = {name: v if isinstance(v, str) else json.dumps(v) for name, v in values}
        writer.writerow({**row, **own})
    return text.getvalue()


def plan_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """What `plan_csv` has of every candidate, by field, with its `axes` as one; in that order."""
    for axes in plan.axes:
        own = plan.of_axes(axes)
        items: list[Cell | Rejection] = [*own.cells, *own.rejected]
        for item in sorted(items, key=_order):
            hours = getattr(item, "device_hours", None)
            planned = {"status": "planned" if isinstance(item, Cell) else "rejected"}
            yield {**planned, **asdict(item), "dollars": plan.pricing.dollars(hours)}


def _order(item: Cell | Rejection) -> tuple[float, int, int, int]:
    return item.budget, item.problems_per_batch, item.num_generations, item.seed


def plan_page(
    study: Study, title: str, places: int | None, notes: Sequence[str], command: str
) -> str:
    """One HTML page of what is trained, what it takes and could find, and what was rejected.

    `places`: runs at once, None for all; `notes`: sentences about it; `command`: launches it.
    """
    plan, config = study.plan, study.config
    seconds = [predicted(run.seconds) for run in plan.runs]
    hours = makespan(seconds, places or len(seconds)) / 3600
    flops = math.fsum(predicted(run.planned_flops) for run in plan.runs)
    variants = [variant.config for variant in study.variants]
    facts = {
        "model": ", ".join(dict.fromkeys(each.model.name for each in variants)),
        "task": ", ".join(dict.fromkeys(each.task.name for each in variants)),
        "runs": f"{len(plan.runs):,}, for {len(plan.cells):,} cells",
        "devices of a run": f"{config.devices_taken} x {config.hardware.name}",
        f"time, {places or 'all'} runs at once": predicted_time(hours, plan.pricing),
        "device time": price(study.device_hours, plan.pricing),
        "compute": amount(flops, "flops"),
        "saved by sharing runs between budgets": f"{1 - plan.sharing:.0%} of the compute",
        "checkpoints after the end": size(sum(run.checkpoints_kept_bytes for run in plan.runs)),
    }
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(v)}</td></tr>" for name, v in facts.items())
    parts = [f'<div><table class="facts">{"".join(rows)}</table></div>']
    parts += [f"<p>{escape(note[:1].upper() + note[1:])}</p>" for note in notes]
    parts += [f"<p>Launch it: <code>{escape(command)}</code></p>"]
    for axes in plan.axes:
        own = plan.of_axes(axes)
        named = "".join(f", {name} = {value}" for name, value in axes.items())
        for budget in plan.budgets:
            parts += [f"<h2>{escape(amount(budget, plan.budget_unit) + named)}</h2>"]
            parts += [f"<div>{_table(own, budget)}</div>"]
    if plan.rejected:
        parts += ["<h2>Why candidates were rejected</h2>", f"<div>{_rejections(plan)}</div>"]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def _table(plan: Plan, budget: float) -> str:
    """T and device time of a run to this budget by n and B, or the rule that keeps it out."""
    every: list[Cell | Rejection] = [*plan.rejected, *plan.cells]
    items = {
        (item.num_generations, item.problems_per_batch): item
        for item in every
        if item.budget == budget
    }
    batches = sorted({B for _, B in items})
    lines = ["<tr><th>n</th>" + "".join(f"<th>B = {B}</th>" for B in batches) + "</tr>"]
    for n in sorted({n for n, _ in items}):
        cells = "".join(_square(items.get((n, B))) for B in batches)
        lines.append(f"<tr><th>{n}</th>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _square(item: Cell | Rejection | None) -> str:
    if item is None:
        return "<td></td>"
    if isinstance(item, Rejection):
        return f'<td class="out" title="{escape(item.reason)}">{escape(item.rule)}</td>'
    hours = in_hours(predicted(item.device_hours))
    return f'<td title="{escape(item.run_id)}">T = {item.num_steps:,}<br>{hours}</td>'


def _rejections(plan: Plan) -> str:
    """How many candidates break each rule, and one of them."""
    first = {item.rule: item for item in reversed(plan.rejected)}
    counts = Counter(item.rule for item in plan.rejected)
    lines = ["<tr><th>setting</th><th>candidates</th><th>for example</th></tr>"]
    for rule, count in counts.most_common():
        one = first[rule]
        where = f"n = {one.num_generations}, B = {one.problems_per_batch} at {short(one.budget)}"
        cells = (rule, f"{count:,}", f"{where}: {one.reason}")
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return f'<table class="why">{"".join(lines)}</table>'
