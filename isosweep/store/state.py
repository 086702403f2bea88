"""How far a run has come: a file for each of its attempts, which that attempt alone writes.

The highest attempt owns the run. What an overtaken one still writes goes into its own files, which
nobody reads any more; nobody else writes into them, whatever became of the attempt: that is said
of its submission (`store.submissions`).
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Literal

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import write_json
from isosweep.store.claims import claim_next, highest, read_claim
from isosweep.store.paths import ATTEMPTS, RunPaths
from isosweep.store.submissions import (
    Process,
    SubmissionState,
    newest_submission,
)

STATE_VERSION = 2
# A worker refreshes its state at least this often while it lives, from a thread: whatever it does.
HEARTBEAT_S = 5.0

# What an attempt does before its first step or evaluation (`RunState.activity`).
STARTING, LOADING, BEGINNING = "starting", "loading the model", "beginning"
MEETING = "waiting for its other nodes"

RunStatus = Literal["running", "finished", "diverged", "interrupted", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Progress of a run as its newest attempt last reported it. `reward` is held-out avg@k.

    `submission`: the one that the attempt belongs to; None where nobody submitted it. `updated` is
    when it was written, and `progressed` when the attempt last came forward (a step, an evaluation,
    a checkpoint, a model that was loaded), both by the worker's clock. `activity`: what it does
    since. `checkpoint_bytes`: what the run's complete checkpoints take on the disk; None where
    that was not written. `warnings` are the health rules it breaks at the moment; `diverged_by` the
    one that ended it.
    """

    status: RunStatus
    attempt: int
    host: str
    pid: int
    step: int
    compute: Compute
    reward: float | None
    reason: str | None
    updated: float
    start: int | None = None
    submission: int | None = None
    progressed: float = 0.0
    activity: str = ""
    warnings: tuple[str, ...] = ()
    diverged_by: str | None = None
    checkpoint_bytes: int | None = None

    @property
    def loads(self) -> bool:
        """Whether the attempt has come to no step and no evaluation yet."""
        return self.activity in (STARTING, MEETING, LOADING, BEGINNING)

    @property
    def process(self) -> Process:
        """The process that wrote it."""
        return Process(host=self.host, pid=self.pid, start=self.start)


@dataclass(frozen=True, kw_only=True)
class RunView:
    """What is known of a run: its newest attempt's state, and its newest submission."""

    state: RunState | None
    submission: SubmissionState | None

    @property
    def current(self) -> RunState | None:
        """The state, if an attempt of the newest submission wrote it."""
        state, submission = self.state, self.submission
        if state is None or submission is None:
            return state
        return state if state.submission == submission.submission.number else None

    @property
    def at_work(self) -> bool:
        """Whether the worker of its newest attempt lives, or may for all that can be seen from
        here: of a run that nobody submitted, a process on another machine may."""
        if self.state is None or self.state.status != "running":
            return False
        alive = self.state.process.alive()
        return self.submission is None if alive is None else alive

    @property
    def occupied(self) -> bool:
        """Whether somebody is at the run, or may be."""
        return self.at_work if self.submission is None else self.submission.live

    @property
    def reason(self) -> str:
        """Why the run is where it is: what its submission ended by, or what its worker said."""
        end = self.submission.end if self.submission else None
        if end is not None and (end.outcome != "finished" or self.current is None):
            return end.reason
        return (self.current.reason if self.current else None) or ""


def read_state(run: RunPaths, *, before: float = math.inf) -> RunState | None:
    """The state of the run's newest attempt, of those with numbers less than `before`; None where
    there is none.

    Raises RecordError where it cannot be read.
    """
    directory = run.text(ATTEMPTS)
    number = highest(directory, before=before)
    if not number:
        return None
    path = f"{directory}/{number}.json"
    try:
        return read_claim(RunState, path, STATE_VERSION, attempt=number)
    except ValueError as error:
        remedy = "remove it: the run then goes on from its last checkpoint"
        raise RecordError(f"{path}: not the state of a run ({error}); {remedy}") from None


def known_state(run: RunPaths) -> RunState | None:
    """The run's state; one that cannot be read is a failed run's, whose reason says so.

    The next attempt goes on from the last checkpoint and writes a state of its own.
    """
    try:
        return read_state(run)
    except RecordError as error:
        return _unreadable(run, str(error))


def view_run(run: RunPaths) -> RunView:
    """What is known of the run; files that cannot be read make it a failed one."""
    try:
        submission = newest_submission(run)
    except RecordError as error:
        return RunView(state=_unreadable(run, str(error)), submission=None)
    return RunView(state=known_state(run), submission=submission)


def _unreadable(run: RunPaths, reason: str) -> RunState:
    return RunState(
        status="failed",
        attempt=highest(run.attempts),
        host="",
        pid=0,
        step=0,
        compute=Compute(),
        reward=None,
        reason=reason,
        updated=0.0,
    )


class OvertakenError(Exception):
    """A later attempt owns the run; this one must stop without writing anything."""


@dataclass(frozen=True)
class Attempt:
    """One try at executing a run. The highest number owns it."""

    run: RunPaths
    number: int

    def check(self) -> None:
        """Raise OvertakenError if a later attempt has claimed the run."""
        if (newest := highest(self.run.attempts)) > self.number:
            raise OvertakenError(f"{self.run.run_id}: attempt {newest} owns the run now")

    def write(self, state: RunState, *, sync: bool = True) -> None:
        """Replace the attempt's state at once: a reader sees the old one or this one.

        `sync`: force it to the disk.
        """
        document = {"version": STATE_VERSION, **asdict(state)}
        path = self.run.attempt(self.number)
        write_json(path, document, sync=sync)


def claim_attempt(run: RunPaths, submission: int | None = None) -> Attempt:
    """Become the owner of `run`: its next attempt."""
    before, now, this = known_state(run), time.time(), Process.this()
    state = RunState(
        status="running",
        attempt=0,
        host=this.host,
        pid=this.pid,
        start=this.start,
        submission=submission,
        step=before.step if before else 0,
        compute=before.compute if before else Compute(),
        reward=before.reward if before else None,
        reason=None,
        updated=now,
        progressed=now,
        activity=STARTING,
    )
    # Its number is the file's name.
    number = claim_next(run.attempts, {"version": STATE_VERSION, **asdict(state)})
    return Attempt(run, number)
