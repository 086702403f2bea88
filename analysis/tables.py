"""The analysis's tables, each described once for its CSV file and for the report's page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isosweep.analysis.columns import (
    BUDGET,
    EXPECTED,
    MEASURED,
    MISSING,
    OF_EXPECTED,
    Column,
    Columns,
    PageTable,
    Table,
    count,
    flag,
    interval,
    label,
    number,
    other,
    planned,
)
from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Estimate, Fit
from isosweep.analysis.statistics.frontier import Choice
from isosweep.analysis.statistics.optima import BestGenerations
from isosweep.analysis.statistics.survival import Survival
from isosweep.plan.cells import PlannedRun
from isosweep.words.numbers import UNITS


def all_tables(data: SweepData, findings: Findings) -> tuple[Table[Any], ...]:
    """Every table that lies beside the report."""
    return (
        cell_table(data),
        choice_table(data, findings),
        optimum_table(data, findings),
        survival_table(findings),
        fit_table(data, findings),
    )


def _reward(row: CellReading) -> str:
    if row.reward is None:
        return MISSING
    return ("~" if row.reading == "interpolated" else "") + f"{row.reward:.4f}"


_CELL: Columns = (
    number(
        "budget",
        "cell.budget",
        "Compute budget. In budget_unit.",
        heading="budget",
        show=".3g",
    ),
    *planned("cell", "n", "B", "T"),
    *planned("cell", "seed", "run_id", shown=False),
    number(
        "planned_compute",
        "cell.planned_compute",
        "Predicted compute of T steps. In budget_unit.",
        heading="planned",
        show=".4g",
    ),
)
_READING: Columns = (
    number(
        "measured_compute",
        "measured_compute",
        "Measured compute at the record nearest to the budget; missing without a reward. "
        "In budget_unit.",
        heading="measured",
        show=".4g",
    ),
    number(
        "reward",
        "reward",
        "Held-out reward by analysis.metric; missing where the run has not reached this budget, or "
        "collapsed or diverged before it. Reward.",
        heading="reward",
        show=_reward,
    ),
    label(
        "reading",
        "reading",
        "How reward was read: exact, interpolated, collapsed, diverged or missing.",
    ),
)
CELLS = _CELL + _READING


def cell_table(data: SweepData) -> Table[CellReading]:
    """One row per cell, in the plan's order."""
    return Table(name="frontier", columns=CELLS, rows=data.readings)


def cell_page(data: SweepData) -> PageTable:
    """`cell_table` with one row per (budget, n, B), and columns of readings for every seed."""
    seeds = sorted({cell.seed for cell in data.plan.cells})
    rows: dict[tuple[float, Pair], dict[int, CellReading]] = {}
    for reading in data.readings:
        key = (reading.cell.budget, Pair.of(reading.cell))
        rows.setdefault(key, {})[reading.cell.seed] = reading
    shared = [column for column in _CELL if column.heading is not None]
    read = [column for column in _READING if column.heading is not None]
    seeded = [(column, seed) for column in read for seed in seeds]
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
class ChoiceAt:
    """An n at a budget."""

    budget: float
    choice: Choice


CHOICES: Columns = (
    number("budget", "budget", BUDGET, heading="budget ({unit})", show=".3g"),
    *planned("choice", "n"),
    count(
        "B",
        "choice.cell.problems_per_batch",
        "The best problems per batch for this n. A count.",
        heading="best B",
    ),
    count(
        "batches_tried",
        "choice.num_batches_tried",
        "Values of B that were measured with this n. A count.",
        heading="B tried",
    ),
    *planned("choice.cell", "T"),
    count(
        "seeds",
        "choice.cell.num_seeds",
        "Seeds in measured. A count.",
        heading="seeds",
        show=lambda row: _seeds(row.choice.cell.num_seeds, row.choice.cell.num_fallen),
    ),
    count(
        "fallen",
        "choice.cell.num_fallen",
        "Further seeds, which had collapsed or diverged by then. A count.",
    ),
    number("measured", "choice.cell.mean", MEASURED, heading="measured", show=".4f"),
    number("standard_error", "choice.cell.standard_error", "Standard error of measured. Reward."),
    number("expected", "choice.expected", EXPECTED, heading="expected", show=".4f"),
    *interval(
        lambda row: row.choice.interval or (None, None), "interval ({confidence})", OF_EXPECTED
    ),
    number(
        "loss",
        "choice.loss",
        "Reward expected to be lost against the best n. Reward.",
        heading="loss to best",
        show=".4f",
    ),
    number(
        "loss_upper",
        "choice.loss_upper",
        "Upper bound of loss, at analysis.confidence. Reward.",
        heading="loss at most ({confidence})",
        show=".4f",
    ),
    number(
        "probability_best",
        "choice.probability_best",
        "Probability that no other n is better at this budget; missing with a single n. A share.",
        heading="P(best)",
        show=".2f",
    ),
    flag(
        "may_be_best",
        "choice.indistinguishable",
        "Whether this n cannot be distinguished from the best.",
        heading="may be best",
    ),
)


def choice_table(data: SweepData, findings: Findings) -> Table[ChoiceAt]:
    """One row per budget and n, at its best B."""
    rows = tuple(
        ChoiceAt(budget=at.budget, choice=choice)
        for at in findings.frontier.budgets
        for choice in at.choices
    )
    return Table(name="choices", columns=CHOICES, rows=rows, words=_words(data, findings))


@dataclass(frozen=True, kw_only=True)
class FrontierAt:
    """The best choice of those that ran at a budget, and where n* and n_d lie among all n."""

    budget: float
    best: Choice
    optimum: BestGenerations


def _n_star(name: str, part: str, text: str, **shown: Any) -> Column[Any]:
    """Of n*(C); missing where there is none."""
    return number(name, lambda row: getattr(row.optimum.interval, part, None), text, **shown)


def _n_d(name: str, part: str, text: str, **shown: Any) -> Column[Any]:
    """Of the smallest n that is good enough; missing where it is not known."""

    def read(row: FrontierAt) -> float | None:
        enough = row.optimum.enough
        return None if enough is None else getattr(enough.interval, part)

    return number(name, read, text, **shown)


def _n_d_open(name: str, side: str, text: str) -> Column[Any]:
    return other(name, lambda row: getattr(row.optimum.enough, side, None), text)


FRONTIER: Columns = (
    number("budget", "budget", BUDGET, heading="budget ({unit})", show=".3g"),
    count(
        "n",
        "best.num_generations",
        "The n of the grid with the highest expected reward. A count.",
        heading="n",
    ),
    count("B", "best.cell.problems_per_batch", "Problems per batch with it. A count.", heading="B"),
    *planned("best.cell", "T"),
    _n_star(
        "n_star",
        "median",
        "n*(C): median of the best n, which may lie between those that were run. A count.",
        heading="n*, the best n ({confidence})",
        show=lambda row: row.optimum.words,
    ),
    _n_star("n_star_low", "low", "Lower end of its interval. A count."),
    _n_star("n_star_high", "high", "Upper end of its interval. A count."),
    flag("open_below", "optimum.left_censored", "Whether n* may lie below all n that were run."),
    flag(
        "open_above",
        "optimum.right_censored",
        "Whether n* may lie above all n that were run.",
    ),
    other(
        "candidates",
        "optimum.candidates",
        "The n that cannot be distinguished from the best, ascending.",
    ),
    number("measured", "best.cell.mean", MEASURED),
    number("expected", "best.expected", EXPECTED, heading="expected", show=".4f"),
    *interval(
        lambda row: row.best.interval or (None, None), "interval ({confidence})", OF_EXPECTED
    ),
    _n_d(
        "n_d",
        "median",
        "n_d(C): median of the smallest n that is good enough. A count.",
        heading="n_d, the smallest n that is good enough ({confidence})",
        show=lambda row: row.optimum.enough.words if row.optimum.enough else MISSING,
    ),
    _n_d("n_d_low", "low", "Lower end of its interval. A count."),
    _n_d("n_d_high", "high", "Upper end of its interval. A count."),
    _n_d_open("n_d_open_below", "open_below", "Whether n_d may lie below all n that were run."),
    _n_d_open("n_d_open_above", "open_above", "Whether n_d may lie above all n that were run."),
)


def optimum_table(data: SweepData, findings: Findings) -> Table[FrontierAt]:
    """One row per budget: what to use, n*(C) and n_d(C)."""
    optima = {each.budget: each for each in findings.saturation.optima}
    rows = tuple(
        FrontierAt(budget=at.budget, best=at.best, optimum=optima[at.budget])
        for at in findings.frontier.budgets
        if at.budget in optima
    )
    return Table(name="optima", columns=FRONTIER, rows=rows, words=_words(data, findings))


def _words(data: SweepData, findings: Findings) -> dict[str, str]:
    """Of headings."""
    return {
        "unit": UNITS[data.plan.budget_unit],
        "confidence": f"{findings.frontier.confidence:.0%}",
    }


def _seeds(kept: int, fallen: int) -> str:
    return f"{kept} (and {fallen} fallen)" if fallen else str(kept)


_SURVIVALS: Columns = (
    *planned("", "n"),
    count("runs", "num_runs", heading="runs"),
    count("fallen", "num_fallen", heading="fallen"),
    number("kept", "kept.median", heading="share that keeps its gain", show=".0%"),
    *interval(lambda row: (row.kept.low, row.kept.high), "interval"),
)


def survival_table(findings: Findings) -> Table[Survival]:
    """One row per n; none where no run fell."""
    return Table(name="survival", columns=_SURVIVALS, rows=findings.survivals)


@dataclass(frozen=True, kw_only=True)
class _FitOfRun:
    run: PlannedRun
    fit: Fit


def _estimate(name: str, heading: str) -> Columns:
    """A fitted parameter, which is a field of the fit, and its standard error."""

    def estimate(row: _FitOfRun) -> Estimate | None:
        found: Estimate | None = getattr(row.fit, name)
        return found

    def show(row: _FitOfRun) -> str:
        known = estimate(row)
        if known is None:
            return MISSING
        return f"{known.value:.3g} ± {known.standard_error:.2g}".replace("e+", "e")

    def part(of: str) -> Callable[[_FitOfRun], float | None]:
        return lambda row: getattr(estimate(row), of, None)

    return (
        number(name, part("value"), heading=heading, show=show),
        number(f"{name}_standard_error", part("standard_error")),
    )


_FITS: Columns = (
    *planned("fit", "run_id", shown=False),
    *planned("run", "n", "B", "seed"),
    count("records", "fit.num_records", heading="records"),
    number("base_reward", "fit.base_reward", heading="R0", show=".4f"),
    *_estimate("asymptote", "A"),
    *_estimate("midpoint", "C_mid"),
    *_estimate("exponent", "B (exponent)"),
    number("reduced_chi2", "fit.reduced_chi2", heading="chi²/dof", show=".2f"),
    number("share_risen", "fit.share_risen"),
    label("status", "fit.status.value", heading="status", left=True),
)


def fit_table(data: SweepData, findings: Findings) -> Table[_FitOfRun]:
    """One row per run, in the plan's order."""
    runs = {run.run_id: run for run in data.plan.runs}
    rows = tuple(_FitOfRun(run=runs[fit.run_id], fit=fit) for fit in findings.fits)
    return Table(name="fits", columns=_FITS, rows=rows)
