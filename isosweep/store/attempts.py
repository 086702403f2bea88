"""Attempts at a run: one numbered file each, from its submission to its end.

    attempts/3.json         who is to train the run, and how far that has come
    attempts/3.begun.json   a worker has taken the attempt
    attempts/3.cancel.json  somebody wants it to stop for good
    attempts/3.end.json     how it ended, where its worker does not say so: its job is gone or was
                            never taken, a rank failed, or it was cancelled before it began

The highest number owns the run. `3.json` is created by whoever submits the run and then rewritten
by its worker alone (rank 0, and of ranks on one machine, before and after them, the process that
started them); a job that starts a second time makes the next attempt. Each other file is created
once, by whoever is first.

Nothing here relies on a lock, on a clock, or on a file being seen as absent, which network file
systems may answer from a cache: what is there is found by listing the directory.
"""

import os
import re
import socket
import time
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import JsonObject, create_json, highest_of, names, read_json, write_json
from isosweep.machine import process_alive, process_start
from isosweep.store.paths import ATTEMPTS, RunPaths

# A worker rewrites its file at least this often while it lives, from a thread.
HEARTBEAT_S = 5.0
# What an attempt does before its first step or evaluation (`Attempt.activity`).
STARTING, LOADING, BEGINNING = "starting", "loading the model", "beginning"
MEETING = "waiting for its other ranks"
# What schedulers' commands are given: no option of theirs, and one word.
_JOB_ID = re.compile(r"[A-Za-z0-9][!-~]*")

LauncherName = Literal["local", "slurm", "ray", "inline", "none"]


class Status(StrEnum):
    """What an attempt is doing, or how it ended.

    QUEUED: no worker is at it; one whose job is to start again is queued, too. LOST: its job is
    gone without a word of its worker. STUCK: it was ended for want of progress. REFUSED: the
    scheduler did not take it, or its worker what it was given; another try would not mend that.
    """

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"
    LOST = "lost"
    STUCK = "stuck"
    REFUSED = "refused"

    @property
    def live(self) -> bool:
        """Whether the run belongs to the attempt still."""
        return self in (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process, named for good: ids alone are used again. `start` is None where unknown."""

    host: str
    pid: int
    start: int | None

    @staticmethod
    def this() -> "Process":
        """The process that asks."""
        return Process.of(os.getpid())

    @staticmethod
    def of(pid: int) -> "Process":
        """The process of this machine that now has this id."""
        return Process(host=socket.gethostname(), pid=pid, start=process_start(pid))

    def alive(self) -> bool | None:
        """Whether it lives; None where that cannot be seen from this machine."""
        if self.host != socket.gethostname():
            return None
        if self.start is None:
            return process_alive(self.pid)
        return process_start(self.pid) == self.start


class OvertakenError(Exception):
    """A later attempt owns the run; this one must stop without writing anything."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt, as its files say.

    Written when it is submitted: `launcher`; `sweep`, the directory of the sweep that wants it;
    `job`, what its worker is to do; `by`, the process that submitted it; `batch` and `index`, by
    which its scheduler is asked for its job; `devices`, GPUs of the submitter's machine that it was
    given; `home` and `inode`, where the run's directory was and its number on the disk: a move
    changes the first, a copy both.

    Written by its worker: `worker`, `job_id` as the scheduler calls its job, `step`, `compute` and
    `reward` (held-out avg@k), `finished` (compute at which the run last ended as it should),
    `activity`, `warnings` (health rules that the run breaks at present) and `diverged_by` (the
    rule that ended it); what an earlier attempt has done counts until then. `updated` is when it
    was written, `progressed` when the run last came forward, both by the worker's clock.

    `cancel`: who asked for it to stop.
    """

    run: RunPaths
    number: int
    status: Status
    launcher: LauncherName = "none"
    sweep: str = ""
    job: dict[str, Any] = field(default_factory=dict)
    by: Process | None = None
    batch: str = ""
    index: int = 0
    devices: tuple[str, ...] = ()
    home: str = ""
    inode: int = 0
    worker: Process | None = None
    job_id: str | None = None
    step: int = 0
    compute: Compute = field(default_factory=Compute)
    finished: Compute = field(default_factory=Compute)
    reward: float | None = None
    activity: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()
    diverged_by: str | None = None
    updated: float = 0.0
    progressed: float = 0.0
    cancel: str | None = None

    @property
    def path(self) -> Path:
        """Its file."""
        return self.run.attempt(self.number)

    @property
    def live(self) -> bool:
        """Whether the run belongs to it: it waits or runs, as far as its files say."""
        return self.status.live

    @property
    def begun(self) -> bool:
        """Whether anybody has been at the run."""
        return self.worker is not None or self.compute.generations > 0

    @property
    def loads(self) -> bool:
        """Whether its worker has come to no step and no evaluation yet."""
        return self.activity in (STARTING, MEETING, LOADING, BEGINNING)

    @property
    def gone(self) -> bool:
        """Whether its worker can be seen from here to have ended, although nobody has said so."""
        here = self.launcher in ("local", "inline", "none")
        who = self.worker if self.worker or not here else self.by
        return self.live and here and who is not None and who.alive() is False

    def is_of_another(self, sweep: Path) -> bool:
        """Whether another sweep than that in the directory `sweep`, which is still there, has
        submitted it."""
        submitted = Path(self.sweep)
        if submitted == sweep:
            return False
        try:
            return (submitted / "plan.json").exists() and not submitted.samefile(sweep)
        except PermissionError:
            # Of somebody who keeps it closed.
            return True

    def check(self) -> None:
        """Raise OvertakenError if a later attempt owns the run."""
        if (later := highest(self.run)) > self.number:
            raise OvertakenError(f"{self.run.run_id}: attempt {later} owns the run now")

    def write(self, *, sync: bool = True) -> None:
        """Rewrite its file; its own worker alone may. `sync`: force it to the disk."""
        write_json(self.path, _document(self), sync=sync)

    def request_cancel(self, by: str) -> None:
        """Ask its worker to write a checkpoint and leave; nothing undoes that."""
        create_json(self.run.attempt(self.number, "cancel"), {"by": by, "unix_time": time.time()})

    def end(self, status: Status, reason: str) -> None:
        """Say how it ended, in place of its worker; the first to say so is believed."""
        document = {"status": status, "reason": reason, "unix_time": time.time()}
        create_json(self.run.attempt(self.number, "end"), document)


_ATTEMPT = TypeAdapter(Attempt)
# What is in no file: who reads it says so.
_UNWRITTEN = ("run", "number", "cancel")


def _document(attempt: Attempt) -> JsonObject:
    return {name: value for name, value in asdict(attempt).items() if name not in _UNWRITTEN}


def highest(run: RunPaths) -> int:
    """The number of the newest attempt; 0 where there is none."""
    return highest_of(names(run.text(ATTEMPTS)))


def newest(run: RunPaths) -> Attempt | None:
    """The attempt that owns the run; None where nobody has submitted it. One that cannot be read
    has failed: its reason says so, and the next goes on from the last checkpoint."""
    there = names(run.text(ATTEMPTS))
    number = highest_of(there)
    if not number:
        return None
    try:
        return _read(run, number, there)
    except RecordError as error:
        return Attempt(run=run, number=number, status=Status.FAILED, reason=str(error))


def read(run: RunPaths, number: int) -> Attempt:
    """One attempt. Raises RecordError, which names the file, where that is none."""
    return _read(run, number, names(run.text(ATTEMPTS)))


def _read(run: RunPaths, number: int, there: list[str]) -> Attempt:
    path = f"{run.text(ATTEMPTS)}/{number}.json"
    try:
        document = read_json(path)
        if document is None:
            raise ValueError("no such file")
        attempt = _ATTEMPT.validate_python({**document, "run": run, "number": number})
        if attempt.job_id is not None and not _JOB_ID.fullmatch(attempt.job_id):
            raise ValueError(f"job_id {attempt.job_id!r} is none of a scheduler")
        cancel, end = (
            read_json(f"{path.removesuffix('json')}{part}.json")
            if f"{number}.{part}.json" in there
            else None
            for part in ("cancel", "end")
        )
        if cancel is not None:
            attempt = replace(attempt, cancel=cancel["by"])
        if end is not None and attempt.live:
            attempt = replace(attempt, status=Status(end["status"]), reason=end["reason"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = str(error).replace("\n", " ")
        remedy = "remove it: the run then goes on from its last checkpoint"
        raise RecordError(f"{path}: not the state of a run ({words}); {remedy}") from None
    return _of_copy(attempt) if attempt.live else attempt


def _of_copy(attempt: Attempt) -> Attempt:
    """The attempt, over where it was copied while it was live: its job is the original's."""
    home, root = Path(attempt.home), attempt.run.root
    if attempt.home in ("", str(root)) or attempt.inode == root.stat().st_ino:
        return attempt
    try:
        if RunPaths(home).attempt(attempt.number).samefile(attempt.path):
            return attempt
    except OSError:
        pass
    reason = f"its job belongs to {home}, of which this is a copy"
    return replace(attempt, status=Status.INTERRUPTED, reason=reason)


def create_attempt(
    run: RunPaths,
    launcher: LauncherName,
    sweep: str,
    job: JsonObject,
    batch: str,
    index: int = 0,
    devices: tuple[str, ...] = (),
) -> Attempt | None:
    """Make the next attempt, queued; None where the newest is live, or another process was faster.

    `run.root` is there already. Raises OSError.
    """
    before = newest(run)
    if before is not None and before.live:
        return None
    attempt = Attempt(
        run=run,
        number=before.number + 1 if before else 1,
        status=Status.QUEUED,
        launcher=launcher,
        sweep=sweep,
        job=job,
        by=Process.this(),
        batch=batch,
        index=index,
        devices=devices,
        home=str(run.root.absolute()),
        inode=run.root.stat().st_ino,
        **_known(before),
    )
    return attempt if create_json(attempt.path, _document(attempt)) else None


def begin(attempt: Attempt, job_id: str | None) -> Attempt:
    """Become the worker of `attempt`; of the next one where a worker has taken it before, as after
    a requeue. `job_id`: what the scheduler calls this process's job."""
    own = replace(_begun(attempt), job_id=job_id)
    if create_json(attempt.run.attempt(attempt.number, "begun"), {"unix_time": own.updated}):
        own.write()
        return own
    return claim(attempt.run, own)


def claim(run: RunPaths, attempt: Attempt | None = None) -> Attempt:
    """Make the next attempt at `run`, with this process as its worker, and what else `attempt` says
    of it; of nobody's submission where that is None."""
    own = attempt or _begun(Attempt(run=run, number=0, status=Status.RUNNING))
    while True:
        before = newest(run)
        made = replace(own, number=before.number + 1 if before else 1, **_known(before))
        if create_json(made.path, _document(made)):
            create_json(run.attempt(made.number, "begun"), {"unix_time": made.updated})
            return made


def _begun(attempt: Attempt) -> Attempt:
    now, this = time.time(), Process.this()
    begun = replace(attempt, status=Status.RUNNING, worker=this, updated=now, progressed=now)
    return replace(begun, activity=STARTING, reason="")


def _known(before: Attempt | None) -> dict[str, Any]:
    """What an attempt knows of a run before its own worker has said anything."""
    known = ("step", "compute", "finished", "reward")
    return {} if before is None else {name: getattr(before, name) for name in known}
