"""The analysis's tables: rows for files and frames, and what the report's page shows of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from isosweep.analysis.columns import (
    BATCH,
    BUDGET,
    GENERATIONS,
    MISSING,
    RUN_ID,
    SEED,
    STEPS,
    Columns,
    PageTable,
    Row,
    count,
    flag,
    label,
    number,
    other,
    page_table,
    shown,
    span,
    to_csv,
)
from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.pairs import Pair, Paired
from isosweep.analysis.statistics.findings import Findings
from isosweep.words.numbers import UNITS


@dataclass(frozen=True, kw_only=True)
class Table:
    """One file beside the report, `NAME.csv`, and one table of the page."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    page: PageTable

    def to_csv(self) -> str:
        """The file's text."""
        return to_csv(self.columns, self.rows)


def all_tables(data: SweepData, findings: Findings) -> tuple[Table, ...]:
    """Every table that lies beside the report."""
    return (
        cell_table(data),
        choice_table(data, findings),
        optimum_table(data, findings),
        survival_table(findings),
        fit_table(data, findings),
    )


def _pair(item: Paired) -> Row:
    return dict(zip(("n", "B"), Pair.of(item), strict=True))


CELLS: Columns = {
    "budget": BUDGET,
    "n": GENERATIONS,
    "B": BATCH,
    "T": STEPS,
    "seed": SEED,
    "run_id": RUN_ID,
    "planned_compute": number("Predicted compute of T steps. In budget_unit."),
    "measured_compute": number(
        "Measured compute at the record nearest to the budget; missing without a reward. "
        "In budget_unit."
    ),
    "reward": number(
        "Held-out reward by analysis.metric; missing where the run has not reached this budget, or "
        "collapsed or diverged before it. Reward."
    ),
    "reading": label("How reward was read: exact, interpolated, collapsed, diverged or missing."),
}


def cell_row(reading: CellReading) -> Row:
    """One cell."""
    cell = reading.cell
    return {
        "budget": cell.budget,
        **_pair(cell),
        "T": cell.num_steps,
        "seed": cell.seed,
        "run_id": cell.run_id,
        "planned_compute": cell.planned_compute,
        "measured_compute": reading.measured_compute,
        "reward": reading.reward,
        "reading": reading.reading,
    }


def cell_table(data: SweepData) -> Table:
    """One row per cell, in the plan's order; on the page one per (budget, n, B), with columns of
    readings for every seed."""
    rows = tuple(map(cell_row, data.readings))
    seeds = sorted({cell.seed for cell in data.plan.cells})
    pairs: dict[tuple[float, int, int], dict[int, Row]] = {}
    for row in rows:
        pairs.setdefault((row["budget"], row["n"], row["B"]), {})[row["seed"]] = row
    lines = []
    for key in sorted(pairs):
        read = [pairs[key].get(seed) for seed in seeds]
        shared = next(row for row in read if row is not None)
        measured = [MISSING if r is None else shown(r, "measured_compute:.4g")[0] for r in read]
        common = shown(shared, "budget:.3g", "n", "B", "T", "planned_compute:.4g")
        lines.append((*common, *measured, *map(_reward, read)))
    head = ["budget", "n", "B", "T", "planned"]
    head += [f"{what}, seed {seed}" for what in ("measured", "reward") for seed in seeds]
    return Table(name="frontier", columns=(*CELLS,), rows=rows, page=page_table(head, lines))


def _reward(row: Row | None) -> str:
    if row is None or row["reward"] is None:
        return MISSING
    return ("~" if row["reading"] == "interpolated" else "") + f"{row['reward']:.4f}"


MEASURED = number("Mean of the measured rewards. Reward.")
EXPECTED = number("Reward to expect of a new run, from the fit over compute, n and B. Reward.")
LOW = number("Lower end of the interval of expected, at analysis.confidence. Reward.")
HIGH = number("Upper end of the interval of expected, at analysis.confidence. Reward.")

CHOICES: Columns = {
    "budget": BUDGET,
    "n": GENERATIONS,
    "B": count("The best problems per batch for this n. A count."),
    "batches_tried": count("Values of B that were measured with this n. A count."),
    "T": STEPS,
    "seeds": count("Seeds in measured. A count."),
    "fallen": count("Further seeds, which had collapsed or diverged by then. A count."),
    "measured": MEASURED,
    "standard_error": number("Standard error of measured. Reward."),
    "expected": EXPECTED,
    "low": LOW,
    "high": HIGH,
    "loss": number("Reward expected to be lost against the best n. Reward."),
    "loss_upper": number("Upper bound of loss, at analysis.confidence. Reward."),
    "probability_best": number(
        "Probability that no other n is better at this budget; missing with a single n. A share."
    ),
    "may_be_best": flag("Whether this n cannot be distinguished from the best."),
}


def choice_rows(findings: Findings) -> Iterator[Row]:
    """One row per budget and n, at its best B."""
    for at in findings.frontier.budgets:
        for choice in at.choices:
            cell, (low, high) = choice.cell, choice.interval or (None, None)
            yield {
                "budget": at.budget,
                **_pair(cell),
                "batches_tried": choice.num_batches_tried,
                "T": cell.num_steps,
                "seeds": cell.num_seeds,
                "fallen": cell.num_fallen,
                "measured": cell.mean,
                "standard_error": cell.standard_error,
                "expected": choice.expected,
                "low": low,
                "high": high,
                "loss": choice.loss,
                "loss_upper": choice.loss_upper,
                "probability_best": choice.probability_best,
                "may_be_best": choice.indistinguishable,
            }


def choice_table(data: SweepData, findings: Findings) -> Table:
    """Every n at every budget."""
    rows, sure = tuple(choice_rows(findings)), f"{findings.frontier.confidence:.0%}"
    head = (
        *(f"budget ({UNITS[data.plan.budget_unit]})", "n", "best B", "B tried", "T", "seeds"),
        *("measured", "expected", f"interval ({sure})", "loss to best", f"loss at most ({sure})"),
        *("P(best)", "may be best"),
    )
    lines = [
        (
            *shown(row, "budget:.3g", "n", "B", "batches_tried", "T"),
            f"{row['seeds']}" + (f" (and {row['fallen']} fallen)" if row["fallen"] else ""),
            *shown(row, "measured:.4f", "expected:.4f"),
            span(row["low"], row["high"]),
            *shown(row, "loss:.4f", "loss_upper:.4f", "probability_best:.2f", "may_be_best"),
        )
        for row in rows
    ]
    return Table(name="choices", columns=(*CHOICES,), rows=rows, page=page_table(head, lines))


FRONTIER: Columns = {
    "budget": BUDGET,
    "n": count("The n of the grid with the highest expected reward. A count."),
    "B": count("Problems per batch with it. A count."),
    "T": STEPS,
    "n_star": number(
        "n*(C): median of the best n, which may lie between those that were run. A count."
    ),
    "n_star_low": number("Lower end of its interval. A count."),
    "n_star_high": number("Upper end of its interval. A count."),
    "open_below": flag("Whether n* may lie below all n that were run."),
    "open_above": flag("Whether n* may lie above all n that were run."),
    "candidates": other("The n that cannot be distinguished from the best, ascending."),
    "measured": MEASURED,
    "expected": EXPECTED,
    "low": LOW,
    "high": HIGH,
    "n_d": number("n_d(C): median of the smallest n that is good enough. A count."),
    "n_d_low": number("Lower end of its interval. A count."),
    "n_d_high": number("Upper end of its interval. A count."),
    "n_d_open_below": other("Whether n_d may lie below all n that were run."),
    "n_d_open_above": other("Whether n_d may lie above all n that were run."),
}


def frontier_rows(findings: Findings) -> Iterator[Row]:
    """One row per budget: what to use, n*(C) and n_d(C)."""
    for at in findings.frontier.budgets:
        best, n_star, n_d = at.best, at.optimum.n_star, at.optimum.n_d
        low, high = best.interval or (None, None)
        yield {
            "budget": at.budget,
            **_pair(best.cell),
            "T": best.cell.num_steps,
            "n_star": n_star and n_star.median,
            "n_star_low": n_star and n_star.low,
            "n_star_high": n_star and n_star.high,
            "open_below": n_star and n_star.open_below,
            "open_above": n_star and n_star.open_above,
            "candidates": at.candidates,
            "measured": best.cell.mean,
            "expected": best.expected,
            "low": low,
            "high": high,
            "n_d": n_d and n_d.median,
            "n_d_low": n_d and n_d.low,
            "n_d_high": n_d and n_d.high,
            "n_d_open_below": n_d and n_d.open_below,
            "n_d_open_above": n_d and n_d.open_above,
        }


def optimum_table(data: SweepData, findings: Findings) -> Table:
    """The best n at every budget."""
    rows, sure = tuple(frontier_rows(findings)), f"{findings.frontier.confidence:.0%}"
    head = (
        *(f"budget ({UNITS[data.plan.budget_unit]})", "n", "B", "T"),
        *(f"n*, the best n ({sure})", "expected", f"interval ({sure})"),
        f"n_d, the smallest n that is good enough ({sure})",
    )
    lines = [
        (
            *shown(row, "budget:.3g", "n", "B", "T"),
            str(at.optimum),
            *shown(row, "expected:.4f"),
            span(row["low"], row["high"]),
            str(at.optimum.n_d or MISSING),
        )
        for row, at in zip(rows, findings.frontier.budgets, strict=True)
    ]
    return Table(name="optima", columns=(*FRONTIER,), rows=rows, page=page_table(head, lines))


def survival_table(findings: Findings) -> Table:
    """One row per n; none where no run fell."""
    rows = tuple(
        {
            "n": each.num_generations,
            "runs": each.num_runs,
            "fallen": each.num_fallen,
            "kept": each.kept.median,
            "low": each.kept.low,
            "high": each.kept.high,
        }
        for each in findings.survivals
    )
    head = ("n", "runs", "fallen", "share that keeps its gain", "interval")
    lines = [
        (*shown(row, "n", "runs", "fallen", "kept:.0%"), span(row["low"], row["high"]))
        for row in rows
    ]
    columns = ("n", "runs", "fallen", "kept", "low", "high")
    return Table(name="survival", columns=columns, rows=rows, page=page_table(head, lines))


# Names of parameters of a fit, and how the page calls them.
_PARAMETERS = {"asymptote": "A", "midpoint": "C_mid", "exponent": "B (exponent)"}


def fit_table(data: SweepData, findings: Findings) -> Table:
    """One row per run, in the plan's order."""
    runs, rows, lines = {run.run_id: run for run in data.plan.runs}, [], []
    for fit in findings.fits:
        found = {name: getattr(fit, name) for name in _PARAMETERS}
        row: dict[str, Any] = {
            "run_id": fit.run_id,
            **_pair(runs[fit.run_id]),
            "seed": runs[fit.run_id].seed,
            "records": fit.num_records,
            "base_reward": fit.base_reward,
        }
        for name, estimate in found.items():
            row[name] = estimate and estimate.value
            row[f"{name}_standard_error"] = estimate and estimate.standard_error
        row |= {
            "reduced_chi2": fit.reduced_chi2,
            "share_risen": fit.share_risen,
            "status": fit.status.value,
        }
        rows.append(row)
        line = (*shown(row, "n", "B", "seed", "records", "base_reward:.4f"), *_estimates(row))
        lines.append((*line, *shown(row, "reduced_chi2:.2f", "status")))
    head = ("n", "B", "seed", "records", "R0", *_PARAMETERS.values(), "chi²/dof", "status")
    columns = (
        *("run_id", "n", "B", "seed", "records", "base_reward"),
        *(f"{name}{end}" for name in _PARAMETERS for end in ("", "_standard_error")),
        *("reduced_chi2", "share_risen", "status"),
    )
    page = page_table(head, lines, left=(len(head) - 1,))
    return Table(name="fits", columns=columns, rows=tuple(rows), page=page)


def _estimates(row: Row) -> Iterable[str]:
    """Every parameter with its standard error."""
    for name in _PARAMETERS:
        value, error = row[name], row[f"{name}_standard_error"]
        known = value is not None
        yield f"{value:.3g} ± {error:.2g}".replace("e+", "e") if known else MISSING
