"""Frames of pandas: rows with the columns that `columns` describes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from isosweep.compute import BudgetUnit
from isosweep.door.columns import COLUMNS, Frame
from isosweep.errors import PreflightError
from isosweep.heldout import score
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.paths import SweepPaths
from isosweep.store.records import Record, read_records
from isosweep.store.state import view_run

if TYPE_CHECKING:
    import pandas

    from isosweep.analysis.curves import SweepData
    from isosweep.analysis.statistics.findings import Findings
    from isosweep.config.sweep import SweepConfig
    from isosweep.modes.listing import Listed

Row = Mapping[str, Any]
# The short names that tables have for the fields of a plan.
_SHORT = {"num_generations": "n", "problems_per_batch": "B", "num_steps": "T"}


def frame(kind: Frame, rows: Iterable[Row], unit: BudgetUnit | None = None) -> "pandas.DataFrame":
    """The rows as a frame with the columns of its kind, and then those that only the rows have.

    `axes` of a row is a column for each axis; one called like another column is `axis_<name>`.
    `attrs` has the columns' meanings and units by name, and the budgets' unit. Raises
    PreflightError where this installation has no pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        missing = [("the package pandas", "pip install 'isosweep[train]'")]
        raise PreflightError(missing) from None
    columns = COLUMNS[kind]
    listed = [{**row, **_named(row.get("axes", {}), columns)} for row in rows]
    values = {name: [row[name] for row in listed] for name in columns}
    # Of several variants one may have an axis, and of several runs one a set, that others have not.
    others = dict.fromkeys(name for row in listed for name in row if name not in (*columns, "axes"))
    values |= {name: [row.get(name) for row in listed] for name in others}
    made = pandas.DataFrame(values).astype({name: c.dtype for name, c in columns.items()})
    made.attrs["columns"] = {name: column.text for name, column in columns.items()}
    if unit is not None:
        made.attrs["budget_unit"] = unit
    return made


def _named(axes: Row, columns: Mapping[str, object]) -> dict[str, Any]:
    return {f"axis_{name}" if name in columns else name: value for name, value in axes.items()}


def sweep_rows(listed: "Sequence[Listed]") -> Iterator[Row]:
    """One row a sweep."""
    for sweep in listed:
        counts = sweep.counts or {}
        yield {
            "name": sweep.name,
            "planned": datetime.fromtimestamp(sweep.planned, UTC),
            "launched": sweep.launched,
            "model": sweep.model or None,
            "task": sweep.task or None,
            "budget_unit": sweep.unit or None,
            "budgets": sweep.budgets,
            "runs": sum(counts.values()) if counts else None,
            **{name: counts.get(name) for name in ("done", "diverged", "failed")},
            "collapsed": None if sweep.tally is None else sweep.tally.collapsed,
            "verdict": sweep.verdict,
            "followed_by": sweep.driver,
            "fault": sweep.fault,
        }


def candidate_rows(plan: Plan) -> Iterator[Row]:
    """One row a candidate, planned or rejected: by axes, budget, B, n and seed."""
    from isosweep.plan.output import plan_rows

    for row in plan_rows(plan):
        own = {_SHORT.get(name, name): value for name, value in row.items()}
        own.pop("rules", None)
        # A planned one has no reason, and a rejected one no costs.
        yield {**dict.fromkeys(COLUMNS["plan"]), **own}


def run_rows(plan: Plan, paths: SweepPaths, config: "SweepConfig") -> Iterator[Row]:
    """One row a run, in the plan's order, with how it stands by its files at this moment."""
    from isosweep.modes.look import collapsed_runs

    collapsed = collapsed_runs(config, plan, paths)
    for run in plan.runs:
        view = view_run(paths.run(run.run_id))
        state = view.state
        how_far = run_standing(run, view, plan.budget_unit, config.health.stop)
        yield {
            **_of_run(run),
            "T": run.num_steps,
            "budget": run.milestones[-1],
            "learning_rate": run.learning_rate,
            "planned_flops": run.planned_flops,
            "device_hours": run.seconds * config.devices_taken / 3600,
            "standing": how_far.value,
            "collapsed": how_far is Standing.DONE and run.run_id in collapsed,
            "step": state.step if state else 0,
            "spent": state.compute.spent(plan.budget_unit) if state else 0.0,
            "reward": state.reward if state else None,
            "attempt": state.attempt if state else 0,
            "warnings": ", ".join(state.warnings) if state else "",
            "reason": view.reason,
        }


def record_rows(plan: Plan, paths: SweepPaths) -> Iterator[Row]:
    """One row a held-out evaluation that counts, by run and step.

    What it has of each further set of problems is a column `reward_<set>`: avg@k on it.
    """
    for run in plan.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            sets = {f"reward_{name}": own.reward for name, own in record.sets.items()}
            yield {**_of_run(run), **_of_record(record, plan.budget_unit), **sets}


def _of_run(run: PlannedRun) -> dict[str, Any]:
    n, B = run.num_generations, run.problems_per_batch
    return {"run_id": run.run_id, "n": n, "B": B, "seed": run.seed, "axes": run.axes}


def _of_record(record: Record, unit: BudgetUnit) -> dict[str, Any]:
    spent, counted = record.compute, bool(record.successes)
    scores = score(record.successes, record.samples_per_problem) if counted else None
    votes = record.scores.get("majority")
    return {
        "step": record.step,
        "spent": spent.spent(unit),
        "rollouts": spent.rollouts,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "flops": spent.flops,
        "device_hours": spent.spent("device_hours"),
        "reward": record.reward,
        "best_at_k": scores and scores.best,
        "worst_at_k": scores and scores.worst,
        "majority_at_k": votes and math.fsum(votes) / len(votes),
        "problems": len(record.successes),
        "samples_per_problem": record.samples_per_problem,
        "response_tokens": record.completion_tokens,
        "evaluation_seconds": record.seconds,
    }


def cell_rows(data: "SweepData") -> Iterator[Row]:
    """One row a cell, as `analysis/frontier.csv` has it."""
    from isosweep.analysis.tables import cell_table

    table = cell_table(data)
    for values, reading in zip(table.values(), table.rows, strict=True):
        yield {**dict(zip(table.names, values, strict=True)), "axes": reading.cell.axes}


def choice_rows(data: "SweepData", findings: "Findings") -> Iterator[Row]:
    """One row a budget and n, as `analysis/choices.csv` has it."""
    from isosweep.analysis.tables import choice_table

    table, axes = choice_table(data, findings), _axes(data)
    for values in table.values():
        row = dict(zip(table.names, values, strict=True))
        yield {**row, "may_be_best": row["may_be_best"] == "yes", "axes": axes}


def frontier_rows(data: "SweepData", findings: "Findings") -> Iterator[Row]:
    """One row a budget: the best n, n*(C) with its interval, and what it reaches."""
    optima = {each.budget: each for each in findings.saturation.optima}
    for at in findings.frontier.budgets:
        best, best_n = at.best, optima[at.budget]
        star, (low, high) = best_n.interval, best.interval or (None, None)
        yield {
            "budget": at.budget,
            "n": best.num_generations,
            "B": best.cell.problems_per_batch,
            "T": best.cell.num_steps,
            "n_star": star and star.median,
            "n_star_low": star and star.low,
            "n_star_high": star and star.high,
            "open_below": best_n.left_censored,
            "open_above": best_n.right_censored,
            "candidates": best_n.candidates,
            "measured": best.cell.mean,
            "expected": best.expected,
            "low": low,
            "high": high,
            "axes": _axes(data),
        }


def _axes(data: "SweepData") -> dict[str, Any]:
    """Values of `grid.axes` of the variant that was read."""
    (axes,) = data.plan.axes
    return axes
