"""Columns of a table, each described once: for its CSV file, its frame in Python and the report."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

MISSING = "–"

Row = TypeVar("Row")
Dtype = Literal["int64", "float64", "str", "bool", "object"]
Read = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table as the page shows it; `left`: indices of columns that are set left, as words are."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """One column, by `name` in the file and in Python.

    `read`: its value of a row, a number, a word, or None for what is not known. `dtype`: of pandas,
    "object" for what has none; a count that may be missing is a float. `text`: the meaning, and
    the unit. `heading`: on the page, with the unit where there is one, and with words of the table
    in braces; None where the page lacks it. `show`: the page's cell of a row, which may say more
    than `read`. `left`: set left on the page, as words are.
    """

    name: str
    read: Callable[[Row], Any]
    dtype: Dtype
    text: str = ""
    heading: str | None = None
    show: Callable[[Row], str]
    left: bool = False

    def cell(self, row: Row | None) -> str:
        """What the page shows of a row; a dash where there is none."""
        return MISSING if row is None else self.show(row)


Columns = tuple[Column[Any], ...]


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Row]):
    """One file beside the report, `NAME.csv`, and one table of the page; `words`: of headings."""

    name: str
    columns: tuple[Column[Row], ...]
    rows: tuple[Row, ...]
    words: Mapping[str, str] = field(default_factory=dict)

    def to_csv(self) -> str:
        """Numbers in full precision, empty where there is none; Unix line ends."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        writer.writerows([_in_file(c.read(row)) for c in self.columns] for row in self.rows)
        return text.getvalue()

    def to_page(self) -> PageTable:
        """The columns that have a heading."""
        shown = [column for column in self.columns if column.heading is not None]
        return PageTable(
            head=tuple((column.heading or "").format(**self.words) for column in shown),
            rows=tuple(tuple(column.cell(row) for column in shown) for row in self.rows),
            left=frozenset(i for i, column in enumerate(shown) if column.left),
        )


def column(
    dtype: Dtype,
    name: str,
    read: str | Read,
    text: str = "",
    *,
    heading: str | None = None,
    show: str | Callable[[Any], str] = "",
    left: bool = False,
) -> Column[Any]:
    """A column; `read`: a field (dotted) or what reads a row; `show`: a form of numbers, by default
    as `word` has it, or what words a row."""
    reader = attrgetter(read) if isinstance(read, str) else read
    if isinstance(show, str):
        write = written(show) if show else word
        show = lambda row: write(reader(row))  # noqa: E731
    return Column(
        name=name, read=reader, dtype=dtype, text=text, heading=heading, show=show, left=left
    )


# A count that may be missing is a number.
count, number = partial(column, "int64"), partial(column, "float64")
label, flag, other = partial(column, "str"), partial(column, "bool"), partial(column, "object")
# What several tables have: the meaning, and the unit.
BUDGET = "Compute budget. In budget_unit."
MEASURED = "Mean of the measured rewards. Reward."
EXPECTED = "Reward to expect of a new run, from the fit over compute, n and B. Reward."
OF_EXPECTED = "the interval of expected, at analysis.confidence. Reward."
# By the name that tables have for it: the field of a cell or a run, its type and meaning.
_PLANNED: Mapping[str, tuple[str, Dtype, str]] = {
    "n": ("num_generations", "int64", "Rollouts per problem. A count."),
    "B": ("problems_per_batch", "int64", "Problems per batch. A count."),
    "T": ("num_steps", "int64", "Update steps, T. A count."),
    "seed": ("seed", "int64", "Seed of the training run. No unit."),
    "run_id": ("run_id", "str", "Name of the run, and of its directory in runs/. No unit."),
}


def planned(place: str, *names: str, shown: bool = True) -> Columns:
    """Columns of what a plan says of a cell or a run, which is `place` (dotted) of the row, or the
    row itself where that is ""; `shown`: on the page too, under the same names."""

    def of_plan(name: str) -> Column[Any]:
        of, dtype, text = _PLANNED[name]
        read = f"{place}.{of}" if place else of
        return column(dtype, name, read, text, heading=name if shown else None)

    return tuple(map(of_plan, names))


def interval(read: Read, heading: str | None = None, text: str = "") -> Columns:
    """`low` and `high`, in one cell of the page; `read`: both of a row; `text`: of what they are
    the ends, and the unit."""
    low = number(
        "low",
        lambda row: read(row)[0],
        f"Lower end of {text}",
        heading=heading,
        show=lambda row: span(*read(row)),
    )
    high = number("high", lambda row: read(row)[1], f"Upper end of {text}")
    return (low, high)


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


def word(value: object) -> str:
    """A whole number or a word, "yes" or "no" for a truth; a dash where there is none."""
    return MISSING if value is None else str(_in_file(value))


def page_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, left: Iterable[int] = ()
) -> PageTable:
    """A table that only the page has; `left`: indices of columns that are set left."""
    cells = tuple(tuple(map(str, row)) for row in rows)
    return PageTable(head=tuple(head), rows=cells, left=frozenset(left))
