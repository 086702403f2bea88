"""The nearest choice for a value that an axis of `grid.axes` gives: the axes with another value."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

# One override as it is typed, without its plus signs.
_OVERRIDE = re.compile(r"\+{0,2}([\w.@-]+)=(.+)", re.DOTALL)
# Text that needs no quotes within braces.
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*")
# From here on a float is written with an exponent.
_MANY = 1e6
_NO_TEXT = ("true", "false", "null", "nan", "inf")


def mended_axes(
    axes: Mapping[str, Any], chosen: Mapping[str, Any], settings: Mapping[str, Any], nearest: str
) -> str:
    """`nearest`, with `grid.axes` in the place of overrides that one combination would override.

    `chosen`: the combination's values by axis; `settings`: what these set. What is no list of
    overrides stays as it is.
    """
    try:
        matches = [_OVERRIDE.fullmatch(word) for word in shlex.split(nearest)]
    except ValueError:
        return nearest
    found = {match[1]: match[2] for match in matches if match}
    own = {name: text for name, text in found.items() if name in settings}
    if not own or None in matches:
        return nearest
    listed = [f"{axis}:{_axis(axis, axes[axis], chosen[axis], own)}" for axis in axes]
    others = [shlex.quote(match[0]) for match in matches if match and match[1] not in own]
    return " ".join([*others, f"'grid.axes={{{','.join(listed)}}}'"])


def _axis(axis: str, values: Any, chosen: Any, own: Mapping[str, str]) -> str:
    """The values of an axis, where `own` has the text of settings of the chosen one."""
    if isinstance(values, dict):
        variants = (
            f"{name}:{typed(sets, own if name == chosen else {})}" for name, sets in values.items()
        )
        return f"{{{','.join(variants)}}}"
    listed = values if isinstance(values, list) else [values]
    # A nan is not equal to itself.
    mine = [axis in own and (value is chosen or value == chosen) for value in listed]
    texts = [own[axis] if its else typed(v) for its, v in zip(mine, listed, strict=True)]
    return f"[{','.join(dict.fromkeys(texts))}]"


def typed(value: Any, own: Mapping[str, str] | None = None) -> str:
    """A value as the command line takes it; `own`: texts of some of its settings instead."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if abs(value) >= _MANY and float(f"{value:g}") == value:
            return f"{value:g}".replace("+", "")
        case dict():
            texts = {name: typed(item) for name, item in value.items()} | {
                name: text for name, text in (own or {}).items() if name in value
            }
            return f"{{{','.join(f'{name}:{text}' for name, text in texts.items())}}}"
        case list():
            return f"[{','.join(map(typed, value))}]"
        case str() if not _PLAIN.fullmatch(value) or value.lower() in _NO_TEXT:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case _:
            return str(value)
