"""What a run's own files show of its job, whatever its scheduler says: heartbeat and progress."""

import socket
from functools import cached_property
from pathlib import Path

from isosweep.files import file_system_time
from isosweep.launchers.followed import Followed
from isosweep.launchers.launcher import Observed
from isosweep.plan.patience import LEAST_S
from isosweep.words.numbers import duration

# Many heartbeats (`store.state.HEARTBEAT_S`), and longer than a file server takes to restart.
SILENCE_S = 600.0


class FileClock:
    """The time of the file system that runs are on: clocks of hosts differ."""

    def __init__(self, directory: Path) -> None:
        """`directory`: one that is there, on that file system."""
        self._directory = directory

    @cached_property
    def _now(self) -> float:
        """When this clock was first asked: what a file that was just written says."""
        return file_system_time(self._directory)

    def age(self, path: Path) -> float | None:
        """Seconds since the file was written; None where that cannot be said."""
        try:
            return max(0.0, self._now - path.stat().st_mtime)
        except OSError:
            return None


def may_have_job(followed: Followed, clock: FileClock) -> bool:
    """Whether its job may be there: while its submitter is at it, there may be none yet."""
    state = followed.files.view.submission
    if state is None or not state.live or followed.refused:
        return False
    if state.job is not None or followed.own:
        return True
    by = state.submission.by.alive()
    if by is None:
        age = clock.age(state.submission.path)
        return age is not None and age > SILENCE_S
    return not by


def is_elsewhere(followed: Followed, launcher: str) -> bool:
    """Whether the submission's job cannot be asked for through `launcher`, or not on this host."""
    submission, job = followed.state.submission, followed.state.job
    host = job.process.host if job and job.process else submission.by.host
    of_a_host = submission.launcher in ("local", "inline")
    return submission.launcher != launcher or (of_a_host and host != socket.gethostname())


def observe_elsewhere(followed: Followed, clock: FileClock) -> Observed:
    """What can be said of a job without its scheduler: whether its process lives, or its worker
    has been silent for SILENCE_S."""
    state, current = followed.state, followed.files.view.current
    process = state.job.process if state.job else None
    alive = process.alive() if process else None
    if alive is not None:
        return Observed(status="running" if alive else "gone", reason="its process has ended")
    submission = state.submission
    waits = submission.launcher in ("slurm", "ray")
    if current is None and waits and (state.job or submission.by.alive() is not False):
        name = f"job {state.job.job_id}" if state.job else "a job"
        return Observed(status="unknown", reason=f"waits for {name} of {submission.launcher}")
    sign = submission.run.attempt(current.attempt) if current else submission.path
    age = clock.age(sign)
    if age is None:
        return Observed(status="unknown")
    if age < SILENCE_S:
        return Observed(status="running")
    host = current.host if current else submission.by.host
    return Observed(status="gone", reason=f"no word from {host} for {duration(age)}")


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
