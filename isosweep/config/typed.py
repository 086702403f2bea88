"""Values as the command line takes them."""

import re
from typing import Any

# Text that needs no quotes within braces.
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*")
# From here on a float is written with an exponent.
_MANY = 1e6
_NO_TEXT = ("true", "false", "null", "nan", "inf")


def typed(value: Any) -> str:
    """A value as it is typed."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if abs(value) >= _MANY and float(f"{value:g}") == value:
            return f"{value:g}".replace("+", "")
        case dict():
            return f"{{{','.join(f'{name}:{typed(item)}' for name, item in value.items())}}}"
        case list():
            return f"[{','.join(map(typed, value))}]"
        case str() if not _PLAIN.fullmatch(value) or value.lower() in _NO_TEXT:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case _:
            return str(value)
