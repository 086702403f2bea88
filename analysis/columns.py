"""Columns of tables by name, for files and frames, and tables as the report's page shows them."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

MISSING = "–"

Dtype = Literal["int64", "float64", "str", "bool", "object"]
# Values by column.
Row = Mapping[str, Any]


class Column(NamedTuple):
    """The type of pandas, "object" for what has none, and the meaning with its unit."""

    dtype: Dtype
    text: str


Columns = Mapping[str, Column]
# A count that may be missing is a number.
count, number = partial(Column, "int64"), partial(Column, "float64")
label, flag, other = partial(Column, "str"), partial(Column, "bool"), partial(Column, "object")
# What several tables have.
BUDGET = number("Compute budget. In budget_unit.")
GENERATIONS = count("Rollouts per problem. A count.")
BATCH = count("Problems per batch. A count.")
STEPS = count("Update steps, T. A count.")
SEED = count("Seed of the training run. No unit.")
RUN_ID = label("Name of the run, and of its directory in runs/. No unit.")


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table as the page shows it; `left`: indices of columns that are set left, as words are."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset()


def page_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, left: Iterable[int] = ()
) -> PageTable:
    """A table of the page; `left`: indices of columns that are set left."""
    cells = tuple(tuple(map(str, row)) for row in rows)
    return PageTable(head=tuple(head), rows=cells, left=frozenset(left))


def to_csv(names: Iterable[str], rows: Iterable[Row]) -> str:
    """Numbers in full precision, empty where there is none; Unix line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names := tuple(names))
    writer.writerows([_in_file(row[name]) for name in names] for row in rows)
    return text.getvalue()


def _in_file(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def written(form: str) -> Callable[[Any], str]:
    """A number as `format` writes it by `form`, 1e18 for 1e+18; a dash where it is not known."""
    return lambda value: MISSING if value is None else format(value, form).replace("e+", "e")


def span(low: float | None, high: float | None) -> str:
    """An interval of rewards."""
    return MISSING if low is None or high is None else f"{low:.4f} to {high:.4f}"


def shown(row: Row, *columns: str) -> tuple[str, ...]:
    """Cells of the page, each of a column, or of "column:form"; "yes" or "no" for a truth, a dash
    where there is nothing."""
    cells = []
    for column in columns:
        name, _, form = column.partition(":")
        value = _in_file(row[name])
        cells.append(written(form)(value))
    return tuple(cells)
