"""When a job counts as gone: one rule, for all launchers, the queue and the commands."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from isosweep.files import file_system_time
from isosweep.launchers.launcher import JobState, Observed
from isosweep.store.attempts import Attempt, Process, Status
from isosweep.words.numbers import duration

# A job that is nowhere, or in a state that Slurm leaves by itself, may be back; so may one whose
# sbatch of a driver that was killed is still under way.
_PATIENCE_S = 60.0
# A worker that wrote so recently lives, whatever its scheduler does not say of its job: it writes
# every 5 s (`store.attempts.HEARTBEAT_S`), and a network file system may show that a minute later
# (nfs(5), acregmax).
_FRESH_S = 120.0
# Where nobody can be asked for the job: longer than a file server takes to restart.
_SILENCE_S = 600.0
# The clock of a file system is read anew after so long: that makes a file there.
_CLOCK_S = 10.0


class Liveness:
    """Decides which live attempts have lost their jobs.

    A worker writes itself how its attempt ended, and is believed first. Of one that has not:

        its scheduler, or the process table, says     its file says                 it is
        -----------------------------------------     -------------------------     --------------
        it waits; it runs                             anything                      live
        nothing, or what is not known here            anything                      live
        it has ended                                  anything                      gone
        it has ended, and may be started again        anything                      gone after 60 s
        there is no such job                          no worker yet, and its        live: about to
                                                      submitter lives               be started
        there is no such job                          written within 120 s          live
        there is no such job                          anything else                 gone after 60 s
        (its process is on another host)              written within 600 s          live
        (its process is on another host)              silent for longer             gone

    How a gone attempt ended, its scheduler says (`Observed.outcome`): LOST where it does not.
    Seconds of waiting are of this process's own clock, from the first such answer; those of
    silence of the file system's. With `looks` a job is gone only where so many answers in a row say
    so: the attempt's file is read in between.
    """

    def __init__(self, *, looks: int = 1) -> None:
        self._looks = looks
        # Since when, and how often in a row, each attempt's job was not there.
        self._absent: dict[Path, tuple[float, int]] = {}
        self._clock_ahead = self._clock_read = 0.0

    def judge(self, attempts: Sequence[Attempt], observed: Sequence[Observed]) -> list[JobState]:
        """The state of each job; unknown also where the attempt's file cannot be seen."""
        states = []
        for attempt, each in zip(attempts, observed, strict=True):
            try:
                status, reason = self._conclude(attempt, each)
            except OSError as error:
                status, reason = "unknown", str(error)
            states.append(
                JobState(status=status, reason=reason, outcome=each.outcome, job_id=each.job_id)
            )
        return states

    def _conclude(
        self, attempt: Attempt, observed: Observed
    ) -> tuple[Literal["pending", "running", "gone", "unknown"], str]:
        status, reason = observed.status, observed.reason
        if status == "pending" or status == "running":
            self._absent.pop(attempt.path, None)
            return status, reason
        if status == "unknown":
            return status, reason
        if status == "missing" and attempt.worker is None and _submitter_lives(attempt):
            return "pending", "about to be started"
        now = time.monotonic()
        since, looks = self._absent.get(attempt.path, (now, 0))
        self._absent[attempt.path] = since, looks + 1
        if status == "missing" and attempt.status is Status.RUNNING:
            silent = self._age(attempt)
            if silent < _FRESH_S:
                return "unknown", f"{reason}; its worker wrote {duration(silent)} ago"
        if status == "away":
            silent = self._age(attempt)
            if silent < _SILENCE_S:
                del self._absent[attempt.path]
                return "running", ""
            reason = f"{reason} for {duration(silent)}"
        patience = _PATIENCE_S if status in ("missing", "restarting") else 0.0
        gone = now - since >= patience and looks + 1 >= self._looks
        return "gone" if gone else "unknown", reason

    def _age(self, attempt: Attempt) -> float:
        """Seconds since the attempt's file was written, by its file system's clock."""
        now = time.monotonic()
        if now - self._clock_read > _CLOCK_S or not self._clock_ahead:
            self._clock_ahead = file_system_time(attempt.run.root) - now
            self._clock_read = now
        return max(0.0, now + self._clock_ahead - attempt.path.stat().st_mtime)


def _submitter_lives(attempt: Attempt) -> bool:
    """Whether another process than this one is about to start the attempt's job."""
    by = attempt.by
    return by is not None and by != Process.this() and by.alive() is True


def observe_process(attempt: Attempt) -> Observed:
    """Whether the process of an attempt lives; until it says who it is, its submitter's."""
    if attempt.worker is None and attempt.launcher in ("slurm", "ray"):
        return Observed(status="unknown", reason=f"waits for a job of {attempt.launcher}")
    process = attempt.worker or attempt.by
    alive = process.alive() if process else False
    job_id = str(attempt.worker.pid) if attempt.worker else None
    if process is not None and alive is None:
        return Observed(status="away", reason=f"no word from {process.host}", job_id=job_id)
    if not alive:
        return Observed(status="ended", job_id=job_id)
    if attempt.worker is None:
        return Observed(status="pending", reason="about to be started")
    return Observed(status="running", job_id=job_id)
