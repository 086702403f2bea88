"""The analysis's tables: CSV files beside the report, and frames in Python.

docs/python.md has what columns mean. Rewards are held-out, compute is in the
sweep's unit; what is not known is missing.
"""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any, NamedTuple

from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.learning_curve import Estimate

_CELLS = "budget n B T seed run_id planned_compute measured_compute reward reading"
_CHOICES = (
    "budget n B batches_tried T seeds fallen measured standard_error expected low high loss "
    "loss_upper probability_best may_be_best"
)
_OPTIMA = (
    "budget n B T n_star n_star_low n_star_high open_below open_above candidates measured expected "
    "low high n_d n_d_low n_d_high n_d_open_below n_d_open_above"
)
_SURVIVAL = "n runs fallen kept low high"
_FITS = (
    "run_id n B seed records base_reward asymptote asymptote_standard_error midpoint "
    "midpoint_standard_error exponent exponent_standard_error reduced_chi2 share_risen status"
)


class Table(NamedTuple):
    """Names of columns, and rows by them; what is not known is None."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def to_csv(self) -> str:
        """The text of the table's file: numbers in full precision, empty where there is none."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(map(_in_file, row.values()) for row in self.rows)
        return text.getvalue()


def all_tables(data: SweepData, findings: Findings) -> dict[str, Table]:
    """Every table by the name of its file."""
    return {
        "frontier": cells(data),
        "choices": choices(findings),
        "optima": optima(findings),
        "survival": survival(findings),
        "fits": fits(data, findings),
    }


def _in_file(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _table(columns: str, rows: Iterable[tuple[Any, ...]]) -> Table:
    names = tuple(columns.split())
    return Table(names, tuple(dict(zip(names, row, strict=True)) for row in rows))


def cells(data: SweepData) -> Table:
    """One row per cell, in the plan's order."""
    rows = (
        (
            *(cell.budget, *Pair.of(cell), cell.num_steps, cell.seed, cell.run_id),
            *(cell.planned_compute, read.measured_compute, read.reward, read.reading),
        )
        for read in data.readings
        for cell in [read.cell]
    )
    return _table(_CELLS, rows)


def choices(findings: Findings) -> Table:
    """One row per budget and n, at its best B."""
    rows = (
        (
            *(at.budget, *Pair.of(cell), each.num_batches_tried, cell.num_steps),
            *(cell.num_seeds, cell.num_fallen, cell.mean, cell.standard_error, each.expected),
            *(each.interval or (None, None)),
            *(each.loss, each.loss_upper, each.probability_best, each.indistinguishable),
        )
        for at in findings.frontier.budgets
        for each in at.choices
        for cell in [each.cell]
    )
    return _table(_CHOICES, rows)


def optima(findings: Findings) -> Table:
    """One row per budget: what to use, n*(C) and n_d(C)."""
    rows = (
        (
            *(at.budget, *Pair.of(at.best.cell), at.best.cell.num_steps),
            *(*_ends(at.optimum.n_star), *_open(at.optimum.n_star), at.candidates),
            *(at.best.cell.mean, at.best.expected, *(at.best.interval or (None, None))),
            *(*_ends(at.optimum.n_d), *_open(at.optimum.n_d)),
        )
        for at in findings.frontier.budgets
    )
    return _table(_OPTIMA, rows)


def _ends(interval: Interval | None) -> tuple[float | None, ...]:
    """Median and ends; None of an estimate that has none of them."""
    return (interval.median, interval.low, interval.high) if interval else (None, None, None)


def _open(interval: Interval | None) -> tuple[bool | None, ...]:
    """Whether the value may lie below and above all that was run."""
    return (interval.open_below, interval.open_above) if interval else (None, None)


def survival(findings: Findings) -> Table:
    """One row per n: the share of its runs that keep what they gained; none where no run fell."""
    rows = (
        (each.num_generations, each.num_runs, each.num_fallen, *_ends(each.kept))
        for each in findings.survivals
    )
    return _table(_SURVIVAL, rows)


def fits(data: SweepData, findings: Findings) -> Table:
    """One row per run, in the plan's order: its sigmoid, as far as its records identify one."""
    runs = {run.run_id: run for run in data.plan.runs}
    rows = (
        (
            *(fit.run_id, *Pair.of(runs[fit.run_id]), runs[fit.run_id].seed),
            *(fit.num_records, fit.base_reward),
            *(number for each in fit.parameters for number in _with_error(each)),
            *(fit.reduced_chi2, fit.share_risen, fit.status.value),
        )
        for fit in findings.fits
    )
    return _table(_FITS, rows)


def _with_error(found: Estimate | None) -> tuple[float | None, float | None]:
    return (found.value, found.standard_error) if found else (None, None)
