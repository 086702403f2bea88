"""Who owns a run and how far it has come: atomic state, numbered attempts, fencing."""

import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.machine import process_alive
from isosweep.store.paths import RunPaths

STATE_VERSION = 1
# A worker refreshes its state at least this often while it trains.
HEARTBEAT_S = 5.0
# Silence after which an owner on another machine counts as dead: a step of a large model can
# take minutes, and a start that comes too early is fenced, not wrong.
SILENCE_S = 600.0

RunStatus = Literal["running", "finished", "diverged", "interrupted", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Progress of a run as its newest attempt last reported it. `reward` is held-out avg@k.

    `warnings` are the health rules it breaks at the moment; `diverged_by` the one that ended it.
    """

    status: RunStatus
    attempt: int
    host: str
    pid: int
    job_id: str | None
    step: int
    compute: Compute
    reward: float | None
    reason: str | None
    updated: float
    warnings: tuple[str, ...] = ()
    diverged_by: str | None = None

    def alive(self) -> bool:
        """Whether the owner still works on the run, as far as this machine can tell."""
        if self.status != "running":
            return False
        if self.host == socket.gethostname():
            return process_alive(self.pid)
        return time.time() - self.updated < SILENCE_S


def read_state(run: RunPaths) -> RunState | None:
    """The run's state, or None before its first attempt. Raises RecordError for anything else."""
    try:
        document = read_json(run.state)
        if document is None:
            return None
        del document["version"]
        document["compute"] = Compute(**document["compute"])
        document["warnings"] = tuple(document.get("warnings", ()))
        state = RunState(**document)
        if state.status not in get_args(RunStatus):
            raise ValueError(f"status {state.status!r}")
        spent = [number for number in vars(state.compute).values() if number is not None]
        numbers = (state.attempt, state.pid, state.step, state.updated, *spent)
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("text where a number belongs")
    except (KeyError, TypeError, ValueError) as error:
        remedy = "remove it: the run then goes on from its last checkpoint"
        raise RecordError(f"{run.state}: not the state of a run ({error!r}); {remedy}") from None
    return state


def known_state(run: RunPaths) -> RunState | None:
    """The run's state; one that cannot be read is a failed run's, whose reason says so.

    The next attempt goes on from the last checkpoint and writes the state anew.
    """
    try:
        return read_state(run)
    except RecordError as error:
        return RunState(
            status="failed",
            attempt=_last_attempt(run),
            host="",
            pid=0,
            job_id=None,
            step=0,
            compute=Compute(),
            reward=None,
            reason=str(error),
            updated=0.0,
        )


def write_state(run: RunPaths, state: RunState) -> None:
    """Replace the run's state at once: a reader sees the old one or this one."""
    write_json(run.state, {"version": STATE_VERSION, **asdict(state)})


def mark(run: RunPaths, status: RunStatus, reason: str) -> None:
    """Record from outside that the run's owner is gone: killed, cancelled or lost."""
    state = read_state(run)
    if state is not None:
        write_state(run, replace(state, status=status, reason=reason, updated=time.time()))


class OvertakenError(Exception):
    """A later attempt owns the run; this one must stop without writing anything."""


@dataclass(frozen=True)
class Attempt:
    """One try at executing a run. The highest number owns it."""

    run: RunPaths
    number: int

    def check(self) -> None:
        """Raise OvertakenError if a later attempt has claimed the run."""
        if self.run.attempt(self.number + 1).exists():
            raise OvertakenError(f"{self.run.run_id}: attempt {self.number + 1} owns the run now")


def _last_attempt(run: RunPaths) -> int:
    names = [path.stem for path in run.attempts.glob("*.json")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def claim_attempt(run: RunPaths, job_id: str | None) -> Attempt:
    """Become the owner of `run`: the next attempt, claimed by exclusive creation of its file."""
    run.attempts.mkdir(parents=True, exist_ok=True)
    number = _last_attempt(run)
    while True:
        number += 1
        try:
            descriptor = os.open(run.attempt(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            continue
        os.close(descriptor)
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "job_id": job_id}
        write_json(run.attempt(number), {**owner, "unix_time": time.time()})
        return Attempt(run, number)
