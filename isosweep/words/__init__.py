"""Every sentence that a user reads is a template here: a file for each surface.

Templates word what was decided elsewhere (an `Answer`, an `Outlook`, a plan) and decide nothing.
They get plain JSON values, so that a document read from a file is worded as one just made.
`numbers.j2`, `verdict.j2` and `answer.j2` hold what several surfaces share. In a template that
makes text `{{ br }}` ends a line of output; all other white space is one space.
"""

from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from isosweep import evidence
from isosweep.pricing import Pricing, pricing_from
from isosweep.words import numbers

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
# Of the output: drawn anew by each process, so that nothing that others wrote holds it.
_BREAK = f"\x1e{token_hex(8)}\x1e"


def lines(surface: str, part: str, *values: Any) -> list[str]:
    """The lines of one part, a macro, of a surface's template."""
    macro = getattr(_text().get_template(f"{surface}.j2").module, part)
    return [" ".join(text.split()) for text in macro(*values).split(_BREAK) if text.strip()]


def line(surface: str, part: str, *values: Any) -> str:
    """The same as one line."""
    return " ".join(lines(surface, part, *values))


@cache
def _text() -> "Environment":
    return environment(autoescape=False)


def _interval(value: Any, **ends: bool) -> str:
    """An interval, as a document has it or as an object."""
    return numbers.interval(**(value if isinstance(value, dict) else vars(value)), **ends)


def _pricing(value: Any) -> Pricing:
    """As a document has it, or one of an earlier version lacks it, or as an object."""
    return value if isinstance(value, Pricing) else pricing_from(value)


def _predicted_time(hours: float, pricing: Any) -> str:
    return numbers.predicted_time(hours, _pricing(pricing))


def _price(hours: float, pricing: Any, **how: bool) -> str:
    return numbers.price(hours, _pricing(pricing), **how)


def environment(*, autoescape: bool) -> "Environment":
    """Templates with the formats of `numbers` as filters, and what verdicts take at least; with
    `autoescape` for HTML. A name that a template does not get is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"evidence": evidence, "br": _BREAK}
    made.filters |= {
        "short": numbers.short,
        "amount": numbers.amount,
        "unit": numbers.UNITS.__getitem__,
        "interval": _interval,
        "duration": numbers.duration,
        "predicted_time": _predicted_time,
        "price": _price,
        "moment": numbers.moment,
        "size": numbers.size,
        "listed": numbers.listed,
        "percent": numbers.percent,
        "of_100": numbers.of_100,
        "general": lambda value: f"{value:g}",
        "share": lambda value, digits=0: f"{value:.{digits}%}",
        "fixed": lambda value, digits=3: f"{value:.{digits}f}",
        "signed": lambda value, digits=3: f"{value:+.{digits}f}",
        "lines": lambda text: [part.strip() for part in text.split(_BREAK) if part.strip()],
    }
    return made
