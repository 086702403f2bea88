"""A sweep whose records never were on disk."""

from collections.abc import Mapping, Sequence

from isosweep.analysis.curves import SweepData, read_cells
from isosweep.analysis.records import Ending, make_curve
from isosweep.plan.cells import Plan
from isosweep.store.records import Record


def simulated_sweep(
    plan: Plan, records: Mapping[str, Sequence[Record]], metric: str = "avg"
) -> SweepData:
    """The plan's sweep with these records, by run id; every run has finished."""
    finished = Ending(status="finished")
    unit = plan.budget_unit
    curves = tuple(
        make_curve(run, records[run.run_id], unit, finished, metric) for run in plan.runs
    )
    return SweepData(
        plan=plan,
        curves=curves,
        readings=read_cells(plan, curves),
        plan_document={},
        config_document={},
        problems=(),
        metric=metric,
    )
