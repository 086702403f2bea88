"""What of a run's settings makes its identity: all that can change its numbers.

A field takes part with its value unless it is marked, in `Annotated`, with an `Identity`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Identity:
    """How a field takes part in the identity of a run.

    `when`, given the whole run, says whether it does at all: a setting that says how something is
    done does not where that is not done. `by` names a property that takes part in its place.
    """

    when: Callable[[Any], bool] = lambda run: True
    by: str | None = None


# For fields that change no number of a run.
OUTSIDE = Identity(when=lambda run: False)


def identity(run: Any) -> dict[str, Any]:
    """What of `run`, a dataclass of values and nested dataclasses, makes its identity."""
    return _taking_part(run, run)


def _taking_part(group: Any, run: Any) -> dict[str, Any]:
    part = {}
    kind: Any = type(group)
    for name, mark in _marked(kind):
        value = getattr(group, mark.by or name)
        if mark.when(run):
            part[name] = _taking_part(value, run) if is_dataclass(value) else value
    return part


@cache
def _marked(kind: type) -> tuple[tuple[str, Identity], ...]:
    """Every field of a dataclass with its mark, the plain one where it has none."""
    marked = []
    for item in fields(kind):
        marks = getattr(item.type, "__metadata__", ())
        own = [mark for mark in marks if isinstance(mark, Identity)]
        marked.append((item.name, own[-1] if own else Identity()))
    return tuple(marked)
