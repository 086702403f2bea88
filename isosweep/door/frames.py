"""Frames of pandas: rows with the columns that `door.columns` and `analysis.tables` describe."""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from isosweep.analysis.columns import Columns, Row
from isosweep.compute import BudgetUnit
from isosweep.door.columns import PLAN, SWEEPS
from isosweep.errors import PreflightError
from isosweep.heldout import score
from isosweep.modes.directory import StoredSweep
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import newest
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records

if TYPE_CHECKING:
    import pandas


def frame(
    columns: Columns, rows: Iterable[Row], unit: BudgetUnit | None = None
) -> "pandas.DataFrame":
    """The rows as a frame with these columns, and then those that only the rows have.

    `attrs` has the columns' meanings and units by name, and the budgets' unit. Raises
    PreflightError where this installation has no pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        missing = [("the package pandas", "pip install 'isosweep[train]'")]
        raise PreflightError(missing) from None
    listed = list(rows)
    # Of several variants one may have an axis, and of several runs one a set, that others have not.
    names = dict.fromkeys([*columns, *(name for row in listed for name in row)])
    values = {name: [row.get(name) for row in listed] for name in names}
    made = pandas.DataFrame(values).astype({name: column.dtype for name, column in columns.items()})
    made.attrs["columns"] = {name: column.text for name, column in columns.items()}
    if unit is not None:
        made.attrs["budget_unit"] = unit
    return made


def with_axes(row: Row, axes: Row) -> Row:
    """The row with a column for each axis: `axis_<name>` where its name is another's."""
    return {**row, **{f"axis_{name}" if name in row else name: axes[name] for name in axes}}


def sweep_rows(listed: Iterable[Row]) -> Iterator[Row]:
    """One row a sweep, of what `modes.listing.listed_sweep` returns."""
    for sweep in listed:
        counts = sweep["counts"] or {}
        yield {
            **{name: sweep.get(name) for name in SWEEPS},
            "planned": datetime.fromtimestamp(sweep["planned_unix_time"], UTC),
            **{name: sweep[name] or None for name in ("model", "task", "budget_unit")},
            "budgets": tuple(sweep["budgets"]),
            "runs": sum(counts.values()) if counts else None,
            **{name: counts.get(name) for name in ("done", "diverged", "failed")},
        }


def candidate_rows(plan: Plan) -> Iterator[Row]:
    """One row a candidate, planned or rejected: by axes, budget, B, n and seed."""
    from isosweep.plan.output import plan_rows

    named = {"n": "num_generations", "B": "problems_per_batch", "T": "num_steps"}
    for row in plan_rows(plan):
        yield with_axes({name: row.get(named.get(name, name)) for name in PLAN}, row["axes"])


def _of_run(run: PlannedRun) -> Row:
    n, B = run.num_generations, run.problems_per_batch
    return {"run_id": run.run_id, "n": n, "B": B, "seed": run.seed}


def run_rows(sweep: StoredSweep) -> Iterator[Row]:
    """One row a run, in the plan's order, with how it stands by its files at this moment."""
    plan, config, collapsed = sweep.plan, sweep.config, sweep.collapsed()
    for run in plan.runs:
        attempt = newest(sweep.paths.run(run.run_id))
        standing = run_standing(run, attempt, plan.budget_unit, config.health.stop)
        hours = run.seconds and run.seconds * config.devices_taken / 3600
        row = {
            **_of_run(run),
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
            "reward": attempt and attempt.reward,
            "attempt": attempt.number if attempt else 0,
            "warnings": ", ".join(attempt.warnings) if attempt else "",
            "reason": attempt.reason if attempt else "",
        }
        yield with_axes(row, run.axes)


def record_rows(plan: Plan, paths: SweepPaths) -> Iterator[Row]:
    """One row a held-out evaluation that counts, by run and step.

    What it has of each further set of problems is a column `reward_<set>`: avg@k on it.
    """
    for run in plan.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            single, votes = record.successes, record.scores.get("majority")
            scores = score(single, record.samples_per_problem) if single else None
            compute = record.compute
            hours = compute.spent("device_hours")
            row = {
                **_of_run(run),
                "step": record.step,
                "spent": compute.spent(plan.budget_unit),
                "rollouts": compute.rollouts,
                "prompt_tokens": compute.prompt_tokens,
                "completion_tokens": compute.completion_tokens,
                "flops": compute.flops,
                "device_hours": hours,
                "dollars": plan.pricing.dollars(hours),
                "reward": record.reward,
                "best_at_k": scores and scores.best,
                "worst_at_k": scores and scores.worst,
                "majority_at_k": math.fsum(votes) / len(votes) if votes else None,
                "problems": len(single),
                "samples_per_problem": record.samples_per_problem,
                "response_tokens": record.completion_tokens,
                "evaluation_seconds": record.seconds,
                **{f"reward_{name}": own.reward for name, own in record.sets.items()},
            }
            yield with_axes(row, run.axes)
