"""How long a run has made no progress, whatever its clock says."""

from isosweep.launchers.elsewhere import FileClock
from isosweep.launchers.followed import Followed
from isosweep.plan.patience import LEAST_S


def patience_s(followed: Followed) -> float:
    """Seconds without progress after which the run is stuck. A worker that has not begun its first
    step has LEAST_S at least: what a model takes to load does not go by the length of a step."""
    current = followed.files.view.current
    begun = current is not None and not current.loads
    return followed.item.stuck_after_s if begun else max(LEAST_S, followed.item.stuck_after_s)


def idle_seconds(followed: Followed, clock: FileClock, now: float) -> float | None:
    """Seconds without progress of a run whose job runs; None where that cannot be said.

    What its worker last wrote has the times of writing and of progress by the worker's clock, and
    the file's age is by the file system's: together they are how long ago progress was. A worker
    that is stopped writes nothing, which counts the same. A job that was requeued begins anew when
    its scheduler runs it. `now`: by this process's clock.
    """
    if followed.refused or followed.observed.status != "running" or followed.running_since is None:
        return None
    running = now - followed.running_since
    current = followed.files.view.current
    if current is None or current.status != "running":
        # Its process is there, and says nothing.
        return running
    if not current.progressed:
        return None
    age = clock.age(followed.item.paths.attempt(current.attempt))
    if age is None:
        return None
    return min(running, max(0.0, current.updated - current.progressed) + age)
