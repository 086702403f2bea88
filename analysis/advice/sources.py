"""Published laws, points and statements about the best n: `sources.json`, and what each answers.

A new source is an entry of that file: its citation, what was measured (model, task, unit and range
of compute, range of n), and a form of `FORMS` with its numbers. One without a form states something
and gives no n. Outside its range a source answers with its end; nothing is extrapolated.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from annotated_types import MinLen
from pydantic import ConfigDict, TypeAdapter

from isosweep.analysis.bounds import AtLeastOne, NotNegative, Positive, Sentence, Share
from isosweep.analysis.statistics.playbook import law_log2_n
from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject

TABLE = Path(__file__).with_name("sources.json")
# Decades; ends of ranges are given in two or three digits.
_AT_THE_END = 0.005


@dataclass(frozen=True, kw_only=True)
class Point:
    """The best n at one compute."""

    compute: Positive
    """In the source's unit; 1 of a source without a range, whose compute is not known."""
    n: Positive
    """The best n."""
    low: Positive | None = None
    """The smallest n that was not distinguished from it, or the low end of its interval."""
    high: Positive | None = None
    """The same, the largest."""


@dataclass(frozen=True, kw_only=True)
class End:
    """Where runs of one n and B ended."""

    n: AtLeastOne
    """Rollouts per problem."""
    problems_per_batch: AtLeastOne
    """Problems per batch."""
    compute: Positive
    """In the source's unit."""
    rewards: tuple[Share, ...]
    """Held-out reward of each seed."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The n that a source chooses, and what it does not distinguish from that."""

    n: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """One law, table or statement, and what it was measured with."""

    name: Sentence
    """Short, and of no other source."""
    citation: Sentence
    """Where it is published, and what of it."""
    url: Sentence
    """Where to read it."""
    kind: Literal["law", "table", "recommendation"]
    """law: a fitted function of compute; table: measured points; recommendation: a statement."""
    model: Sentence | None = None
    """The model, by its name on the Hugging Face hub where it has one; null: not known to us."""
    parameters: Positive | None = None
    """Of the model."""
    task: Sentence
    """The problems, in words."""
    tasks: Annotated[tuple[str, ...], MinLen(1)]
    """Names or kinds of isosweep's tasks that ask problems of this kind."""
    difficulty: Literal["easy", "hard"] | None = None
    """Which problems of it: those that are easy or hard for the model; null: all."""
    unit: BudgetUnit
    """Of compute."""
    hardware: str | None = None
    """Whose hours, of a source in device-hours."""
    range: tuple[Positive, Positive] | None = None
    """Compute that was measured; null: not known to us, so no budget is known to lie in it."""
    n_range: tuple[AtLeastOne, AtLeastOne] | None = None
    """Smallest and largest n that were run."""
    problems_per_batch: tuple[AtLeastOne, AtLeastOne] | None = None
    """Smallest and largest B that were run, or that it recommends."""
    form: Literal["sigmoid", "points"] | None = None
    """What `FORMS` answers with; null: it gives no n."""
    coefficients: Mapping[str, NotNegative] | None = None
    """Of the law: arguments of `law_log2_n`, by name."""
    points: tuple[Point, ...] = ()
    """Of form points, by ascending compute."""
    ends: tuple[End, ...] = ()
    """Runs that its points rest on."""
    note: str | None = None
    """What else the numbers take to be read."""

    def best(self, compute: float) -> Best | None:
        """Its n at `compute`, in its unit, or at its range's nearest end; None without a form."""
        if self.form is None:
            return None
        low, high = self.range or (compute, compute)
        return FORMS[self.form](self, min(max(compute, low), high))

    def beyond(self, compute: float) -> float | None:
        """Decades that `compute` lies above the range, below it if negative, 0 inside it."""
        if self.range is None:
            return None
        low, high = self.range
        beyond = math.log10(compute / min(max(compute, low), high))
        return beyond if abs(beyond) > _AT_THE_END else 0.0


def _sigmoid(source: Source, compute: float) -> Best:
    return Best(n=float(2.0 ** law_log2_n(math.log10(compute), **(source.coefficients or {}))))


def _points(source: Source, compute: float) -> Best:
    """Between points, straight lines of log n over log compute."""
    known = np.log([point.compute for point in source.points])

    def between(name: str) -> float | None:
        values = [getattr(point, name) for point in source.points]
        if None in values:
            return None
        return float(np.exp(np.interp(math.log(compute), known, np.log(values))))

    n = between("n")
    assert n is not None
    return Best(n=n, low=between("low"), high=between("high"))


# How a source answers, by `Source.form`: at a compute inside its range, in its unit.
FORMS: Final[Mapping[str, Callable[[Source, float], Best]]] = {
    "sigmoid": _sigmoid,
    "points": _points,
}


@cache
def sources() -> tuple[Source, ...]:
    """All of them, in the order of the file."""
    return as_sources(json.loads(TABLE.read_bytes())["sources"])


def as_sources(plain: list[JsonObject]) -> tuple[Source, ...]:
    """The entries of the file. Raises pydantic's ValidationError for a field that there is not."""
    return TypeAdapter(tuple[Source, ...], config=ConfigDict(extra="forbid")).validate_python(plain)
