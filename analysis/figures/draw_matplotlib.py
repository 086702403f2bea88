"""Draws a described figure with matplotlib into files: light and dark PNG, SVG and PDF."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isosweep.analysis.figures.colors import DARK, GREY, GRID, GROUND, INK, contrast
from isosweep.analysis.figures.description import EndLabel, Figure, HeatMap, Series
from isosweep.config.analysis import FigureWidth
from isosweep.files import write_bytes

# Where it is drawn with, and not before: importing matplotlib takes long.
if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

DPI = 200
# Width and height in inches: one and two columns of a paper of letter size, whose columns are a
# fifth of an inch apart (the styles of NeurIPS, ICML and ACL agree to a tenth).
_SIZES: dict[FigureWidth, tuple[float, float]] = {
    "one_column": (3.3, 2.6),
    "two_columns": (6.8, 3.6),
}
_SMALL: FigureWidth = "one_column"
# Letters of a label; three columns of longer ones are wider than one column of a paper.
_LONG_LABEL = 18
# Letters of the longest name beside the axes.
_LONGEST_BESIDE = 28
# Height of the axes as a share of the figure's, about.
_AXES_SHARE, _POINTS_PER_INCH = 0.75, 72
_MARKERS = {
    "circle": "o",
    "circle-open": "o",
    "diamond": "D",
    "square-open": "s",
    "x-open": "x",
    "triangle-up-open": "^",
    "triangle-down-open": "v",
}
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
# What every format would say of the moment and the program that wrote it.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# Ids in an SVG are hashes with a salt, random unless it is set; a name may hold a dollar sign.
_SETTINGS: Any = {"svg.hashsalt": "isosweep", "text.parse_math": False, "pdf.fonttype": 42}


# The neutral colours as they are on a ground.
_Tone = Mapping[str, str]
_LIGHT = {color: color for color in (INK, GREY, GRID, GROUND)}


def write_figures(
    figures: Mapping[str, Figure],
    directory: Path,
    formats: Collection[str],
    width: FigureWidth = "two_columns",
) -> tuple[Path, ...]:
    """Write NAME.png, NAME.svg, NAME.pdf and NAME-dark.png (`dark_png`) of every figure, as far
    as `formats` names them, each in one step; their paths.

    The same figure gives the same bytes. Figures of an earlier analysis that are not written
    again are removed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = [
        path
        for name, figure in figures.items()
        for path in _write_figure(name, figure.of_group(), directory, formats, width)
    ]
    for path in {*directory.iterdir()} - {*written}:
        if path.suffix[1:] in _METADATA:
            path.unlink()
    return tuple(written)


def _write_figure(
    name: str, figure: Figure, directory: Path, formats: Collection[str], width: FigureWidth
) -> list[Path]:
    from matplotlib import rc_context

    light = [kind for kind in _METADATA if kind in formats]
    paths: list[Path] = []
    with rc_context(_SETTINGS):
        if light:
            drawn = _laid_out(_draw(figure, _LIGHT, width))
            paths += [_save(drawn, directory / f"{name}.{kind}") for kind in light]
        if "dark_png" in formats:
            paths.append(
                _save(_laid_out(_draw(dark(figure), DARK, width)), directory / f"{name}-dark.png")
            )
    return paths


def _laid_out(drawn: "matplotlib.figure.Figure") -> "matplotlib.figure.Figure":
    """The figure, whose layout is worked out once for all its files."""
    layout: Any = drawn.get_layout_engine()
    layout.execute(drawn)
    drawn.set_layout_engine("none")
    return drawn


def _save(drawn: "matplotlib.figure.Figure", path: Path) -> Path:
    write_bytes(path, _content(drawn, path.suffix[1:]), sync=False)
    return path


def _content(drawn: "matplotlib.figure.Figure", kind: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # By its canvas: savefig draws a figure that had a layout twice.
    write: dict[str, Any] = {
        "png": FigureCanvasAgg(drawn).print_png,
        "svg": FigureCanvasSVG(drawn).print_svg,
        "pdf": FigureCanvasPdf(drawn).print_pdf,
    }
    content = BytesIO()
    write[kind](content, metadata=_METADATA[kind])
    return content.getvalue()


def _draw(figure: Figure, tone: _Tone, width: FigureWidth) -> "matplotlib.figure.Figure":
    import matplotlib.figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = matplotlib.figure.Figure(
        figsize=_SIZES[width], dpi=DPI, layout="constrained", facecolor=tone[GROUND]
    )
    FigureCanvasAgg(drawn)
    axes = drawn.add_subplot(facecolor=tone[GROUND])
    # The paper's caption has the title.
    axes.set_xlabel(figure.x.title, color=tone[INK], fontsize=8)
    axes.set_ylabel(figure.y.title, color=tone[INK], fontsize=8)
    axes.tick_params(color=tone[GREY], labelcolor=tone[INK], labelsize=7)
    axes.spines[:].set_color(tone[GREY])
    if figure.heat_map is not None:
        _heat_map(drawn, axes, figure.heat_map, tone)
        return drawn
    _set_axes(figure, axes, tone)
    for band in figure.bands:
        look: Any = {"color": band.color, "alpha": band.opacity, "label": band.label}
        axes.fill_between(band.x, band.low, band.high, linewidth=0, **look)
    for series in figure.series:
        _series(axes, series)
    for label in figure.labels:
        _end_label(axes, label, tone, _AXES_SHARE * _SIZES[width][1] * _POINTS_PER_INCH)
    labels = [series.label for series in figure.series] + [band.label for band in figure.bands]
    if any(labels):
        # Long names beside the axes would take half of the figure.
        long = max(len(label) for label in labels if label) > _LONGEST_BESIDE
        _legend(drawn, axes, tone, below=width == _SMALL or bool(figure.labels) or long)
    return drawn


def _legend(drawn: "matplotlib.figure.Figure", axes: "Axes", tone: _Tone, *, below: bool) -> None:
    """Beside the axes; below where one column, or the names of lines, leave no room."""
    look: Any = {"frameon": False, "fontsize": 7, "labelcolor": tone[INK]}
    handles, labels = axes.get_legend_handles_labels()
    if below:
        # Three of them would be cut off at both sides of a narrow figure.
        narrow = drawn.get_figwidth() < _SIZES["two_columns"][0]
        longest = max(map(len, labels))
        ncols = 2 if narrow and longest > _LONG_LABEL else 3
        if longest > _LONGEST_BESIDE:
            ncols = 1 if narrow or longest > 2 * _LONGEST_BESIDE else 2
        drawn.legend(handles, labels, loc="outside lower center", ncols=ncols, **look)
    else:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), **look)


def _end_label(axes: "Axes", label: EndLabel, tone: _Tone, height: float) -> None:
    """The words to the right of the line's end, joined to it by a thin line; the axes are `height`
    points high."""
    axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(9, label.shift * height),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=tone[INK],
        annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": label.color, "linewidth": 0.6, "shrinkA": 0},
    )


def _set_axes(figure: Figure, axes: "Axes", tone: _Tone) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    if figure.x.log:
        axes.set_xscale("log")
    if figure.y.log:
        axes.set_yscale("log", base=2)
    for described, axis in ((figure.x, axes.xaxis), (figure.y, axes.yaxis)):
        if described.ticks:
            values, labels = zip(*described.ticks, strict=True)
            axis.set_ticks(values, labels)
            axis.set_minor_locator(NullLocator())
        elif described.log:
            # The renderer's own labels are formulas, which names with a dollar sign rule out.
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if figure.x.limits is not None:
        axes.set_xlim(*figure.x.limits)
    if figure.y.limits is not None:
        axes.set_ylim(*figure.y.limits)
    axes.grid(color=tone[GRID], linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _series(axes: "Axes", series: Series) -> None:
    if any(value is not None for value in series.low):
        for x, low, high in zip(series.x, series.low, series.high, strict=True):
            if low is not None and high is not None:
                _interval(axes, series, x, (low, high))
    hollow = series.marker is not None and series.marker.endswith("open")
    axes.plot(
        series.x,
        series.y,
        color=series.color,
        linestyle="none" if series.dash is None else _DASHES[series.dash],
        linewidth=series.width,
        marker=None if series.marker is None else _MARKERS[series.marker],
        markersize=series.size * 0.8,
        markerfacecolor="none" if hollow else series.color,
        markeredgewidth=1.3 if hollow else 0.0,
        solid_capstyle="butt",
        alpha=series.opacity,
        label=series.label,
    )


def _interval(axes: "Axes", series: Series, x: float, ends: tuple[float, float]) -> None:
    axes.plot(
        (x, x),
        ends,
        color=series.color,
        linewidth=series.width,
        alpha=series.opacity,
        marker="_",
        markersize=6,
        markeredgewidth=series.width,
    )


def _heat_map(
    drawn: "matplotlib.figure.Figure", axes: "Axes", heat_map: HeatMap, tone: _Tone
) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    values = np.array(
        [[np.nan if v is None else v for v in row] for row in heat_map.values], dtype=np.float64
    )
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    colors = LinearSegmentedColormap.from_list("scale", list(heat_map.scale))
    # One value only still needs a range for its colour.
    image = axes.imshow(values, cmap=colors, aspect="auto", vmin=low, vmax=max(high, low + 1e-9))
    axes.set_xticks(range(len(heat_map.columns)), heat_map.columns)
    axes.set_yticks(range(len(heat_map.rows)), heat_map.rows)
    grounds = [
        [to_hex(tuple(image.to_rgba(v))) if np.isfinite(v) else tone[GROUND] for v in row]
        for row in values
    ]
    _cell_texts(axes, heat_map.text, grounds)
    if high > low:
        bar = drawn.colorbar(image, ax=axes)
        bar.set_label(heat_map.scale_title, color=tone[INK], fontsize=8)
        bar.ax.tick_params(color=tone[GREY], labelcolor=tone[INK], labelsize=7)
        bar.outline.set_visible(False)


def _cell_texts(
    axes: "Axes", text: Sequence[Sequence[str]], grounds: Sequence[Sequence[str]]
) -> None:
    size = 7 if len(text[0]) <= 12 else 5
    for row, cells in enumerate(text):
        for column, cell in enumerate(cells):
            ground = grounds[row][column]
            color: Any = max(("#ffffff", "#111111"), key=lambda c: contrast(c, ground))
            axes.text(column, row, cell, ha="center", va="center", fontsize=size, color=color)


def dark(figure: Figure) -> Figure:
    """`figure` with every colour exchanged for its dark counterpart.

    Raises KeyError for a colour that has none.
    """
    heat_map = figure.heat_map
    if heat_map is not None:
        heat_map = replace(heat_map, scale=tuple(DARK[color] for color in heat_map.scale))
    return replace(
        figure,
        bands=tuple(replace(band, color=DARK[band.color]) for band in figure.bands),
        series=tuple(replace(series, color=DARK[series.color]) for series in figure.series),
        labels=tuple(replace(label, color=DARK[label.color]) for label in figure.labels),
        heat_map=heat_map,
    )
