"""Columns of a table, described once: for its CSV file and for the report's page."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

MISSING = "–"

Row = TypeVar("Row")
# What one row has in the columns of a CSV file: numbers, words, None for what is not known.
Values = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table as the page shows it; `left`: indices of columns that are set left, as words are."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """One column of the page and the columns of the CSV file that it is made of.

    `names`: in the file; `values`: of a row, as many. `heading`: on the page, with the unit where
    there is one; None for what only the file has. `text`: the page's cell from the values.
    `left`: set left on the page, as words are.
    """

    names: tuple[str, ...]
    values: Callable[[Row], Values]
    heading: str | None
    text: Callable[..., str]
    left: bool = False

    def cell(self, row: Row | None) -> str:
        """What the page shows of a row; of None what it shows where there is nothing."""
        values = (None,) * len(self.names) if row is None else self.values(row)
        return self.text(*values)


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Row]):
    """One file beside the report, `NAME.csv`, and one table of the page."""

    name: str
    columns: tuple[Column[Row], ...]
    rows: tuple[Row, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The file's columns."""
        return tuple(name for column in self.columns for name in column.names)

    def values(self) -> list[Values]:
        """What the file has of every row, in the order of `names`."""
        return [
            tuple(v for column in self.columns for v in column.values(row)) for row in self.rows
        ]

    def to_csv(self) -> str:
        """Numbers in full precision, empty where there is none; Unix line ends."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.names, *self.values()])
        return text.getvalue()

    def to_page(self) -> PageTable:
        """The columns that have a heading."""
        shown = [column for column in self.columns if column.heading is not None]
        return PageTable(
            head=tuple(column.heading or "" for column in shown),
            rows=tuple(tuple(column.cell(row) for column in shown) for row in self.rows),
            left=frozenset(i for i, column in enumerate(shown) if column.left),
        )


def number(name: str, field: str, heading: str | None, form: str) -> Column[Any]:
    """A number, which `field` (dotted) of the row is; the page writes it by `form`."""
    return value(name, attrgetter(field), heading, written(form))


def plain(name: str, field: str, heading: str | None = None) -> Column[Any]:
    """A whole number or a word that the page shows as it is, by default under the file's name."""
    return value(name, attrgetter(field), heading or name, str)


def file_only(name: str, field: str) -> Column[Any]:
    """What the page has no room for."""
    return value(name, attrgetter(field), None, str)


def value(
    name: str,
    read: Callable[[Any], object],
    heading: str | None,
    text: Callable[[Any], str],
    *,
    left: bool = False,
) -> Column[Any]:
    """One column of the page that is one column of the file."""
    return Column(
        names=(name,), values=lambda row: (read(row),), heading=heading, text=text, left=left
    )


def written(form: str) -> Callable[[Any], str]:
    """A number as `format` writes it by `form`, 1e18 for 1e+18; a dash where it is not known."""
    return lambda value: MISSING if value is None else format(value, form).replace("e+", "e")


def span(low: float | None, high: float | None) -> str:
    """An interval of rewards."""
    return MISSING if low is None or high is None else f"{low:.4f} to {high:.4f}"


def word(value: str | None) -> str:
    """A word; a dash where there is none."""
    return MISSING if value is None else value


def page_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, left: Iterable[int] = ()
) -> PageTable:
    """A table that only the page has; `left`: indices of columns that are set left."""
    cells = tuple(tuple(map(str, row)) for row in rows)
    return PageTable(head=tuple(head), rows=cells, left=frozenset(left))
