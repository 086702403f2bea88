"""Draws a described figure, twice: with plotly for the report, with matplotlib as PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import NullLocator

from isosweep.analysis.figure import Axis, Figure, HeatMap, Series

DPI = 200
_SCALE = "viridis"
_PLOTLY_MARKERS = {"circle": "circle", "diamond": "diamond", "square-open": "square-open"}
_PNG_MARKERS = {"circle": "o", "diamond": "D", "square-open": "s"}
_PNG_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def to_plotly(figure: Figure) -> Any:
    """The figure as a plotly `Figure`."""
    drawn = go.Figure()
    for series in figure.series:
        drawn.add_trace(_plotly_series(series))
    if figure.heat_map is not None:
        drawn.add_trace(_plotly_heat_map(figure.heat_map))
    category = figure.heat_map is not None
    drawn.update_layout(
        template="plotly_white",
        title={"text": figure.title, "font": {"size": 17}},
        xaxis=_plotly_axis(figure.x, category=category),
        yaxis=_plotly_axis(figure.y, category=category),
        legend={"itemsizing": "constant"},
        height=460,
        margin={"l": 70, "r": 20, "t": 55, "b": 60},
        hovermode="closest",
    )
    if figure.heat_map is not None:
        # Plotly draws the first row at the bottom.
        drawn.update_yaxes(autorange="reversed")
        for row, column, text in _blank_cells(figure.heat_map):
            drawn.add_annotation(x=column, y=row, text=text, showarrow=False)
    return drawn


def _blank_cells(heat_map: HeatMap) -> list[tuple[int, int, str]]:
    """Row, column and text of the cells without a value, in which plotly writes no text."""
    return [
        (i, j, heat_map.text[i][j])
        for i, row in enumerate(heat_map.values)
        for j, value in enumerate(row)
        if value is None
    ]


def _plotly_axis(axis: Axis, *, category: bool) -> dict[str, Any]:
    layout: dict[str, Any] = {"title": {"text": axis.title}}
    if category:
        layout["type"] = "category"
    elif axis.log:
        layout |= {"type": "log", "exponentformat": "power", "dtick": "D2"}
    if axis.ticks:
        layout.pop("dtick", None)
        layout["tickmode"] = "array"
        layout["tickvals"] = [value for value, _ in axis.ticks]
        layout["ticktext"] = [label for _, label in axis.ticks]
    if axis.limits is not None:
        layout["range"] = list(axis.limits)
    return layout


def _plotly_series(series: Series) -> Any:
    modes = [
        mode
        for mode, wanted in (("lines", series.dash), ("markers", series.marker))
        if wanted is not None
    ]
    errors = None
    if any(value is not None for value in series.low):
        up, down = _error_lengths(series)
        errors = {
            "type": "data",
            "symmetric": False,
            "array": up,
            "arrayminus": down,
            "thickness": series.width,
            "width": 0 if series.width > 3 else 4,
        }
    # Points without coordinates draw nothing but keep the legend's entry.
    empty = series.label is not None and not series.x
    return go.Scatter(
        x=[None] if empty else list(series.x),
        y=[None] if empty else list(series.y),
        mode="+".join(modes) or "markers",
        text=list(series.text) or None,
        hovertemplate="%{text}<br>%{x:.3g}, %{y:.4g}<extra></extra>" if series.text else None,
        hoverinfo=None if series.text else "skip",
        name=series.label or "",
        showlegend=series.label is not None,
        line={"color": series.color, "dash": series.dash or "solid", "width": series.width},
        marker={
            "color": series.color,
            "symbol": _PLOTLY_MARKERS[series.marker or "circle"],
            "size": series.size if series.marker else 0,
        },
        opacity=series.opacity,
        error_y=errors,
    )


def _error_lengths(series: Series) -> tuple[list[float], list[float]]:
    """Lengths of the intervals above and below each point; 0 where there is none."""
    points = list(zip(series.y, series.low, series.high, strict=True))
    up = [0.0 if high is None else high - y for y, _, high in points]
    down = [0.0 if low is None else y - low for y, low, _ in points]
    return up, down


def _plotly_heat_map(heat_map: HeatMap) -> Any:
    return go.Heatmap(
        x=list(heat_map.columns),
        y=list(heat_map.rows),
        z=[list(row) for row in heat_map.values],
        text=[list(row) for row in heat_map.text],
        texttemplate="%{text}",
        colorscale=_SCALE,
        colorbar={"title": {"text": heat_map.scale_title}},
        hovertemplate="n=%{y}, B=%{x}: %{text}<extra></extra>",
        showscale=any(value is not None for row in heat_map.values for value in row),
    )


def write_png(figure: Figure, path: Path) -> None:
    """Draw the figure at 200 dpi into `path`, which is replaced in one step."""
    drawn = matplotlib.figure.Figure(figsize=(8.0, 4.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.add_subplot()
    axes.set_title(figure.title, fontsize=11)
    axes.set_xlabel(figure.x.title)
    axes.set_ylabel(figure.y.title)
    if figure.heat_map is not None:
        _png_heat_map(drawn, axes, figure.heat_map)
    else:
        _png_axes(figure, axes)
        for series in figure.series:
            _png_series(axes, series)
        if any(series.label for series in figure.series):
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    temporary = path.with_name(f".{path.name}")
    drawn.savefig(temporary, format="png")
    temporary.replace(path)


def _png_axes(figure: Figure, axes: Axes) -> None:
    if figure.x.log:
        axes.set_xscale("log")
    if figure.y.log:
        axes.set_yscale("log", base=2)
    for described, axis in ((figure.x, axes.xaxis), (figure.y, axes.yaxis)):
        if described.ticks:
            values, labels = zip(*described.ticks, strict=True)
            axis.set_ticks(values, labels)
            axis.set_minor_locator(NullLocator())
    if figure.y.limits is not None:
        axes.set_ylim(*figure.y.limits)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _png_series(axes: Axes, series: Series) -> None:
    if any(value is not None for value in series.low):
        up, down = _error_lengths(series)
        axes.errorbar(
            series.x,
            series.y,
            yerr=[down, up],
            fmt="none",
            ecolor=series.color,
            elinewidth=series.width,
            capsize=0 if series.width > 3 else 3,
            alpha=series.opacity,
        )
    if series.dash is None and series.marker is None:
        return
    hollow = series.marker == "square-open"
    axes.plot(
        series.x,
        series.y,
        color=series.color,
        linestyle="none" if series.dash is None else _PNG_DASHES[series.dash],
        linewidth=series.width,
        marker=None if series.marker is None else _PNG_MARKERS[series.marker],
        markersize=series.size * 0.8,
        markerfacecolor="white" if hollow else series.color,
        alpha=series.opacity,
        label=series.label,
    )


def _png_heat_map(drawn: matplotlib.figure.Figure, axes: Axes, heat_map: HeatMap) -> None:
    values = np.array(
        [[np.nan if v is None else v for v in row] for row in heat_map.values], dtype=np.float64
    )
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    # One value only still needs a range for its colour.
    high = max(high, low + 1e-9)
    image = axes.imshow(values, cmap=_SCALE, aspect="auto", vmin=low, vmax=high)
    axes.set_xticks(range(len(heat_map.columns)), heat_map.columns)
    axes.set_yticks(range(len(heat_map.rows)), heat_map.rows)
    _png_cell_texts(axes, heat_map.text, (values - low) / (high - low))
    if known.size > 1:
        drawn.colorbar(image, ax=axes, label=heat_map.scale_title)


def _png_cell_texts(axes: Axes, text: Sequence[Sequence[str]], level: Any) -> None:
    for row, cells in enumerate(text):
        for column, cell in enumerate(cells):
            dark = bool(level[row, column] < 0.6)  # False for blank cells, whose level is nan
            axes.text(
                column,
                row,
                cell,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
