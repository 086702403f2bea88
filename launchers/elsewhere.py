"""What can be seen of jobs that this process's launcher knows nothing of: process and heartbeat."""

import socket
from functools import cached_property
from pathlib import Path
from typing import assert_never

from isosweep.files import file_system_time
from isosweep.launchers.followed import Followed
from isosweep.launchers.launcher import Observed
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
    """Whether the submission's job cannot be asked for through `launcher`."""
    submission, job = followed.state.submission, followed.state.job
    if submission.launcher != launcher:
        return True
    match submission.launcher:
        case "local" | "inline":
            host = job.process.host if job and job.process else submission.by.host
            return host != socket.gethostname()
        case "slurm" | "command" | "none":
            return False
        case name:
            assert_never(name)


def observe_elsewhere(followed: Followed, clock: FileClock) -> Observed:
    """What can be said of a job without its scheduler: whether its process lives, or its worker
    has been silent for SILENCE_S."""
    state, current = followed.state, followed.files.view.current
    process = state.job.process if state.job else None
    alive = process.alive() if process else None
    if alive is not None:
        return Observed(status="running" if alive else "gone", reason="its process has ended")
    submission = state.submission
    waits = submission.launcher in ("slurm", "command")
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
