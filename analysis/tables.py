"""The analysis's tables, each described once for its CSV file and for the report's page."""

from dataclasses import dataclass
from typing import Any

from isosweep.analysis.columns import (
    MISSING,
    Column,
    PageTable,
    Table,
    file_only,
    number,
    plain,
    span,
    value,
    word,
)
from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.asymptotes import Asymptote
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Estimate, Fit
from isosweep.analysis.statistics.frontier import Choice
from isosweep.analysis.statistics.mechanism import ProblemChange
from isosweep.analysis.statistics.survival import Survival
from isosweep.plan.cells import PlannedRun
from isosweep.words.numbers import UNITS


def all_tables(data: SweepData, findings: Findings) -> tuple[Table[Any], ...]:
    """Every table that lies beside the report."""
    return (
        cell_table(data),
        choice_table(data, findings),
        survival_table(findings),
        asymptote_table(findings),
        fit_table(data, findings),
        problem_change_table(findings),
    )


def _reward(reward: float | None, reading: str | None) -> str:
    if reward is None:
        return MISSING
    return ("~" if reading == "interpolated" else "") + f"{reward:.4f}"


_CELL: tuple[Column[CellReading], ...] = (
    number("budget", "cell.budget", "budget", ".3g"),
    plain("n", "cell.num_generations"),
    plain("B", "cell.problems_per_batch"),
    plain("T", "cell.num_steps"),
    file_only("seed", "cell.seed"),
    file_only("run_id", "cell.run_id"),
    number("planned_compute", "cell.planned_compute", "planned", ".4g"),
)
_READING: tuple[Column[CellReading], ...] = (
    number("measured_compute", "measured_compute", "measured", ".4g"),
    Column(
        names=("reward", "reading"),
        values=lambda reading: (reading.reward, reading.reading),
        heading="reward",
        text=_reward,
    ),
)


def cell_table(data: SweepData) -> Table[CellReading]:
    """One row per cell, in the plan's order."""
    return Table(name="frontier", columns=_CELL + _READING, rows=data.readings)


def cell_page(data: SweepData) -> PageTable:
    """`cell_table` with one row per (budget, n, B), and columns of readings for every seed."""
    seeds = sorted({cell.seed for cell in data.plan.cells})
    rows: dict[tuple[float, Pair], dict[int, CellReading]] = {}
    for reading in data.readings:
        key = (reading.cell.budget, Pair.of(reading.cell))
        rows.setdefault(key, {})[reading.cell.seed] = reading
    shared = [column for column in _CELL if column.heading is not None]
    seeded = [(column, seed) for column in _READING for seed in seeds]
    return PageTable(
        head=(
            *(column.heading or "" for column in shared),
            *(f"{column.heading}, seed {seed}" for column, seed in seeded),
        ),
        rows=tuple(
            (
                *(column.cell(next(iter(rows[key].values()))) for column in shared),
                *(column.cell(rows[key].get(seed)) for column, seed in seeded),
            )
            for key in sorted(rows)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _ChoiceAt:
    budget: float
    choice: Choice


def choice_table(data: SweepData, findings: Findings) -> Table[_ChoiceAt]:
    """One row per budget and n, at its best B."""
    confidence = f"{findings.frontier.confidence:.0%}"
    columns: tuple[Column[_ChoiceAt], ...] = (
        number("budget", "budget", f"budget ({UNITS[data.plan.budget_unit]})", ".3g"),
        plain("n", "choice.num_generations"),
        plain("B", "choice.cell.problems_per_batch", "best B"),
        plain("batches_tried", "choice.num_batches_tried", "B tried"),
        plain("T", "choice.cell.num_steps"),
        Column(
            names=("seeds", "fallen"),
            values=lambda row: (row.choice.cell.num_seeds, row.choice.cell.num_fallen),
            heading="seeds",
            text=_seeds,
        ),
        number("measured", "choice.cell.mean", "measured", ".4f"),
        file_only("standard_error", "choice.cell.standard_error"),
        number("expected", "choice.expected", "expected", ".4f"),
        Column(
            names=("low", "high"),
            values=lambda row: row.choice.interval or (None, None),
            heading=f"interval ({confidence})",
            text=span,
        ),
        number("loss", "choice.loss", "loss to best", ".4f"),
        number("loss_upper", "choice.loss_upper", f"loss at most ({confidence})", ".4f"),
        number("probability_best", "choice.probability_best", "P(best)", ".2f"),
        value(
            "may_be_best",
            lambda row: "yes" if row.choice.indistinguishable else "no",
            "may be best",
            str,
        ),
    )
    rows = tuple(
        _ChoiceAt(budget=at.budget, choice=choice)
        for at in findings.frontier.budgets
        for choice in at.choices
    )
    return Table(name="choices", columns=columns, rows=rows)


def _seeds(kept: int, fallen: int) -> str:
    return f"{kept} (and {fallen} fallen)" if fallen else str(kept)


_SURVIVALS: tuple[Column[Survival], ...] = (
    plain("n", "num_generations"),
    plain("runs", "num_runs"),
    plain("fallen", "num_fallen"),
    number("kept", "kept.median", "share that keeps its gain", ".0%"),
    Column(
        names=("low", "high"),
        values=lambda row: (row.kept.low, row.kept.high),
        heading="interval",
        text=span,
    ),
)


def survival_table(findings: Findings) -> Table[Survival]:
    """One row per n; none where no run fell."""
    return Table(name="survival", columns=_SURVIVALS, rows=findings.survivals)


_ASYMPTOTES: tuple[Column[Asymptote], ...] = (
    plain("n", "num_generations"),
    plain("B", "problems_per_batch"),
    Column(
        names=("seeds", "seeds_identified"),
        values=lambda row: (row.num_seeds, row.num_identified),
        heading="seeds that identify A",
        text=lambda seeds, identified: f"{identified} of {seeds}",
    ),
    number("asymptote", "value", "A", ".4f"),
    Column(
        names=("low", "high"),
        values=lambda row: (row.low, row.high),
        heading="interval",
        text=span,
    ),
    value("status", lambda row: row.status.value, "status", str, left=True),
)


def asymptote_table(findings: Findings) -> Table[Asymptote]:
    """One row per (n, B)."""
    return Table(name="asymptotes", columns=_ASYMPTOTES, rows=findings.asymptotes)


@dataclass(frozen=True, kw_only=True)
class _FitOfRun:
    run: PlannedRun
    fit: Fit


def _estimate(name: str, heading: str) -> Column[_FitOfRun]:
    """A fitted parameter, which is a field of the fit, and its standard error."""

    def values(row: _FitOfRun) -> tuple[float | None, float | None]:
        estimate: Estimate | None = getattr(row.fit, name)
        return (None, None) if estimate is None else (estimate.value, estimate.standard_error)

    def text(value: float | None, error: float | None) -> str:
        return MISSING if value is None else f"{value:.3g} ± {error:.2g}".replace("e+", "e")

    return Column(names=(name, f"{name}_standard_error"), values=values, heading=heading, text=text)


_FITS: tuple[Column[_FitOfRun], ...] = (
    file_only("run_id", "fit.run_id"),
    plain("n", "run.num_generations"),
    plain("B", "run.problems_per_batch"),
    plain("seed", "run.seed"),
    plain("records", "fit.num_records"),
    number("base_reward", "fit.base_reward", "R0", ".4f"),
    _estimate("asymptote", "A"),
    _estimate("midpoint", "C_mid"),
    _estimate("exponent", "B (exponent)"),
    number("reduced_chi2", "fit.reduced_chi2", "chi²/dof", ".2f"),
    file_only("share_risen", "fit.share_risen"),
    value(
        "best_law",
        lambda row: row.fit.alternatives and row.fit.alternatives.best,
        "best law (QAICc)",
        word,
        left=True,
    ),
    value("status", lambda row: row.fit.status.value, "status", str, left=True),
)


def fit_table(data: SweepData, findings: Findings) -> Table[_FitOfRun]:
    """One row per run, in the plan's order."""
    runs = {run.run_id: run for run in data.plan.runs}
    rows = tuple(_FitOfRun(run=runs[fit.run_id], fit=fit) for fit in findings.fits)
    return Table(name="fits", columns=_FITS, rows=rows)


_PROBLEM_CHANGES: tuple[Column[ProblemChange], ...] = (
    plain("n", "num_generations"),
    plain("B", "problems_per_batch"),
    plain("seeds", "num_seeds"),
    number("none_right", "none", "none right", ".1%"),
    number("all_right", "all", "all right", ".1%"),
    number("better", "better", "better", ".1%"),
    number("worse", "worse", "worse", ".1%"),
    number("gained", "gained", "gained", ".4f"),
    number("lost", "lost", "lost", ".4f"),
)


def problem_change_table(findings: Findings) -> Table[ProblemChange]:
    """One row per n, at its best B at the largest budget."""
    return Table(name="problem_changes", columns=_PROBLEM_CHANGES, rows=findings.changes)
