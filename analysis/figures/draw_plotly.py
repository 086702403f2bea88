"""Draws a described figure with plotly, in light colours; the report's page can make it dark."""

import importlib
import math
from html import escape
from typing import Any

from isosweep.analysis.figures.colors import GREY, GRID, GROUND, INK
from isosweep.analysis.figures.description import (
    Axis,
    Band,
    EndLabel,
    Figure,
    HeatMap,
    Number,
    Series,
)


def to_plotly(figure: Figure) -> Any:
    """The figure as a plotly `Figure`. Every colour in it is one of `colors`, by itself."""
    # Plotly looks into pandas where it finds it: a thread that imports MLflow may be half way.
    importlib.import_module("pandas")
    import plotly.graph_objects as go

    drawn = go.Figure()
    traces = [_band(band) for band in figure.bands]
    traces += [_series(series, figure.groups[:1]) for series in figure.series]
    if figure.heat_map is not None:
        traces.append(_heat_map(figure.heat_map))
    drawn.add_traces(traces)
    category = figure.heat_map is not None
    drawn.update_layout(
        # Plotly's own templates name colours of their own, which no map would know.
        template="none",
        title={"text": _safe(figure.title), "font": {"size": 17}, "x": 0.01, "xanchor": "left"},
        font={"color": INK, "family": "system-ui, sans-serif", "size": 13},
        paper_bgcolor=GROUND,
        plot_bgcolor=GROUND,
        xaxis=_axis(figure.x, category=category),
        yaxis=_axis(figure.y, category=category),
        legend={"itemsizing": "constant"},
        hoverlabel={
            "bgcolor": GROUND,
            "bordercolor": GREY,
            "font": {"color": INK},
            "align": "left",
        },
        height=460,
        margin={"l": 75, "r": 20, "t": 55, "b": 60},
        hovermode="closest",
    )
    if figure.labels:
        # Room for the words beside the lines.
        drawn.update_layout(
            margin={"r": 90}, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}
        )
    if figure.groups:
        drawn.update_layout(meta={"labels": [list(label.groups) for label in figure.labels]})
    if figure.heat_map is not None:
        # Plotly draws the first row at the bottom.
        drawn.update_yaxes(autorange="reversed")
    labels = [_end_label(label, figure) for label in figure.labels]
    # At once: plotly copies those that are there for each that is added.
    drawn.update_layout(annotations=labels + _blank_cells(figure))
    return drawn


def _safe(text: str) -> str:
    """Text for plotly, which reads a part of HTML in titles, labels and hover texts."""
    return escape(text, quote=False).replace("\n", "<br>")


# Height of the plot itself, in pixels, that shifts of labels are shares of.
_PLOT_HEIGHT = 345


def _end_label(label: EndLabel, figure: Figure) -> dict[str, Any]:
    """The words, to the right of the line's end and joined to it by a thin line."""
    return {
        "visible": not label.groups or bool({*figure.groups[:1]} & {*label.groups}),
        # Annotations of logarithmic axes lie at logarithms.
        "x": _place(figure.x, label.x),
        "y": _place(figure.y, label.y),
        "text": _safe(label.text),
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": label.color,
        "ax": 14,
        "ay": -label.shift * _PLOT_HEIGHT,
        "xanchor": "left",
        "font": {"color": INK, "size": 12},
    }


def _blank_cells(figure: Figure) -> list[dict[str, Any]]:
    """The texts of the cells without a value, in which plotly writes none."""
    if figure.heat_map is None:
        return []
    return [
        {"x": j, "y": i, "text": figure.heat_map.text[i][j], "showarrow": False}
        for i, row in enumerate(figure.heat_map.values)
        for j, value in enumerate(row)
        if value is None
    ]


def _axis(axis: Axis, *, category: bool) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "title": {"text": _safe(axis.title)},
        "gridcolor": GRID,
        "linecolor": GREY,
        "showline": True,
        "ticks": "outside",
        "tickcolor": GREY,
        "zeroline": False,
    }
    if category:
        return {**layout, "type": "category", "showgrid": False}
    if axis.log:
        layout["type"] = "log"
    if axis.ticks:
        layout["tickmode"] = "array"
        layout["tickvals"] = [value for value, _ in axis.ticks]
        layout["ticktext"] = [_safe(label) for _, label in axis.ticks]
    if axis.limits is not None:
        layout["range"] = [_place(axis, value) for value in axis.limits]
    return layout


def _place(axis: Axis, value: float) -> float:
    """Plotly states ranges of logarithmic axes in powers of ten."""
    return math.log10(value) if axis.log else value


def _band(band: Band) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(
        x=[*band.x, *reversed(band.x)],
        y=[*band.high, *reversed(band.low)],
        mode="lines",
        fill="toself",
        fillcolor=band.color,
        line={"color": band.color, "width": 0},
        opacity=band.opacity,
        hoverinfo="skip",
        name=_safe(band.label or ""),
        showlegend=band.label is not None,
    )


def _series(series: Series, shown: tuple[str, ...]) -> Any:
    import plotly.graph_objects as go

    modes = ["lines"] * (series.dash is not None) + ["markers"] * (series.marker is not None)
    errors = None
    if any(value is not None for value in series.low):
        points = list(zip(series.y, series.low, series.high, strict=True))
        errors = {
            "type": "data",
            "symmetric": False,
            # 0 where there is no interval.
            "array": [0.0 if high is None else high - y for y, _, high in points],
            "arrayminus": [0.0 if low is None else y - low for y, low, _ in points],
            "thickness": series.width,
            "width": 4,
        }
    # Points without coordinates draw nothing but keep the legend's entry.
    empty = series.label is not None and not series.x
    x: list[Number] = [None] if empty else list(series.x)
    y: list[Number] = [None] if empty else list(series.y)
    return go.Scatter(
        x=x,
        y=y,
        mode="+".join(modes) or "markers",
        text=[_safe(text) for text in series.text] or None,
        hovertemplate="%{text}<extra></extra>" if series.text else None,
        hoverinfo=None if series.text else "skip",
        name=_safe(series.label or ""),
        showlegend=series.label is not None,
        visible=not series.groups or bool(set(shown) & set(series.groups)),
        meta=list(series.groups) or None,
        line={"color": series.color, "dash": series.dash or "solid", "width": series.width},
        marker=_marker(series),
        opacity=series.opacity,
        error_y=errors,
    )


def _marker(series: Series) -> dict[str, Any]:
    marker: dict[str, Any] = {
        "color": series.color,
        "symbol": (series.marker or "circle").replace("x-open", "x-thin-open"),
        "size": series.size if series.marker else 0,
        "opacity": 1.0,
    }
    if series.marker is not None and series.marker.endswith("open"):
        marker["line"] = {"color": series.color, "width": 1.8}
    return marker


def _heat_map(heat_map: HeatMap) -> Any:
    import plotly.graph_objects as go

    last = len(heat_map.scale) - 1
    known = {value for row in heat_map.values for value in row if value is not None}
    return go.Heatmap(
        x=list(heat_map.columns),
        y=list(heat_map.rows),
        z=[list(row) for row in heat_map.values],
        text=[[_safe(text) for text in row] for row in heat_map.text],
        texttemplate="%{text}",
        colorscale=[[i / last, color] for i, color in enumerate(heat_map.scale)],
        colorbar={"title": {"text": _safe(heat_map.scale_title)}, "outlinewidth": 0},
        hovertemplate="n=%{y}, B=%{x}: %{text}<extra></extra>",
        # One value needs no scale.
        showscale=len(known) > 1,
    )
