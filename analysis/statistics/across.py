"""Laws across entries: what one amount does to an (n, B), of entries that differ in nothing else.

A law is a row, `Across`: the settings that vary, the amount that they set, what is read of each
entry, and the regression of that on the amounts. `sizes`, `reuse` and `updates` have one each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.entries import Entry, groups_but_for

# Through two amounts every law of two parameters passes; they show that something changes, and not
# where.
MIN_AMOUNTS = 3
# Chance of a misfit as large below which a law is not taken for the truth.
MISFIT = 1e-3


Failure = Literal[
    "few seeds", "no spread", "no law", "uncertain", "no fall", "little gain", "at once"
]


@dataclass(frozen=True, kw_only=True)
class Unidentified:
    """Why a law is not identified."""

    kind: Failure
    """What is wrong."""
    found: float | None = None
    """What there is: seeds that all entries have, or the least that a run gains; null otherwise."""
    least: float | None = None
    """What it takes; null where no number says it."""


_Seen = TypeVar("_Seen")
_Law = TypeVar("_Law")


@dataclass(frozen=True, kw_only=True)
class Group(Generic[_Seen]):
    """One (n, B) of entries that differ in one amount: what a law is fitted to. `seen`: of each."""

    entries: tuple[str, ...]
    pair: Pair
    amounts: tuple[float, ...]
    seen: tuple[_Seen, ...]
    margin: float
    confidence: float

    @property
    def labels(self) -> dict[str, Any]:
        """The fields that every law has."""
        return {"entries": self.entries, **self.pair._asdict()}


@dataclass(frozen=True, kw_only=True)
class Across(Generic[_Seen, _Law]):
    """One law. `varied`: beginning of the settings that may differ; `amount`: of an entry, None
    where it has none; `descending`: the order of amounts; `read`: of an entry and its amount, what
    it shows of every (n, B); `fit`: the law, None where the entries have nothing in common."""

    varied: str
    amount: Callable[[Entry], float | None]
    read: Callable[[Entry, float], Mapping[Pair, _Seen]]
    fit: Callable[[Group[_Seen]], _Law | None]
    descending: bool = False

    def laws(self, entries: Sequence[Entry], margin: float, confidence: float) -> tuple[_Law, ...]:
        """One for every (n, B) that all of at least `MIN_AMOUNTS` entries have, ascending."""
        found = []
        for group in groups_but_for(entries, self.varied):
            by_amount = {self.amount(entry): entry for entry in group}
            amounts = sorted((a for a in by_amount if a is not None), reverse=self.descending)
            if len(amounts) < MIN_AMOUNTS:
                continue
            read = [self.read(by_amount[amount], amount) for amount in amounts]
            found += [
                self.fit(
                    Group(
                        entries=tuple(by_amount[amount].name for amount in amounts),
                        pair=pair,
                        amounts=tuple(amounts),
                        seen=tuple(of[pair] for of in read),
                        margin=margin,
                        confidence=confidence,
                    )
                )
                for pair in sorted(set.intersection(*(set(of) for of in read)))
            ]
        return tuple(law for law in found if law is not None)


def number_set(entry: Entry, name: str) -> int | None:
    """The whole number that an entry's setting has; None without it."""
    return int(str(entry.settings[name])) if name in entry.settings else None
