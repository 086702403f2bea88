"""`mode=status`, of one sweep and of all, over its documents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject
from isosweep.pricing import pricing_from
from isosweep.words.numbers import amount, moment, plural, price, short, size, tally

if TYPE_CHECKING:
    from isosweep.store.drivers import Driver


def counted(sweep: JsonObject) -> str:
    """Return how many runs stand how: 30 runs: 2 not begun, 28 done, 3 of them collapsed."""
    counts = sweep["counts"]
    return f"{sum(counts.values())} runs: {tally(counts, sweep['collapsed'])}"


def driver(by: "Driver") -> str:
    """Return who follows a sweep: ada (process 4321 of login1, since 2026-11-25 13:20:00)."""
    return f"{by.user} (process {by.by.pid} of {by.by.host}, since {moment(by.unix_time)})"


def summary(document: JsonObject) -> list[str]:
    """Return how one sweep stands, its device time, and who follows it, a line each."""
    head = f"{document['sweep']}: {counted(document)}"
    if kept := document["checkpoint_bytes"]:
        head += f"; checkpoints take {size(kept)}"
    lines = [head]
    if hours := document["device_hours"]:
        spent = price(hours, pricing_from(document["pricing"]), predicted=False)
        lines.append(f"device time of training so far: {spent}")
    if document["followed_by"]:
        lines.append(f"followed by {document['followed_by']}")
    return lines


def unanswered(document: JsonObject) -> str:
    """Return of how many runs the scheduler said nothing, and why."""
    runs = plural(document["unanswered_runs"], "run")
    why = document["unanswered"]
    return f"{runs} shown as in their files, since the scheduler did not answer: {why}"


def search(document: JsonObject, num_runs: int) -> list[str]:
    """Return how many runs the search of a sweep chose, and what it waits for or why it ended."""
    found = document["search"]
    line = f"search: {len(found['asked'])} of {num_runs} runs were chosen"
    decision = found["decision"]
    if decision and decision["stop"] is not None:
        return [line, f"  it ended at {moment(decision['unix_time'])}: {decision['stop']}"]
    waits = [run["label"] for run in document["runs"] if run["run_id"] in found["open"]]
    if not waits:
        return [line]
    shown = ", ".join(waits[:4]) + (", ..." if waits[4:] else "")
    return [line, f"  it waits for {len(waits)} of them: {shown}"]


def step(chosen: Mapping[str, Any], labels: Mapping[str, str], unit: BudgetUnit) -> str:
    """Return how far which run goes, the value expected of that, and why."""
    run = labels.get(chosen["run_id"], chosen["run_id"])
    end = amount(chosen["milestone"], unit)
    return f"{run} to {end} ({chosen['value']:.2g}): {chosen['why']}"


def listed(sweep: JsonObject) -> str:
    """Return the line of a sweep in the list of all, after its name."""
    budgets = sweep["budgets"]
    several = f"{len(budgets)} budgets {short(budgets[0])} to " if len(budgets) > 1 else ""
    line = f"{several}{amount(budgets[-1], sweep['budget_unit'])}: {counted(sweep)}"
    if sweep["verdict"]:
        line += f"; verdict: {sweep['verdict']}"
    if sweep["followed_by"]:
        line += f"; followed by {sweep['followed_by']}"
    return line


def plans(names: Sequence[str]) -> str:
    """Return the plans that never ran."""
    return f"only planned, never launched: {', '.join(names)}"


def answers(document: Mapping[str, Any]) -> list[str]:
    """Return the best and the worst answer to one problem, under lines that say what they are."""
    lines = [
        f"answers at step {document['step']} to problem {_one_line(document['problem_id'])}:",
        *_quoted(document["prompt"]),
    ]
    for name in ("best", "worst"):
        made = document[name]
        about = f"{name}: reward {made['reward']:g}"
        if made["reason"]:
            about += f" ({_one_line(made['reason'])})"
        if made["tokens"] is not None:
            about += f", {plural(made['tokens'], 'token')}"
        lines += [f"{about}:" if made["ended"] is not False else f"{about}, cut at the limit:"]
        lines += _quoted(made["text"])
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> list[str]:
    return [f"  | {line}" for line in text.splitlines() or [""]]
