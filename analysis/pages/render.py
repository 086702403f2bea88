"""Renders a page from its template: one HTML file that needs nothing but itself.

Every value is escaped, also inside the data of scripts; a name that a template does not get is an
error.
"""

import base64
import gzip
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from isosweep import words
from isosweep.analysis.figures.colors import DARK
from isosweep.analysis.figures.description import Figure
from isosweep.analysis.figures.draw_plotly import to_plotly

_HERE = Path(__file__).parent


def render(template: str, title: str, **values: object) -> str:
    """The page of `template` under `title`, which follows the reader's light or dark colours."""
    own = {name: Markup((_HERE / name).read_text(encoding="utf-8")) for name in _OWN_FILES}
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=own["page.css"],
            script=own["page.js"],
            plotly=Markup(_packed_plotly()),
            dark_colors=DARK,
            **values,
        )
    )


@cache
def _packed_plotly() -> str:
    """Plotly's script, compressed and in base64, which takes 2 MB of a page instead of 5."""
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())


def _packed(text: str) -> str:
    # Without a time the same text has the same bytes.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


# Code, not values: written into the page as they are.
_OWN_FILES = ("page.css", "page.js")


def _environment() -> Environment:
    from plotly.utils import PlotlyJSONEncoder

    environment = words.environment(autoescape=True)
    # `tojson` writes <, >, & and ' as escapes, so that no value ends a script element.
    environment.policies["json.dumps_kwargs"] = {
        "cls": PlotlyJSONEncoder,
        "separators": (",", ":"),
    }
    environment.filters["packed"] = _packed_figure
    return environment


def _packed_figure(figure: Figure) -> str:
    from plotly.utils import PlotlyJSONEncoder

    return _packed(json.dumps(_plotly(figure), cls=PlotlyJSONEncoder, separators=(",", ":")))


def _plotly(figure: Figure) -> dict[str, Any]:
    described: dict[str, Any] = to_plotly(figure).to_plotly_json()
    return {"data": [_rounded(trace) for trace in described["data"]], "layout": described["layout"]}


def _rounded(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace with points at five digits: more are not seen, and take half of a page."""
    names = ("x", "y") if trace["type"] == "scatter" else ()
    return trace | {name: [_digits(value) for value in trace[name]] for name in names}


def _digits(value: Any) -> Any:
    if isinstance(value, float):
        # JSON has no word for what is not a number; plotly interrupts a line at null.
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
