"""Tables that only the report's page has: evaluation sets, and runs that are missing."""

from collections.abc import Sequence

from isosweep.analysis.columns import PageTable, page_table, written
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.pairs import Pair
from isosweep.plan.tally import Standing
from isosweep.words.numbers import short


def set_table(data: SweepData) -> PageTable:
    """The sets that records are taken of; without a row where there is only the main one."""
    rows = [
        (
            reading.name or "held-out problems",
            "this report"
            if reading.name == data.evaluation_set
            else f"mode=analyse analysis.evaluation_set={reading.name or 'null'}",
            reading.num_problems,
            reading.samples_per_problem,
            reading.num_runs,
            written(".4f")(reading.before),
            f"{reading.last:.4f}",
        )
        for reading in data.sets
    ]
    head = ("set", "report", "problems", "k", "runs", "avg@k before", "avg@k at the end")
    return page_table(head, rows if len(rows) > 1 else [], left=(0, 1))


def missing_runs(data: SweepData) -> PageTable:
    """Runs that failed, diverged, broke a health rule or have not reached all their budgets."""
    missing = [reading.cell for reading in data.readings if reading.reward is None]
    rows = []
    for curve in data.curves:
        lacking = [cell.budget for cell in missing if cell.run_id == curve.run.run_id]
        if lacking or curve.warnings or curve.status in ("failed", "diverged"):
            rows.append(_missing_run(curve, lacking, searched=data.searched))
    head = ("n", "B", "seed", "status", "reason", "warnings", "compute reached")
    return page_table((*head, "budgets not reached", "run"), rows, left=(3, 4, 5, 8))


def _missing_run(
    curve: Curve, lacking: Sequence[float], *, searched: bool
) -> tuple[str | int, ...]:
    status = curve.status or ("not asked for" if searched else Standing.NOT_BEGUN.value)
    if curve.collapsed_at is not None:
        status += f", collapsed at step {curve.steps[curve.collapsed_at]}"
    return (
        *Pair.of(curve.run),
        curve.run.seed,
        status,
        curve.status_reason or "",
        ", ".join(f"{warning.rule} (step {warning.step})" for warning in curve.warnings),
        written(".4g")(float(curve.compute[-1]) if curve.compute.size else None),
        ", ".join(map(short, lacking)) or "none",
        curve.run.run_id,
    )
