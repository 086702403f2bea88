"""Frames of pandas, and what notebooks show. docs/python.md explains the columns."""

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from isosweep.compute import BudgetUnit
from isosweep.errors import PreflightError
from isosweep.files import JsonObject
from isosweep.heldout import score
from isosweep.modes.sweeps import StoredSweep
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import newest
from isosweep.store.completions import completion_rows, read_completions
from isosweep.store.paths import SweepPaths
from isosweep.store.records import Record, read_records

if TYPE_CHECKING:
    import pandas

# Values by column.
Row = Mapping[str, Any]


def frame(
    rows: Iterable[Row], unit: BudgetUnit | None = None, names: Iterable[str] = ()
) -> "pandas.DataFrame":
    """Return the rows as a frame, whose `attrs` has the budgets' unit; `names`: of its columns, as
    far as they are known without rows.

    Raises PreflightError where this installation has no pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        missing = [("the package pandas", "pip install 'isosweep[analysis]'")]
        raise PreflightError(missing) from None
    listed = list(rows)
    # One of several variants may have an axis, and one of several runs a set, that others lack.
    columns = dict.fromkeys([*names, *(name for row in listed for name in row)])
    made = pandas.DataFrame({name: [row.get(name) for row in listed] for name in columns})
    if unit is not None:
        made.attrs["budget_unit"] = unit
    return made


def page(heading: str, sentences: Sequence[str], shown: "pandas.DataFrame") -> str:
    """Return what a notebook shows of an object: a heading, sentences and a table."""
    parts = [f"<b>{html.escape(heading)}</b>", *map(html.escape, sentences)]
    paragraphs = "".join(f"<p>{part}</p>" for part in parts)
    table: str = shown.to_html(index=False, na_rep="", float_format="{:.4g}".format)
    return paragraphs + table


def with_axes(row: Row, axes: Row) -> Row:
    """Return the row with a column for each axis: `axis_<name>` where its name is another's."""
    return {**row, **{f"axis_{name}" if name in row else name: axes[name] for name in axes}}


def sweep_row(listed: JsonObject) -> Row:
    """Return the row of one sweep, from what `modes.status.listed_sweep` returns."""
    counts = listed["counts"] or {}
    return {
        "name": listed["name"],
        "planned": datetime.fromtimestamp(listed["planned_unix_time"], UTC),
        "launched": listed["launched"],
        **{name: listed[name] or None for name in ("model", "task", "budget_unit")},
        "budgets": tuple(listed["budgets"]),
        "runs": sum(counts.values()) if counts else math.nan,
        **{name: counts.get(name, math.nan) for name in ("done", "diverged", "failed")},
        **{name: listed[name] for name in ("collapsed", "verdict", "followed_by", "fault")},
    }


def candidate_rows(plan: Plan) -> Iterator[Row]:
    """Yield a row for each candidate, planned or rejected: by axes, budget, B, n and seed."""
    from isosweep.plan.output import plan_rows

    named = {"num_generations": "n", "problems_per_batch": "B", "num_steps": "T"}
    left_out = ("axes", "rules")
    for row in plan_rows(plan):
        shown = {named.get(name, name): row[name] for name in row if name not in left_out}
        yield with_axes(shown, row["axes"])


def _identified(run: PlannedRun) -> Row:
    n, batch = run.num_generations, run.problems_per_batch
    return {"run_id": run.run_id, "n": n, "B": batch, "seed": run.seed}


def run_rows(sweep: StoredSweep) -> Iterator[Row]:
    """Yield a row for each run, in the plan's order, with its progress by its files."""
    plan, config, collapsed = sweep.plan, sweep.config, sweep.collapsed()
    for run in plan.runs:
        attempt = newest(sweep.paths.run(run.run_id))
        standing = run_standing(run, attempt, plan.budget_unit, config.health.stop)
        hours = run.seconds and run.seconds * config.devices_taken / 3600
        row = {
            **_identified(run),
            "T": run.num_steps,
            "budget": run.milestones[-1],
            "learning_rate": run.learning_rate,
            "planned_flops": run.planned_flops,
            "device_hours": hours,
            "dollars": plan.pricing.dollars(hours),
            "standing": standing.value,
            "collapsed": standing is Standing.DONE and run.run_id in collapsed,
            "step": attempt.step if attempt else 0,
            "spent": attempt.compute.spent(plan.budget_unit) if attempt else 0.0,
            "reward": math.nan if attempt is None else attempt.reward,
            "attempt": attempt.number if attempt else 0,
            "warnings": ", ".join(attempt.warnings) if attempt else "",
            "reason": attempt.reason if attempt else "",
        }
        yield with_axes(row, run.axes)


def _score(name: str) -> Callable[[Record], Any]:
    def of(record: Record) -> Any:
        if not record.successes:
            return math.nan
        return getattr(score(record.successes, record.samples_per_problem), name)

    return of


def _majority(record: Record) -> float:
    votes = record.scores.get("majority")
    return math.fsum(votes) / len(votes) if votes else math.nan


# What a frame has of a held-out evaluation, by column.
RECORD: dict[str, Callable[[Record], Any]] = {
    "step": lambda record: record.step,
    "rollouts": lambda record: record.compute.rollouts,
    "prompt_tokens": lambda record: record.compute.prompt_tokens,
    "completion_tokens": lambda record: record.compute.completion_tokens,
    "flops": lambda record: record.compute.flops,
    "device_hours": lambda record: record.compute.spent("device_hours"),
    "reward": lambda record: record.reward,
    "best_at_k": _score("best"),
    "worst_at_k": _score("worst"),
    "majority_at_k": _majority,
    "problems": lambda record: len(record.successes),
    "samples_per_problem": lambda record: record.samples_per_problem,
    "response_tokens": lambda record: record.completion_tokens,
    "evaluation_seconds": lambda record: record.seconds,
}


def record_rows(plan: Plan, paths: SweepPaths) -> Iterator[Row]:
    """Yield a row for each held-out evaluation that counts, by run and step.

    The reward on a further set of problems is a column `reward_<set>`.
    """
    for run in plan.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            row = {
                **_identified(run),
                "spent": record.compute.spent(plan.budget_unit),
                **{name: read(record) for name, read in RECORD.items()},
                **{f"reward_{name}": own.reward for name, own in record.sets.items()},
            }
            yield with_axes(row, run.axes)


# Columns of a frame of completions.
COMPLETION = (
    *("run_id", "n", "B", "seed", "step", "spent", "source", "problem", "prompt", "reference"),
    *("completion", "reward", "right", "tokens", "ended", "answer", "reason", "advantage"),
)


def answer_rows(plan: Plan, paths: SweepPaths) -> Iterator[Row]:
    """Yield a row for each completion that is kept, by run, step and problem; `source`: heldout or
    training."""
    for run in plan.runs:
        files = paths.run(run.run_id)
        kept = read_completions(files)
        records = read_records(files.records).records if kept else ()
        spent = {each.step: each.compute.spent(plan.budget_unit) for each in records}
        for each in kept:
            record = {**_identified(run), "step": each.step, "spent": spent[each.step]}
            for source, problems in (("heldout", each.heldout), ("training", each.training)):
                for row in completion_rows(problems):
                    yield with_axes({**record, "source": source, **row}, run.axes)
