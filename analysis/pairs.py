"""(n, B): what a run keeps fixed, and what cells and runs are grouped by."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from isosweep.analysis.bounds import AtLeastOne


class Paired(Protocol):
    """Whatever has an n and a B: a run, a cell, a rejected candidate, a mean over seeds."""

    @property
    def num_generations(self) -> int:
        """Rollouts per problem, n."""

    @property
    def problems_per_batch(self) -> int:
        """Problems per batch, B."""


_Item = TypeVar("_Item")


class Pair(NamedTuple):
    """n and B; sorts by n, then by B."""

    num_generations: int
    problems_per_batch: int

    @classmethod
    def of(cls, item: Paired) -> "Pair":
        """The n and B of `item`."""
        return cls(item.num_generations, item.problems_per_batch)


@dataclass(frozen=True, kw_only=True)
class NamedCell:
    """An (n, B), as documents have it."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""

    @classmethod
    def of(cls, item: Paired) -> "NamedCell":
        """The n and B of `item`."""
        return cls(**Pair.of(item)._asdict())


def by_pair(items: Iterable[_Item], paired: Callable[[_Item], Paired]) -> dict[Pair, list[_Item]]:
    """The items of every (n, B), ascending; `paired` names what has the n and B of an item."""
    groups: dict[Pair, list[_Item]] = {}
    for item in items:
        groups.setdefault(Pair.of(paired(item)), []).append(item)
    return dict(sorted(groups.items()))
