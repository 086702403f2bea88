"""The rollouts of a generation as groups, one a problem, of the same size or of many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Groups:
    """How many rollouts each group has; those of all processes come one group after the other."""

    sizes: Sequence[int]

    def each(self, items: Iterable[_Item]) -> list[_Item]:
        """The item of its group, of which there is one each, for every rollout."""
        pairs = zip(items, self.sizes, strict=True)
        return [item for item, size in pairs for _ in range(size)]

    def split(self, values: Any) -> list[Any]:
        """The `values` (rollouts, ...) of each group."""
        return list(values.split(list(self.sizes)))

    def sums(self, values: Any) -> Any:
        """Of the `values` (rollouts,) of each group: (groups,)."""
        return torch.segment_reduce(values, "sum", lengths=self._lengths(values))

    def means(self, values: Any) -> Any:
        """Of the `values` (rollouts,) of each group: (groups,)."""
        return self.sums(values) / self._lengths(values)

    def spread(self, values: Any) -> Any:
        """Its group's of the `values` (groups,) for each rollout: (rollouts,)."""
        return values.repeat_interleave(self._lengths(values))

    def varied(self, scores: Any) -> Any:
        """Which groups teach something: (groups,) bool from the `scores` (rollouts,)."""
        firsts = torch.stack([own[0] for own in self.split(scores)])
        return self.sums((scores != self.spread(firsts)).float()) > 0

    def _lengths(self, values: Any) -> Any:
        return torch.tensor(self.sizes, device=values.device)
