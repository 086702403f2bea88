"""The words in which a figure is described: bands and series on axes, or a heat map."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.colors import INK
from isosweep.analysis.statistics.findings import Findings

Number = float | None
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

    `text`: what pointing at each point shows, lines separated by a newline.
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


@dataclass(frozen=True, kw_only=True)
class Band:
    """The area between `low` and `high` over `x`, filled, behind all series."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    color: str
    opacity: float = 0.15
    label: str | None = None


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
    """One figure, in light colours."""

    title: str
    caption: str
    x: Axis
    y: Axis
    bands: tuple[Band, ...] = ()
    series: tuple[Series, ...] = ()
    heat_map: HeatMap | None = None


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A figure that would show nothing, and why, in one line."""

    reason: str


# Sections of the report's page that have figures, by their headings.
Section = Literal["Verdict", "Search", "Cells", "Problems", "Fits"]


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """One figure of the report: what its files are called, where it is shown, and what draws it."""

    name: str
    section: Section
    describe: Callable[[SweepData, Findings], Figure | LeftOut]
