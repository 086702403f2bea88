"""Overrides that are given from Python, as they would be typed."""

import re
import shlex
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

Overrides = str | Sequence[str] | Mapping[str, object]

# Text that needs no quotes within braces.
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*")
# From here on a float is written with an exponent.
_MANY = 1e6
_NO_TEXT = ("true", "false", "null", "nan", "inf")


def as_typed(given: Overrides) -> tuple[str, ...]:
    """Overrides one by one: of text as a shell would part it, of a mapping by names and values.

    A name with a tilde and None for a value takes away: {"~evaluation.sets.aime": None}.
    """
    if isinstance(given, str):
        return tuple(shlex.split(given))
    if not isinstance(given, Mapping):
        return tuple(given)
    return tuple(
        name if name.startswith("~") and value is None else f"{name}={typed(value)}"
        for name, value in given.items()
    )


def typed(value: Any) -> str:
    """A value as it is typed; arrays and their numbers are lists and numbers."""
    if hasattr(value, "tolist"):
        return typed(value.tolist())
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if abs(value) >= _MANY and float(f"{value:g}") == value:
            return f"{value:g}".replace("+", "")
        case Mapping():
            return f"{{{','.join(f'{name}:{typed(item)}' for name, item in value.items())}}}"
        case str() | Path():
            text = str(value)
            plain = _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT
            return text if plain else quoted(text)
        case Set():
            return typed(sorted(value))
        case Sequence():
            return f"[{','.join(map(typed, value))}]"
        case _:
            return str(value)


def quoted(text: str) -> str:
    """The text in Hydra's quotes, with the home directory for a ~ that it begins with."""
    if text.startswith("~"):
        with suppress(RuntimeError):
            text = str(Path(text).expanduser())
    # Backslashes count before a quote alone.
    text = re.sub(r'(\\*)("|$)', lambda at: at[1] * 2 + at[2].replace('"', '\\"'), text)
    return f'"{text}"'


def shell_quoted(word: str) -> str:
    """The word as a shell takes it; of signs that it reads, lists' brackets alone are left."""
    if re.fullmatch(r"[\w@%+=:,./^\[\]-]*", word):
        return word
    return f'"{word}"' if "'" in word and not set('"$`\\!') & set(word) else shlex.quote(word)
