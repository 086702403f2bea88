"""The words in which a figure is described: series on axes, or a heat map."""

from dataclasses import dataclass
from typing import Literal

Number = float | None
Dash = Literal["solid", "dash", "dot", "dashdot"]
BLACK, GREY = "#111111", "#9a9a9a"


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points in the axes' units. `low` and `high`: ends of vertical intervals, None without."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    text: tuple[str, ...] = ()
    label: str | None = None
    color: str = BLACK
    dash: Dash | None = "solid"
    width: float = 1.0
    opacity: float = 1.0
    marker: Literal["circle", "diamond", "square-open"] | None = None
    size: float = 6.0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """`ticks`: (value, label), or empty for the renderer's own; `limits` likewise (y only)."""

    title: str
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """`values`: (rows, columns), None where a cell is blank; `text` stands in every cell."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[Number, ...], ...]
    text: tuple[tuple[str, ...], ...]
    scale_title: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: series on axes, or a heat map. `name` is its file name without suffix."""

    name: str
    title: str
    caption: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    heat_map: HeatMap | None = None
