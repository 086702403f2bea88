"""Renders a page from its template: one HTML file that needs nothing but itself.

Every value is escaped, also inside the data of scripts; a name that a template does not get is an
error.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from isosweep.analysis.figures.colors import DARK
from isosweep.analysis.figures.description import Figure
from isosweep.analysis.figures.draw_plotly import to_plotly

_HERE = Path(__file__).parent


def render(template: str, title: str, **values: object) -> str:
    """The page of `template` under `title`, which follows the reader's light or dark colours."""
    from plotly.offline import get_plotlyjs

    own = {name: Markup((_HERE / name).read_text(encoding="utf-8")) for name in _OWN_FILES}
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=own["page.css"],
            script=own["page.js"],
            plotly=Markup(get_plotlyjs()),
            dark_colors=DARK,
            **values,
        )
    )


# Code, not values: written into the page as they are.
_OWN_FILES = ("page.css", "page.js")


def _environment() -> Environment:
    from plotly.utils import PlotlyJSONEncoder

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `tojson` writes <, >, & and ' as escapes, so that no value ends a script element.
    environment.policies["json.dumps_kwargs"] = {
        "cls": PlotlyJSONEncoder,
        "separators": (",", ":"),
    }
    environment.filters["plotly"] = _plotly
    return environment


def _plotly(figure: Figure) -> dict[str, Any]:
    described: dict[str, Any] = to_plotly(figure).to_plotly_json()
    return described
