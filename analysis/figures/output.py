"""Figures as files, light and dark, and as SVG inside the report's page."""

import re
from collections.abc import Collection, Mapping
from functools import partial
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.analysis.figures.canvas import Figure
from isosweep.analysis.figures.colors import DARK
from isosweep.config.analysis import FigureWidth
from isosweep.files import write_bytes

if TYPE_CHECKING:
    import matplotlib.figure

# Width and height in inches: one and two columns of a paper of letter size, whose columns are a
# fifth of an inch apart (the styles of NeurIPS, ICML and ACL agree to a tenth).
_SIZES: dict[FigureWidth, tuple[float, float]] = {
    "one_column": (3.3, 2.8),
    "two_columns": (6.8, 3.8),
}
# On a page 400 pixels wide, and in one of two columns of a wide one, its letters are 10 to 13
# pixels high.
_PAGE_SIZE = (4.6, 3.5)
# What every format would say of the moment and the program that wrote it.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


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
        for path in _write_figure(name, figure, directory, formats, width)
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
    contents: dict[str, bytes] = {}
    with rc_context({**_fonts(8.0), "savefig.dpi": 200, "figure.dpi": 200, "pdf.fonttype": 42}):
        if light:
            drawn, _ = figure.drawn(_SIZES[width])
            contents = {f"{name}.{kind}": _content(drawn, kind) for kind in light}
        if "dark_png" in formats:
            drawn, _ = figure.drawn(_SIZES[width], DARK)
            contents[f"{name}-dark.png"] = _content(drawn, "png")
    for file, content in contents.items():
        write_bytes(directory / file, content, sync=False)
    return [directory / file for file in contents]


def to_matplotlib(figure: Figure) -> "matplotlib.figure.Figure":
    """The figure with its title, which a notebook shows and `savefig` writes."""
    from matplotlib import rc_context

    with rc_context(_fonts(9.0)):
        drawn, _ = figure.drawn(_SIZES["two_columns"], title=True)
    # What pyplot gives its figures: IPython shows a value by its _repr_png_.
    drawn.__dict__["_repr_png_"] = partial(_content, drawn, "png")
    return drawn


def page_svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element whose colours follow the page's, light or dark.

    Its letters are text, and pointing at a mark shows its words.
    """
    from matplotlib import rc_context

    settings: Any = {**_fonts(10.0), "svg.fonttype": "none", "font.family": "sans-serif"}
    # What one figure defines, another one of the page shall not use: it may be folded away.
    with rc_context(settings | {"svg.hashsalt": name}):
        drawn, tips = figure.drawn(_PAGE_SIZE)
        drawn.patch.set_visible(False)
        text = _content(drawn, "svg").decode()
    text, label = text[text.index("<svg") :], escape(figure.title).replace("\\", r"\\")
    text = re.sub(
        r"<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>", "", text, flags=re.S
    )
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    text = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        rf'<svg \1 role="img" aria-label="{label}">',
        text,
        count=1,
    )
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for tip, words in tips.items():
        text = text.replace(f'<g id="{tip}">', f"<g><title>{escape(words)}</title>", 1)
    text = re.sub(r"\n\s*", "\n", text)
    return re.sub(r"#[0-9a-f]{6}\b", lambda color: _both(color[0]), text)


def _both(color: str) -> str:
    return f"light-dark({color},{DARK[color]})" if color in DARK else color


def _fonts(size: float) -> dict[Any, Any]:
    """Settings of matplotlib for letters of `size` points."""
    small = size - 1
    return {
        **{"font.size": size, "axes.labelsize": size, "axes.titlesize": size},
        **{"xtick.labelsize": small, "ytick.labelsize": small, "legend.fontsize": small},
        # Ids in an SVG are hashes with a salt, random unless it is set.
        "svg.hashsalt": "isosweep",
    }


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
