"""What of a run's settings makes its identity: all that can change its numbers.

A field takes part with its value unless it is marked, in `Annotated`, with an `Identity`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from isosweep.config.base import Settings


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


def identity(run: Settings) -> dict[str, Any]:
    """What of the settings `run`, and of the groups in them, makes its identity."""
    return _taking_part(run, run)


def _taking_part(group: Settings, run: Settings) -> dict[str, Any]:
    part = {}
    for name, mark in _marked(type(group)):
        value = getattr(group, mark.by or name)
        if mark.when(run):
            part[name] = _taking_part(value, run) if isinstance(value, Settings) else value
    return part


@cache
def _marked(kind: type[Settings]) -> tuple[tuple[str, Identity], ...]:
    """Every field with its mark, the plain one where it has none."""
    marked = []
    for name, field in kind.model_fields.items():
        own = [mark for mark in field.metadata if isinstance(mark, Identity)]
        marked.append((name, own[-1] if own else Identity()))
    return tuple(marked)
