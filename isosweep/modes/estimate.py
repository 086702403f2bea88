"""How long a sweep will still take: by the time model, corrected by what has been measured."""

from collections.abc import Mapping, Sequence

from isosweep.plan.cells import PlannedRun
from isosweep.plan.scheduling import makespan

# Until runs have come forward by so many predicted seconds, the prediction counts as much as what
# is measured: a run's start-up is over then, as a rule, and its first evaluation.
_PRIOR_S = 60.0
# Between two schedules of what is left, in seconds: one of 10,000 runs takes 10 ms.
_SCHEDULED_S = 5.0


class Estimate:
    """The seconds that are left, from each run's predicted time and the share of it behind it."""

    def __init__(
        self, runs: Sequence[PlannedRun], behind: Mapping[str, float], places: int
    ) -> None:
        """`behind`: share of each run's compute that is spent, by id; `places`: runs at once."""
        self._left = {run.run_id: run.seconds * (1 - behind[run.run_id]) for run in runs}
        self._places = places
        self._predicted = self._measured = 0.0
        self._looked: float | None = None
        self._scheduled = -_SCHEDULED_S
        self._makespan = 0.0

    def came_forward(self, run: PlannedRun, share: float) -> None:
        """`share` more of a run's compute is behind it."""
        self._left[run.run_id] = max(0.0, self._left[run.run_id] - run.seconds * share)
        self._predicted += max(0.0, run.seconds * share)

    def step(self, now: float, running: int) -> None:
        """So many runs have been running since the last step; `now`: in seconds, by any clock."""
        if self._looked is not None:
            self._measured += running * (now - self._looked)
        self._looked = now

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the last run's end, with each free place taking the longest run that is
        left; None before anything has come forward."""
        if self._predicted == 0.0:
            return None
        if now - self._scheduled >= _SCHEDULED_S:
            self._scheduled = now
            self._makespan = makespan([s for s in self._left.values() if s > 0], self._places)
        slower = (self._measured + _PRIOR_S) / (self._predicted + _PRIOR_S)
        return self._makespan * slower
