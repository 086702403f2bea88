"""Frames of pandas: rows with the columns that `door.columns` and `analysis.tables` describe."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from isosweep.analysis.columns import Columns
from isosweep.compute import BudgetUnit
from isosweep.door.columns import PLAN, RECORDS, RUNS, SWEEPS
from isosweep.errors import PreflightError
from isosweep.heldout import score
from isosweep.modes.directory import StoredSweep
from isosweep.plan.cells import Cell, Plan, Rejection
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from isosweep.store.state import view_run

if TYPE_CHECKING:
    import pandas

    from isosweep.analysis.curves import SweepData
    from isosweep.analysis.statistics.findings import Findings

# What a run has that has not begun.
_NO_STATE = SimpleNamespace(step=0, reward=None, attempt=0, warnings=())
# Values by column.
Row = Mapping[str, Any]


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
    names = dict.fromkeys([*(c.name for c in columns), *(name for row in listed for name in row)])
    values = {name: [row.get(name) for row in listed] for name in names}
    made = pandas.DataFrame(values).astype({column.name: column.dtype for column in columns})
    made.attrs["columns"] = {column.name: column.text for column in columns}
    if unit is not None:
        made.attrs["budget_unit"] = unit
    return made


def _row(columns: Columns, item: object, axes: Row, **further: Any) -> Row:
    """The columns of an item, what it has `further`, and a column for each axis: `axis_<name>`
    where its name is another's."""
    values = {column.name: column.read(item) for column in columns}
    named = {f"axis_{name}" if name in values else name: axes[name] for name in axes}
    return {**values, **further, **named}


def rows_of(
    columns: Columns, items: Iterable[object], axes: Row = MappingProxyType({})
) -> Iterator[Row]:
    """One row an item, with these columns and one for each axis."""
    return (_row(columns, item, axes) for item in items)


def sweep_rows(listed: Iterable[Row]) -> Iterator[Row]:
    """One row a sweep."""
    return (_row(SWEEPS, SimpleNamespace(**sweep), {}) for sweep in listed)


def candidate_rows(plan: Plan) -> Iterator[Row]:
    """One row a candidate, planned or rejected: by axes, budget, B, n and seed."""
    from isosweep.plan.output import plan_rows

    lacked = dict.fromkeys(each.name for kind in (Cell, Rejection) for each in fields(kind))
    return (_row(PLAN, SimpleNamespace(**(lacked | row)), row["axes"]) for row in plan_rows(plan))


def run_rows(sweep: StoredSweep) -> Iterator[Row]:
    """One row a run, in the plan's order, with how it stands by its files at this moment."""
    plan, config, collapsed = sweep.plan, sweep.config, sweep.collapsed()
    for run in plan.runs:
        view = view_run(sweep.paths.run(run.run_id))
        standing = run_standing(run, view, plan.budget_unit, config.health.stop)
        hours = run.seconds and run.seconds * config.devices_taken / 3600
        now = SimpleNamespace(
            run=run,
            view=view,
            state=view.state or _NO_STATE,
            spent=view.state.compute.spent(plan.budget_unit) if view.state else 0.0,
            standing=standing,
            collapsed=standing is Standing.DONE and run.run_id in collapsed,
            device_hours=hours,
            dollars=plan.pricing.dollars(hours),
        )
        yield _row(RUNS, now, run.axes)


def record_rows(plan: Plan, paths: SweepPaths) -> Iterator[Row]:
    """One row a held-out evaluation that counts, by run and step.

    What it has of each further set of problems is a column `reward_<set>`: avg@k on it.
    """
    for run in plan.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            single, votes = record.successes, record.scores.get("majority")
            item = SimpleNamespace(
                run=run,
                record=record,
                dollars=plan.pricing.dollars(record.compute.spent("device_hours")),
                spent=record.compute.spent(plan.budget_unit),
                scores=score(single, record.samples_per_problem) if single else None,
                majority=math.fsum(votes) / len(votes) if votes else None,
            )
            sets = {f"reward_{name}": own.reward for name, own in record.sets.items()}
            yield _row(RECORDS, item, run.axes, **sets)


def cell_rows(data: "SweepData") -> Iterator[Row]:
    """One row a cell, as `analysis/frontier.csv` has it."""
    from isosweep.analysis.tables import CELLS

    return (_row(CELLS, reading, reading.cell.axes) for reading in data.readings)


def choice_rows(data: "SweepData", findings: "Findings") -> Iterator[Row]:
    """One row a budget and n, as `analysis/choices.csv` has it."""
    from isosweep.analysis.tables import choice_table

    table = choice_table(data, findings)
    return (_row(table.columns, choice, _axes(data)) for choice in table.rows)


def frontier_rows(data: "SweepData", findings: "Findings") -> Iterator[Row]:
    """One row a budget, as `analysis/optima.csv` has it."""
    from isosweep.analysis.tables import optimum_table

    table = optimum_table(data, findings)
    return (_row(table.columns, at, _axes(data)) for at in table.rows)


def _axes(data: "SweepData") -> dict[str, Any]:
    """Values of `grid.axes` of the variant that was read."""
    (axes,) = data.plan.axes
    return axes
