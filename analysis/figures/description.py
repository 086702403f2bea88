"""The words in which a figure is described: bands and series on axes, or a heat map."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.colors import INK
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.intervals import Interval

Number = float | None
# Fields of a `Series` that several have.
Look = dict[str, Any]
Dash = Literal["solid", "dash", "dot", "dashdot"]
Marker = Literal[
    "circle",
    "circle-open",
    "diamond",
    "square-open",
    "x-open",
    "triangle-up-open",
    "triangle-down-open",
]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points in the axes' units. `low` and `high`: ends of vertical intervals, None without.

    A point that is not a number interrupts the line. `text`: what pointing at each point shows,
    lines separated by a newline. `groups`: of the figure's groups those that show it; empty: all.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    text: tuple[str, ...] = ()
    label: str | None = None
    color: str = INK
    dash: Dash | None = "solid"
    width: float = 1.0
    opacity: float = 1.0
    marker: Marker | None = None
    size: float = 6.0
    groups: tuple[str, ...] = ()


_Item = TypeVar("_Item")


def series_of(
    items: Iterable[_Item],
    x: Callable[[_Item], float],
    y: Callable[[_Item], float],
    *,
    ends: Callable[[_Item], Interval | tuple[Number, Number] | None] | None = None,
    text: Callable[[_Item], str] | None = None,
    **look: Any,
) -> Series:
    """A point for each of the items, and what a `Series` looks like; `ends`: of its interval."""
    items = tuple(items)
    pairs = [_pair(ends(item)) for item in items] if ends else []
    return Series(
        x=tuple(float(x(item)) for item in items),
        y=tuple(float(y(item)) for item in items),
        low=tuple(low for low, _ in pairs),
        high=tuple(high for _, high in pairs),
        text=tuple(map(text, items)) if text else (),
        **look,
    )


def _pair(ends: Interval | tuple[Number, Number] | None) -> tuple[Number, Number]:
    return (ends.low, ends.high) if isinstance(ends, Interval) else ends or (None, None)


Point = tuple[float, float, str]
# Interrupts a line.
BREAK: Point = (math.nan, math.nan, "")


def points_of(points: Iterable[Point], **look: Any) -> Series:
    """A series of points, each with what pointing at it shows."""
    x, y, text = zip(*points, strict=True)
    return Series(x=x, y=y, text=text, **look)


# Points that no line joins.
DOTS: Look = {"dash": None, "marker": "circle"}


@dataclass(frozen=True, kw_only=True)
class Band:
    """The area between `low` and `high` over `x`, filled, behind all series."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    color: str
    opacity: float = 0.15
    label: str | None = None


def band_of(x: Iterable[float], intervals: Iterable[Interval], **look: Any) -> Band:
    """The area of intervals over `x`."""
    intervals = tuple(intervals)
    low, high = tuple(each.low for each in intervals), tuple(each.high for each in intervals)
    return Band(x=tuple(x), low=low, high=high, **look)


@dataclass(frozen=True, kw_only=True)
class EndLabel:
    """What a line is called, written beside its end at (x, y).

    `shift`: how far above its line the words stand, as a share of the figure's height.
    """

    x: float
    y: float
    text: str
    color: str
    shift: float = 0.0
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Axis:
    """`ticks`: (value, label), or empty for the renderer's own; `limits` likewise."""

    title: str
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """`values`: (rows, columns), None where a cell is blank; `text`: written in every cell.

    `scale`: colours from the smallest value to the largest, evenly spaced.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[Number, ...], ...]
    text: tuple[tuple[str, ...], ...]
    scale_title: str
    scale: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, in light colours.

    `groups`: sets of series of which a reader sees one at a time, the first one at first, which is
    also what files show. `small`: one of several that stand side by side.
    """

    title: str
    caption: str
    x: Axis
    y: Axis
    bands: tuple[Band, ...] = ()
    series: tuple[Series, ...] = ()
    heat_map: HeatMap | None = None
    labels: tuple[EndLabel, ...] = ()
    groups: tuple[str, ...] = ()
    small: bool = False

    def of_group(self) -> "Figure":
        """The figure as files show it: with the first group alone."""
        shown = self.groups[:1]

        def kept(groups: tuple[str, ...]) -> bool:
            return not groups or not shown or shown[0] in groups

        series = tuple(each for each in self.series if kept(each.groups))
        labels = tuple(each for each in self.labels if kept(each.groups))
        return replace(self, series=series, labels=labels, groups=())


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A figure that would show nothing, and why, in one line."""

    reason: str


NO_BUDGET = LeftOut(reason="no run has reached a budget yet")


# Sections of the report's page that have figures, in the page's order.
Section = Literal[
    "Answer", "Best n", "Reward", "Curves", "Fits", "Search", "Training", "Problems", "Cells"
]


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """One figure of the report: what its files are called, where it is shown, and what draws it."""

    name: str
    section: Section
    describe: Callable[[SweepData, Findings], Figure | LeftOut]
