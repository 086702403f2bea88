"""Places of this machine, one a run, each with GPUs of its own."""

import heapq
from collections.abc import Callable, Collection


class Places:
    """`count` places, the lowest taken first; None: no places, and always room.

    `devices`: the GPUs of a place, by name. Places past the last GPU share those of the first.
    """

    def __init__(self, count: int | None, devices: Callable[[int], tuple[str, ...]]) -> None:
        self._limited = count is not None
        # In order a list is a heap.
        self._free = list(range(count or 0))
        self._devices = devices

    @property
    def room(self) -> bool:
        """Whether a run can start."""
        return bool(self._free) or not self._limited

    def take(self) -> tuple[int, ...]:
        """The next free place; none where there are no places. Raises IndexError without room."""
        return (heapq.heappop(self._free),) if self._limited else ()

    def take_those_of(self, devices: Collection[str]) -> tuple[int, ...]:
        """Free places on `devices`, which a run that was not started from here takes up: one for
        each share of the GPUs that they belong to. Without GPUs any place is as good."""
        if not self._free:
            return ()
        if not devices:
            return self.take()
        shares: dict[tuple[str, ...], int] = {}
        for slot in sorted(self._free):
            own = self._devices(slot)
            if not set(own).isdisjoint(devices):
                shares.setdefault(own, slot)
        taken = tuple(shares.values())
        self._free = sorted(set(self._free).difference(taken))
        return taken

    def give(self, slots: Collection[int]) -> None:
        """These places are free again."""
        for slot in slots:
            heapq.heappush(self._free, slot)
