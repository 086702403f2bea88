"""Tables as the report's page shows them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.plan.tally import Standing
from isosweep.words.numbers import interval, short

if TYPE_CHECKING:
    import pandas

MISSING = "–"


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """Headings and rows; `left`: indices of columns that are set left, as words are."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset()


def page_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, left: Iterable[int] = ()
) -> PageTable:
    """A table of the page; `left`: indices of columns that are set left."""
    cells = tuple(tuple(map(str, row)) for row in rows)
    return PageTable(head=tuple(head), rows=cells, left=frozenset(left))


def number(value: float | None, form: str = "") -> str:
    """A number as `format` writes it by `form`, 1e18 for 1e+18; a dash where it is not known."""
    known = value is not None and value == value
    return format(value, form).replace("e+", "e") if known else MISSING


def span(low: float | None, high: float | None) -> str:
    """An interval of rewards."""
    return MISSING if MISSING in (number(low), number(high)) else f"{low:.4f} to {high:.4f}"


# By heading: a column, "column:form" of a number, or what is made of a row.
Shown = Mapping[str, str | Callable[[Any], str]]


def shown(table: "pandas.DataFrame", columns: Shown) -> PageTable:
    """The columns of a table that the page shows."""
    rows = [[_cell(row, each) for each in columns.values()] for row in table.to_dict("records")]
    return page_table(tuple(columns), rows)


def _cell(row: Mapping[str, Any], column: str | Callable[[Any], str]) -> str:
    if callable(column):
        return column(row)
    name, _, form = column.partition(":")
    value = row[name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value, form)


def _either_n(prefix: str, opening: str, row: Any) -> str:
    """n* or n_d with its interval; without one the n that cannot be distinguished from the best."""
    median, low, high = (row[f"{prefix}{end}"] for end in ("", "_low", "_high"))
    if number(median) == MISSING:
        named = ", ".join(map(str, row["candidates"]))
        return f"{{{named}}}" if prefix == "n_star" else MISSING
    below, above = (bool(row[f"{opening}open_{end}"]) for end in ("below", "above"))
    return interval(median, low, high, below=below, above=above)


def _seeds(row: Any) -> str:
    return f"{row['seeds']}" + (f" (and {row['fallen']} fallen)" if row["fallen"] else "")


def _estimate(name: str, row: Any) -> str:
    value, error = row[name], row[f"{name}_standard_error"]
    known = number(value) != MISSING
    return f"{value:.3g} ± {error:.2g}".replace("e+", "e") if known else MISSING


def page_tables(
    tables: "Mapping[str, pandas.DataFrame]", unit: str, confidence: str
) -> dict[str, PageTable]:
    """The files' tables as the page shows them, by name; `confidence`: of intervals, as 90%."""
    budget, rewards = {f"budget ({unit})": "budget:.3g"}, lambda row: span(row["low"], row["high"])
    columns: dict[str, Shown] = {
        "choices": {
            **budget,
            **{"n": "n", "best B": "B", "B tried": "batches_tried", "T": "T", "seeds": _seeds},
            **{"measured": "measured:.4f", "expected": "expected:.4f"},
            f"interval ({confidence})": rewards,
            "loss to best": "loss:.4f",
            f"loss at most ({confidence})": "loss_upper:.4f",
            **{"P(best)": "probability_best:.2f", "may be best": "may_be_best"},
        },
        "optima": {
            **budget,
            **{"n": "n", "B": "B", "T": "T"},
            f"n*, the best n ({confidence})": partial(_either_n, "n_star", ""),
            "expected": "expected:.4f",
            f"interval ({confidence})": rewards,
            f"n_d, the smallest n that is good enough ({confidence})": partial(
                _either_n, "n_d", "n_d_"
            ),
        },
        "survival": {
            **{"n": "n", "runs": "runs", "fallen": "fallen"},
            **{"share that keeps its gain": "kept:.0%", "interval": rewards},
        },
        "fits": {
            **{"n": "n", "B": "B", "seed": "seed", "records": "records", "R0": "base_reward:.4f"},
            **{"A": partial(_estimate, "asymptote"), "C_mid": partial(_estimate, "midpoint")},
            "B (exponent)": partial(_estimate, "exponent"),
            **{"chi²/dof": "reduced_chi2:.2f", "status": "status"},
        },
    }
    return {name: shown(tables[name], each) for name, each in columns.items()}


def set_table(data: SweepData) -> PageTable:
    """The sets that records are taken of; without a row where there is only the main one."""
    rows = [
        (
            reading.name or "held-out problems",
            "this report"
            if reading.name == data.evaluation_set
            else f"mode=analyse analysis.evaluation_set={reading.name or 'null'}",
            *(reading.num_problems, reading.samples_per_problem, reading.num_runs),
            *(number(reading.before, ".4f"), f"{reading.last:.4f}"),
        )
        for reading in data.sets
    ]
    head = ("set", "report", "problems", "k", "runs", "avg@k before", "avg@k at the end")
    return page_table(head, rows if len(rows) > 1 else [], left=(0, 1))


def missing_runs(data: SweepData) -> PageTable:
    """Runs that failed, diverged, broke a health rule or have not reached all their budgets."""
    lacking: dict[str, list[float]] = {}
    for reading in data.readings:
        if reading.reward is None:
            lacking.setdefault(reading.cell.run_id, []).append(reading.cell.budget)
    rows = []
    for curve in data.curves:
        budgets = lacking.get(curve.run.run_id, [])
        ending = curve.ending
        if not (budgets or ending.warnings or ending.status in ("failed", "diverged")):
            continue
        status = ending.status or ("not asked for" if data.searched else Standing.NOT_BEGUN.value)
        if curve.collapsed_at is not None:
            status += f", collapsed at step {curve.steps[curve.collapsed_at]}"
        warned = ", ".join(f"{warning.rule} (step {warning.step})" for warning in ending.warnings)
        reached = float(curve.compute[-1]) if curve.compute.size else None
        # A run that went on past a budget has no record near enough to be read there.
        past = reached is not None and any(budget < reached for budget in budgets)
        reason = ending.reason or ("no record near the budget" if past else "")
        rows.append(
            (
                *(*Pair.of(curve.run), curve.run.seed, status, reason, warned),
                *(number(reached, ".4g"), ", ".join(map(short, budgets)) or "none"),
                curve.run.run_id,
            )
        )
    head = ("n", "B", "seed", "status", "reason", "warnings", "compute reached")
    return page_table((*head, "budgets not read", "run"), rows, left=(3, 4, 5, 8))
