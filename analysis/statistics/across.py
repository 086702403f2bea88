"""Laws across entries: what an amount does to an (n, B), of entries that differ in nothing else.

A law is a row, `Across`: the settings that vary, the amount that they set, what is read of each
entry, and the regression of that on the amounts. `sizes`, `reuse`, `updates` and `moves` have them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from isosweep.analysis.bounds import Positive
from isosweep.analysis.statistics.entries import Entry, groups_but_for

# Through two amounts every law of two parameters passes; they show that something changes, and not
# where.
MIN_AMOUNTS = 3
# Chance of a misfit as large below which a law is not taken for the truth.
MISFIT = 1e-3


Failure = Literal[
    "few seeds",
    "no spread",
    "no law",
    "uncertain",
    "no fall",
    "little gain",
    "at once",
    "few amounts",
    "together",
    "wrong way",
    "no best",
]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An estimate and its interval at the analysis's confidence; a null end is open."""

    value: Positive | None
    """The likeliest; null where that lies at the end of what was tried."""
    low: Positive | None
    """Lower end."""
    high: Positive | None
    """Upper end."""


@dataclass(frozen=True, kw_only=True)
class Unidentified:
    """Why a law is not identified."""

    kind: Failure
    """What is wrong."""
    found: float | None = None
    """What there is: seeds that all entries have, values of `of`, or the least that a run gains;
    null otherwise."""
    least: float | None = None
    """What it takes; null where no number says it."""
    of: str | None = None
    """The amount that is at fault: updates, batch or parameters; null otherwise."""


_Key = TypeVar("_Key", bound=tuple[Any, ...])
_Amount = TypeVar("_Amount")
_Seen = TypeVar("_Seen")
_Law = TypeVar("_Law")


@dataclass(frozen=True, kw_only=True)
class Group(Generic[_Key, _Amount, _Seen]):
    """What a law is fitted to: what was `seen` under one `key`, a named tuple such as (n, B), in
    each of the entries that differ in their amounts alone."""

    entries: tuple[str, ...]
    key: _Key
    amounts: tuple[_Amount, ...]
    seen: tuple[_Seen, ...]
    margin: float
    confidence: float

    @property
    def labels(self) -> dict[str, Any]:
        """The fields that every law has."""
        named: Any = self.key
        return {"entries": self.entries, **named._asdict()}


@dataclass(frozen=True, kw_only=True)
class Across(Generic[_Key, _Amount, _Seen, _Law]):
    """One law. `varied`: beginnings of the settings that may differ; `amount`: of an entry, None
    where it has none; `descending`: the order of amounts; `read`: of an entry and its amount, what
    it shows under every key; `fit`: the law, None where the entries have nothing in common;
    `least`: different amounts that it takes."""

    varied: tuple[str, ...]
    amount: Callable[[Entry], _Amount | None]
    read: Callable[[Entry, _Amount], Mapping[_Key, _Seen]]
    fit: Callable[[Group[_Key, _Amount, _Seen]], _Law | None]
    descending: bool = False
    least: int = MIN_AMOUNTS

    def laws(self, entries: Sequence[Entry], margin: float, confidence: float) -> tuple[_Law, ...]:
        """One for every key that all entries of at least `least` amounts have, ascending."""
        found = []
        for group in groups_but_for(entries, *self.varied):
            known: list[tuple[Any, Entry]] = [
                (amount, entry) for entry in group if (amount := self.amount(entry)) is not None
            ]
            known.sort(key=lambda of: of[0], reverse=self.descending)
            if len({amount for amount, _ in known}) < self.least:
                continue
            read = [self.read(entry, amount) for amount, entry in known]
            found += [
                self.fit(
                    Group(
                        entries=tuple(entry.name for _, entry in known),
                        key=key,
                        amounts=tuple(amount for amount, _ in known),
                        seen=tuple(of[key] for of in read),
                        margin=margin,
                        confidence=confidence,
                    )
                )
                for key in sorted(set.intersection(*(set(of) for of in read)))
            ]
        return tuple(law for law in found if law is not None)


def number_set(entry: Entry, name: str) -> int | None:
    """The whole number that an entry's setting has; None without it."""
    return int(str(entry.settings[name])) if name in entry.settings else None
