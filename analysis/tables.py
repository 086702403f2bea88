"""The analysis's tables as CSV: numbers in full precision, empty where there is none."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Estimate


@dataclass(frozen=True, kw_only=True)
class Table:
    """One file. `rows` hold numbers, words, and None for what is not known."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def to_csv(table: Table) -> str:
    """The table with a line of column names; Unix line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def all_tables(data: SweepData, findings: Findings) -> tuple[Table, ...]:
    """Every table that stands beside the report."""
    return (
        cells(data),
        choices(findings),
        asymptotes(findings),
        fits(data, findings),
        problem_changes(findings),
    )


def cells(data: SweepData) -> Table:
    """One row per cell, in the plan's order."""
    return _table(
        "frontier",
        (
            *("budget", "n", "B", "T", "seed", "run_id"),
            *("planned_compute", "measured_compute", "reward", "reading"),
        ),
        (
            (
                *(reading.cell.budget, reading.cell.num_generations),
                *(reading.cell.problems_per_batch, reading.cell.num_steps, reading.cell.seed),
                *(reading.cell.run_id, reading.cell.planned_compute),
                *(reading.measured_compute, reading.reward, reading.reading),
            )
            for reading in data.readings
        ),
    )


def choices(findings: Findings) -> Table:
    """One row per budget and n, at its best B."""
    return _table(
        "choices",
        (
            *("budget", "n", "B", "batches_tried", "T", "seeds", "measured", "standard_error"),
            *("expected", "low", "high", "loss", "loss_upper", "probability_best", "may_be_best"),
        ),
        (
            (
                *(at.budget, choice.num_generations, choice.cell.problems_per_batch),
                *(choice.num_batches_tried, choice.cell.num_steps, choice.cell.num_seeds),
                *(choice.cell.mean, choice.cell.standard_error, choice.expected),
                *(choice.interval or (None, None)),
                *(choice.loss, choice.loss_upper, choice.probability_best),
                "yes" if choice.indistinguishable else "no",
            )
            for at in findings.frontier.budgets
            for choice in at.choices
        ),
    )


def asymptotes(findings: Findings) -> Table:
    """One row per (n, B)."""
    return _table(
        "asymptotes",
        ("n", "B", "seeds", "seeds_identified", "asymptote", "low", "high"),
        (astuple(found) for found in findings.asymptotes),
    )


def fits(data: SweepData, findings: Findings) -> Table:
    """One row per run, in the plan's order."""
    runs = {run.run_id: run for run in data.plan.runs}
    rows = []
    for fit in findings.fits:
        run = runs[fit.run_id]
        rows.append(
            (
                *(fit.run_id, run.num_generations, run.problems_per_batch, run.seed),
                *(fit.num_records, fit.base_reward),
                *_estimate(fit.asymptote),
                *_estimate(fit.midpoint),
                *_estimate(fit.exponent),
                *(fit.reduced_chi2, fit.share_risen),
                *(fit.alternatives and fit.alternatives.best, fit.status.value),
            )
        )
    estimates = ("asymptote", "midpoint", "exponent")
    return _table(
        "fits",
        (
            *("run_id", "n", "B", "seed", "records", "base_reward"),
            *(column for name in estimates for column in (name, f"{name}_standard_error")),
            *("reduced_chi2", "share_risen", "best_law", "status"),
        ),
        rows,
    )


def problem_changes(findings: Findings) -> Table:
    """One row per n, at its best B at the largest budget."""
    return _table(
        "problem_changes",
        ("n", "B", "seeds", "none_right", "all_right", "better", "worse", "gained", "lost"),
        (astuple(change) for change in findings.changes),
    )


def _estimate(value: Estimate | None) -> tuple[float | None, float | None]:
    return (None, None) if value is None else (value.value, value.standard_error)


def _table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    return Table(name=name, columns=tuple(columns), rows=tuple(tuple(row) for row in rows))
