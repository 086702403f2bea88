"""How figures look, and how they become SVG in a page and files for a paper."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape, unescape
from io import BytesIO
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Literal, TypeVar

import matplotlib.figure
import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.best_n import Choice
from isosweep.compute import BudgetUnit
from isosweep.files import write_bytes
from isosweep.words.numbers import UNITS, amount, short

_Value = TypeVar("_Value")
# An x, a y, and the words that pointing at the mark shows.
Point = tuple[float, float, str]
INK, GREY, GRID = "#111111", "#8a8a8a", "#dddddd"
# Okabe and Ito (2008), distinguished by the colour-blind; green darker, to stand out on white.
BLUE, RED, GREEN = "#0072b2", "#d55e00", "#00805f"
# Viridis without its yellow end, which white paper would hide.
SCALE = (0.0, 0.76)
# Inches. On a page 400 pixels wide letters are 10 to 13 pixels high.
_WIDTH, _HEIGHT, _PANEL = 4.6, 3.5, 1.75
_LEFT, _RIGHT, _TOP, _BOTTOM, _LEGEND_ROW, _TITLE = 0.68, 0.12, 0.1, 0.5, 0.19, 0.25
_STYLE: dict[Any, Any] = {
    **{"font.size": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9},
    **{"axes.titlesize": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY},
    **{"xtick.color": GREY, "ytick.color": GREY, "xtick.labelcolor": INK, "ytick.labelcolor": INK},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none"},
    **{"axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.6},
    **{"legend.frameon": False, "legend.columnspacing": 1.2, "legend.handlelength": 1.5},
    # Letters stay letters; a name may hold a dollar sign; the same figure gives the same bytes.
    **{"svg.fonttype": "none", "pdf.fonttype": 42, "text.parse_math": False},
    **{"svg.hashsalt": "isosweep", "savefig.dpi": 200},
}
# What each format would say of the moment and the program that wrote it.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# Begins the id of an artist whose marks show words; those of the marks follow, each after one.
_TIP = "\u241e"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure as drawn, with the title and caption that stand beside it."""

    title: str
    caption: str
    drawn: matplotlib.figure.Figure


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A figure that would show nothing, and why, in one line."""

    reason: str


NO_BUDGET = LeftOut(reason="no run has reached a budget yet")


def style(**settings: Any) -> AbstractContextManager[None]:
    """matplotlib's settings while figures are drawn or written."""
    return rc_context(_STYLE | settings)


def panels(number: int = 1) -> tuple[Axes, ...]:
    """Axes of a new figure: one, or several in two columns."""
    rows = ceil(number / 2)
    height = _HEIGHT if number == 1 else _PANEL * rows
    drawn = matplotlib.figure.Figure(figsize=(_WIDTH, height))
    return tuple(drawn.add_subplot(rows, min(number, 2), i + 1) for i in range(number))


def finish(axes: Axes, title: str, caption: str) -> Figure:
    """The figure of these axes, with one legend of all panels below them, and margins."""
    drawn = axes.figure
    assert isinstance(drawn, matplotlib.figure.Figure)
    named: dict[Any, Artist] = {}
    for panel in drawn.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    # In inches: a letter is about .07 wide, and a mark with its room .45.
    columns = int(_WIDTH / (0.45 + 0.07 * max(map(len, named), default=1)))
    columns = max(1, min(columns, 4))
    if named:
        look = {"ncols": columns, "borderaxespad": 0.1}
        drawn.legend([*named.values()], [*named], loc="lower center", **look)
    several = len(drawn.axes) > 1
    across, top = _WIDTH - _LEFT - _RIGHT, _TOP + 0.2 * several
    bottom = _BOTTOM + _LEGEND_ROW * ceil(len(named) / columns)
    height = drawn.get_figheight() + several * bottom
    drawn.set_figheight(height)
    drawn.subplots_adjust(
        left=_LEFT / _WIDTH,
        right=1 - _RIGHT / _WIDTH,
        bottom=bottom / height,
        top=1 - top / height,
        wspace=2 * _LEFT / (across - _LEFT),
        hspace=0.85,
    )
    return Figure(title=title, caption=caption, drawn=drawn)


def titled(figure: Figure) -> matplotlib.figure.Figure:
    """The figure with its title, which a notebook shows and `savefig` writes."""
    drawn, height = figure.drawn, figure.drawn.get_figheight()
    share = height / (height + _TITLE)
    drawn.set_figheight(height + _TITLE)
    margins = drawn.subplotpars
    drawn.subplots_adjust(bottom=margins.bottom * share, top=margins.top * share)
    with style():
        drawn.suptitle(figure.title, y=0.99, fontsize=9)
        drawn.draw_without_rendering()
    # What pyplot gives its figures: IPython shows a value by its _repr_png_.
    drawn.__dict__["_repr_png_"] = lambda: _content(drawn, "png")
    return drawn


def hover(artist: Artist, words: Sequence[str]) -> None:
    """Show words where the reader points at the artist's marks, one text for each, in order."""
    artist.set_gid(_TIP + _TIP.join(words))


def marks(
    axes: Axes,
    points: Iterable[Point],
    color: str,
    marker: str = "o",
    *,
    size: float = 5.0,
    hollow: bool = False,
    **look: Any,
) -> None:
    """A mark at each point."""
    if listed := list(points):
        x, y, words = zip(*listed, strict=True)
        look |= {"mfc": "none" if hollow else color, "mew": 1.3 if hollow else 0.0}
        (drawn,) = axes.plot(x, y, marker, color=color, ms=size, **look)
        hover(drawn, words)


def bars(
    axes: Axes,
    ends: Iterable[tuple[float, float, float, str]],
    color: str,
    *,
    width: float = 1.6,
    **look: Any,
) -> None:
    """Upright bars: the x, both ends and the words of each."""
    if listed := list(ends):
        x, low, high, words = zip(*listed, strict=True)
        hover(axes.vlines(x, low, high, color, linewidth=width, **look), words)


def lines(
    axes: Axes,
    courses: Iterable[tuple[ArrayLike, ArrayLike, str]],
    color: str,
    *,
    width: float = 1.6,
    **look: Any,
) -> None:
    """Lines of one colour and one name: x, y and the words of each."""
    if listed := list(courses):
        paths = [np.column_stack((x, y)) for x, y, _ in listed]
        drawn = LineCollection(paths, colors=color, linewidths=width, **look)
        hover(drawn, [words for _, _, words in listed])
        axes.add_collection(drawn)
        axes.autoscale_view()


def compute_axis(
    axes: Axes, unit: BudgetUnit, low: float, high: float, aside: float = 1.15
) -> None:
    """Compute on a logarithmic axis from `low` to `high`, and `aside` times further."""
    axes.set_xscale("log")
    axes.set_xlim(low / aside, high * aside)
    panel = len(axes.figure.axes) > 1
    ticks = round_ticks(*axes.get_xlim(), 3 if panel else 6)
    axes.set_xticks(ticks, [short(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"{'compute' if panel else 'training compute per run'} ({UNITS[unit]})")


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between both ends of a logarithmic axis, at most so many; the middle of a
    range that has none."""
    powers = [10.0**k for k in range(floor(log10(low)), ceil(log10(high)) + 1)]
    ticks = list[float]()
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * power for power in powers for m in mantissas if low <= m * power <= high]
        if len(ticks) <= most:
            break
    return ticks[:: ceil(len(ticks) / most)] if ticks else [float(f"{(low * high) ** 0.5:.2g}")]


def doublings_axis(axes: Axes, which: Literal["x", "y"], name: str, values: Iterable[int]) -> None:
    """n or B on a logarithmic axis, with a tick at each of the values, as far as they fit."""
    ordered = sorted(set(values))
    room, kept = (ordered[-1] / ordered[0]) ** (1 / 12), ordered[-1:]
    for value in reversed(ordered):
        if value * room <= kept[0] * (1 + 1e-9) and value != kept[0]:
            kept.insert(0, value)
    axis = axes.xaxis if which == "x" else axes.yaxis
    getattr(axes, f"set_{which}scale")("log", base=2)
    getattr(axes, f"set_{which}lim")(ordered[0] / 1.3, ordered[-1] * 1.3)
    axis.set_ticks(kept, [str(value) for value in kept])
    axis.set_minor_locator(NullLocator())
    axis.set_label_text(name)


def reward_label(data: SweepData) -> str:
    """Name of the axis of reward: held-out, or on one of the further evaluation sets."""
    name = data.evaluation_set
    what = "held-out reward" if name is None else f"reward on the set {name}"
    return f"{what} ({data.metric}@k)"


def choice_words(data: SweepData, budget: float, choice: Choice) -> str:
    """The best cell of an n at a budget, with its rewards."""
    cell, text = choice.cell, ""
    if choice.expected is not None and choice.interval is not None:
        text = "\nexpected {:.4f} ({:.4f} to {:.4f})".format(choice.expected, *choice.interval)
    return (
        f"n={choice.num_generations}, B={cell.problems_per_batch}, T={cell.num_steps}, "
        f"{amount(budget, data.plan.budget_unit)}{text}\nmeasured {cell.mean:.4f}"
    )


def sequential(count: int) -> tuple[str, ...]:
    """So many colours of the scale, dark to light."""
    return tuple(to_hex(each) for each in colormaps["viridis"](np.linspace(*SCALE, count)))


def generation_colors(generations: Sequence[int]) -> dict[int, str]:
    """One colour for each n, dark to light."""
    return dict(zip(generations, sequential(len(generations)), strict=True))


def evenly_chosen(values: Sequence[_Value], most: int) -> tuple[_Value, ...]:
    """At most `most` of the values: the first, the last, and evenly between."""
    if len(values) <= most:
        return tuple(values)
    return tuple(values[round(i * (len(values) - 1) / (most - 1))] for i in range(most))


def page_svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element: its letters are text in the page's font, and pointing at a
    mark shows its words. The page's style sheet turns it dark."""
    figure.drawn.patch.set_visible(False)
    # What one figure defines, another one of the page shall not use: it may be folded away.
    text = _content(figure.drawn, "svg", **{"svg.hashsalt": name}).decode()
    figure.drawn.patch.set_visible(True)
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</defs>|<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    head, *groups = text.split(f'<g id="{_TIP}')
    text = "<g>".join([head, *map(_with_tips, groups)])
    label = escape(figure.title).replace("\\", r"\\")
    new = rf'<svg \1 role="img" aria-label="{label}">'
    text = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", new, text, count=1)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    # Coordinates, and no number that is read.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+(?=[ \"])", r"\1", tag[0]), text)
    return re.sub(r"\n\s*", "\n", text)


def _with_tips(group: str) -> str:
    """The SVG of an artist, after its words: each of its marks with a title."""
    words, _, body = group.partition('">')
    left = [escape(unescape(each)) for each in reversed(words.split(_TIP))]

    def titled(mark: re.Match[str]) -> str:
        return f"<{mark[1]}{mark[2]}><title>{left.pop()}</title></{mark[1]}>" if left else mark[0]

    # A path with an id is a definition.
    return re.sub(r"<(use|path)( (?!id=)[^>]*)/>", titled, body)


def write_figures(
    figures: Mapping[str, Figure], directory: Path, formats: Collection[str]
) -> tuple[Path, ...]:
    """Write NAME.png, NAME.svg and NAME.pdf of every figure, as far as `formats` names them, each
    in one step; their paths. Files of figures that are not written again are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    written = {
        directory / f"{name}.{kind}": _content(figure.drawn, kind)
        for name, figure in figures.items()
        for kind in formats
    }
    for path, content in written.items():
        write_bytes(path, content, sync=False)
    for path in {*directory.iterdir()} - {*written}:
        if path.suffix[1:] in _METADATA:
            path.unlink()
    return tuple(written)


def _content(drawn: matplotlib.figure.Figure, kind: str, **settings: Any) -> bytes:
    content = BytesIO()
    with style(**settings):
        drawn.savefig(content, format=kind, metadata=_METADATA[kind])
    return content.getvalue()
