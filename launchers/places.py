"""Places of this machine, one a run, each with GPUs of its own."""

import heapq
from collections.abc import Collection
from dataclasses import dataclass

from isosweep.launchers.followed import Followed
from isosweep.launchers.launcher import Launcher
from isosweep.store.submissions import Process, SubmissionState

# A worker that has said its last word is gone within seconds: what takes longer hangs.
_GRACE_S = 60.0


@dataclass
class _Left:
    """Places of a run that is over, whose process may still be there."""

    slots: tuple[int, ...]
    state: SubmissionState
    since: float | None = None


class Places:
    """`count` places, the lowest taken first; None: no places, and always room.

    Places past the last GPU share those of the first. One that is left is free only once its
    process is gone, and with it the GPU.
    """

    def __init__(self, count: int | None, launcher: Launcher) -> None:
        self._limited = count is not None
        # In order a list is a heap.
        self._free = list(range(count or 0))
        self._launcher = launcher
        self._left: list[_Left] = []

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
            own = self._launcher.devices(slot)
            if not set(own).isdisjoint(devices):
                shares.setdefault(own, slot)
        taken = tuple(shares.values())
        self._free = sorted(set(self._free).difference(taken))
        return taken

    def give(self, slots: Collection[int]) -> None:
        """These places are free again."""
        for slot in slots:
            heapq.heappush(self._free, slot)

    def leave(self, followed: Followed) -> None:
        """The run is over."""
        slots, followed.slots = followed.slots, ()
        if slots and followed.files.view.submission is not None:
            self._left.append(_Left(slots, followed.state))
        else:
            self.give(slots)

    def look(self, now: float) -> None:
        """Free the places whose processes are gone, and end those that hang; `now`: seconds of the
        caller's clock."""
        still = []
        for left in self._left:
            process = left.state.job.process if left.state.job else None
            # A run of this very process (launcher=inline) is over when that says so.
            if process in (None, Process.this()) or process.alive() is not True:
                self.give(left.slots)
                continue
            left.since = now if left.since is None else left.since
            if now - left.since > _GRACE_S:
                self._launcher.stop([left.state], kill=True)
                left.since = now
            still.append(left)
        self._left = still
