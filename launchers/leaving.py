"""Places of runs that are over: free only once their processes are gone, and with them the GPU."""

from dataclasses import dataclass

from isosweep.launchers.followed import Followed
from isosweep.launchers.launcher import Launcher
from isosweep.launchers.places import Places
from isosweep.store.submissions import Process, Submission, SubmissionState

# A worker that has said its last word is gone within seconds: what takes longer hangs.
_GRACE_S = 60.0


@dataclass
class _Place:
    slots: tuple[int, ...]
    state: SubmissionState
    over: bool
    since: float | None = None


class Leaving:
    """Gives places back when the processes on them are gone; those that hang are ended."""

    def __init__(self, launcher: Launcher, places: Places) -> None:
        self._launcher, self._places = launcher, places
        self._left: list[_Place] = []

    def add(self, followed: Followed) -> None:
        """The run is over, or somebody else's to follow; its process may still be there."""
        slots, followed.slots = followed.slots, ()
        if slots and followed.files.view.submission is not None:
            state = followed.state
            self._left.append(_Place(slots, state, over=state.end is not None))
        else:
            self._places.give(slots)

    def holds(self, submission: Submission) -> bool:
        """Whether a submission that was left to somebody else still has its place."""
        return any(place.state.submission == submission for place in self._left)

    def look(self, now: float) -> None:
        """Give back the places of processes that are gone; `now`: seconds of the caller's clock."""
        still = []
        for place in self._left:
            process = place.state.job.process if place.state.job else None
            # A run of this very process (launcher=inline) is over when that says so.
            if process in (None, Process.this()) or process.alive() is not True:
                self._places.give(place.slots)
                continue
            place.since = now if place.since is None else place.since
            if place.over and now - place.since > _GRACE_S:
                self._launcher.stop([place.state], kill=True)
                place.since = now
            still.append(place)
        self._left = still
