"""Renders a page from its template: one HTML file that needs nothing but itself, and no script.

Every value is escaped; a name that a template does not get is an error.
"""

import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isosweep.analysis.figures.style import page_svg
from isosweep.words import answer, numbers, verdict
from isosweep.words.escape import printable

_STYLE = Path(__file__).with_name("page.css")
# A section's heading: its id, what the list of contents calls it where that differs, and its text.
_HEADING = re.compile(r'<h2 id="([^"]+)"(?: data-contents="([^"]*)")?>(.*?)</h2>', re.DOTALL)


def render(template: str, title: str, *, reload_s: int | None = None, **values: object) -> str:
    """The page of `template` under `title`, which follows the reader's light or dark colours, and
    reloads itself every `reload_s` seconds."""
    environment = _environment()
    content = Markup(environment.get_template(template).render(**values))
    sections = [
        (name, Markup(short or heading)) for name, short, heading in _HEADING.findall(content)
    ]
    style = Markup(_STYLE.read_text(encoding="utf-8"))
    return environment.get_template("page.html").render(
        title=title, style=style, sections=sections, content=content, reload_s=reload_s
    )


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("isosweep.words", ""),
        autoescape=True,
        # Markup is ours.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"say": answer, "verdict": verdict}
    made.filters |= {
        "short": numbers.short,
        "svg": lambda figure, name: Markup(page_svg(figure, name)),
    }
    return made
