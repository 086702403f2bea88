"""A queue: keeps runs submitted, one attempt a run, until each is done or given up.

What an attempt's file says is believed first: its worker writes how it ended, which is noticed at
the next pass. Only where a job is gone without a word is the scheduler, or the process table,
believed, twice in a row and with the file read in between.
"""

import errno
import os
import random
import secrets
import socket
import time
from bisect import insort_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from isosweep.files import file_system_time, make_directory
from isosweep.launchers.items import QueueItem, merged
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.plan.patience import LEAST_S
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Process, Status, newest, submit
from isosweep.words.numbers import duration

# Between two looks at the files; a pass that takes long is followed by a pause of ten times that,
# so that a driver takes a tenth of a core at most.
_POLL_S, _SHARE = 0.25, 10
# Between two looks at heartbeats, which come every 5 s (`store.attempts.HEARTBEAT_S`).
_HEARTBEATS_S = 10.0
# A worker elsewhere that has been silent for so long is gone: longer than a file server takes to
# restart.
SILENCE_S = 600.0
# Looks in a row that a job is gone in, before that is believed.
_GONE = 2
# Seconds between a failed try and the next, after the first, the second and every further one:
# what a disk or a device lacks for a minute is no reason to give a run up.
_RETRY_S = (10.0, 60.0, 300.0)
# Pauses after a refusal, doubled each time: a controller is back after a restart in seconds, after
# a failover in a minute or two.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0
# How often a refusal that does not say that it passes is tried again: users and names are unknown
# for a moment, too.
_REFUSALS = 3
# A worker that has said its last word is gone within seconds: what takes longer hangs.
_GRACE_S = 60.0
_FAILURES = (Status.FAILED, Status.LOST, Status.STUCK)


@dataclass(eq=False)
class _Waiting:
    """A run to be submitted. `before`: its newest attempt when the queue began, which a cancel that
    this queue has to respect comes after. `due`: when it may be, by the monotonic clock."""

    item: QueueItem
    before: int
    due: float = 0.0


@dataclass(eq=False)
class _Followed:
    """A run whose newest attempt is live, as last read.

    `place`: its place on this machine. `refused`: the scheduler has not taken it yet, `refusals`
    how often. `seen`: what is known of its job; `gone`: how often in a row that was not to be
    found; `running_since`: by this process's clock. `began_at`: compute that the run had behind it.
    `stuck`: why it was killed. `pardoned`: it was to be cancelled before the queue began. `left`:
    when it was over, and its process still there.
    """

    item: QueueItem
    attempt: Attempt
    place: int | None = None
    refused: Refused | None = None
    refusals: int = 0
    seen: Observed = field(default_factory=lambda: Observed(status="unknown"))
    gone: int = 0
    running_since: float | None = None
    began_at: float = 0.0
    stuck: str | None = None
    pardoned: bool = False
    left: float | None = None


class RunQueue:
    """Runs of one or more sweeps that share a launcher. `failed`: runs given up, and why.

    A run that diverges is done: more tries would end the same way. `notice` is told what a user
    should know, a line each time it changes.
    """

    def __init__(
        self,
        items: Iterable[QueueItem],
        launcher: Launcher,
        *,
        max_parallel: int,
        max_retries: int,
        notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`max_parallel`: runs alive at once. A launcher without places keeps to it by itself in
        what it is given at first; it is given more only where fewer are active."""
        self.failed: dict[str, str] = {}
        self.launcher = launcher
        self._notice, self._this = notice, Process.this()
        self._max_parallel, self._max_retries = max_parallel, max_retries
        # The shortest first, and of equal ones the newest.
        self._waiting: list[_Waiting] = []
        self._active: list[_Followed] = []
        self._tries: dict[str, int] = {}
        self._next_look = self._next_heartbeat = self._next_submit = self._pause = 0.0
        self._refusal: str | None = None
        self._stopping = False
        self._took = 0.0
        self.add(items)

    def add(self, items: Iterable[QueueItem]) -> None:
        """More runs; those that somebody works on already are followed from now on."""
        for item in merged(items):
            attempt = newest(item.paths)
            if self._standing(item, attempt).ended:
                continue
            if attempt is not None and attempt.live:
                # One that is being cancelled already is tried again after it.
                self._follow(item, attempt, pardoned=attempt.cancel is not None)
            else:
                self._wait(_Waiting(item, attempt.number if attempt else 0))

    @property
    def busy(self) -> bool:
        """Whether a run waits or is active."""
        return bool(self._waiting or self._active)

    @property
    def active(self) -> list[PlannedRun]:
        """The runs that are submitted and not over."""
        return [followed.item.run for followed in self._active]

    @property
    def attempts(self) -> list[tuple[PlannedRun, Attempt]]:
        """The active runs, each with its newest attempt as last read."""
        return [(followed.item.run, followed.attempt) for followed in self._active]

    @property
    def waiting(self) -> int:
        """How many runs are not submitted yet."""
        return len(self._waiting)

    @property
    def submits(self) -> bool:
        """Whether the next pass may submit one of those that wait."""
        return time.monotonic() >= self._next_submit and self._room(0)

    @property
    def pause_s(self) -> float:
        """Seconds until the next pass is due."""
        return max(_POLL_S, _SHARE * self._took)

    def step(self) -> None:
        """One pass: collect what is over, start what there is place for.

        Raises OSError where a file system fails: what is left undone is for the next pass.
        """
        began, now = time.thread_time(), time.monotonic()
        # That of one run, whose directory may be away, keeps no other from its end.
        failed: OSError | None = None
        try:
            self._observe(now)
        except OSError as error:
            failed = error
        for followed in list(self._active):
            try:
                if self._over(followed, now):
                    self._active.remove(followed)
            except OSError as error:
                failed = error
        if not self._stopping and now >= self._next_submit:
            self._submit(now)
        # What runs execute in this process (launcher=inline) is no cost of looking at them.
        inline = self.launcher.name == "inline"
        self._took = 0.0 if inline else time.thread_time() - began
        if failed is not None:
            raise failed

    def stop(self, *, kill: bool = False) -> int:
        """Start no more, and ask the runs to write a checkpoint and leave, or end them (`kill`).

        Runs that another process submitted, and still follows, are left to it. How many leave:
        `step` collects them.
        """
        self._stopping = True
        self._waiting.clear()
        for followed in self._active:
            self._withdraw(followed)
        self._active = [f for f in self._active if self._ours(f) and not f.refused]
        if self._active:
            self._stop([f.attempt for f in self._active if f.attempt.live], kill=kill)
        return len(self._active)

    def leave(self) -> None:
        """Follow nothing any more: jobs go on, and what no scheduler has taken is withdrawn."""
        for followed in self._active:
            self._withdraw(followed)
        self._active.clear()
        self._waiting.clear()

    def _withdraw(self, followed: _Followed) -> None:
        """Nobody tries any more to have the scheduler take what it has refused."""
        if followed.refused:
            reason = f"not taken by the scheduler: {followed.refused.reason}"
            with suppress(OSError):
                followed.attempt.end(Status.INTERRUPTED, reason)

    def _ours(self, followed: _Followed) -> bool:
        by = followed.attempt.by
        if self._elsewhere(followed.attempt):
            return False
        return by is None or by == self._this or by.alive() is False

    def _elsewhere(self, attempt: Attempt) -> bool:
        """Whether its job cannot be asked for through this launcher, or not on this host."""
        here = attempt.worker or attempt.by
        of_a_host = attempt.launcher in ("local", "inline") and here is not None
        other = of_a_host and here is not None and here.host != socket.gethostname()
        return attempt.launcher != self.launcher.name or other

    def _standing(self, item: QueueItem, attempt: Attempt | None) -> Standing:
        return run_standing(item.run, attempt, item.unit, item.health.stop)

    def _wait(self, waiting: _Waiting) -> None:
        # By the time that `makespan` promises the end of the sweep from.
        insort_left(self._waiting, waiting, key=lambda each: predicted(each.item.run.seconds))

    def _follow(self, item: QueueItem, attempt: Attempt, *, pardoned: bool = False) -> None:
        """Follow an attempt that this queue did not make; its place here is taken."""
        followed = _Followed(item=item, attempt=attempt, pardoned=pardoned)
        followed.began_at = attempt.compute.spent(item.unit)
        # Its place may be taken already, for another item of the same run.
        taken = any(other.item.run.run_id == item.run.run_id for other in self._active)
        if self.launcher.places and not (self._elsewhere(attempt) or attempt.gone or taken):
            free = self._free()
            own = [p for p in free if {*self.launcher.devices(p)} & {*attempt.devices}]
            followed.place = next(iter(own or (() if attempt.devices else free)), None)
        self._active.append(followed)

    # -- what has become of the active ----------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Ask for the jobs, where it is time for that: by one call for all of them."""
        look, heartbeat = now >= self._next_look, now >= self._next_heartbeat
        asked = [f for f in self._active if f.attempt.live and not f.refused]
        if not asked or not (look or heartbeat):
            return
        here = [followed for followed in asked if not self._elsewhere(followed.attempt)]
        if look:
            seen = self.launcher.observe([f.attempt for f in here]) if here else []
            for followed, each in zip(here, seen, strict=True):
                _saw(followed, each, now)
            self._next_look = time.monotonic() + self.launcher.poll_s
        if heartbeat:
            # Clocks of hosts differ: ages of files are by that of their file system.
            clock = file_system_time(asked[0].item.paths.root)
            for followed in asked:
                if followed not in here:
                    _saw(followed, _by_heartbeat(followed.attempt, clock), now)
                self._end_if_stuck(followed, clock, now)
            self._next_heartbeat = time.monotonic() + _HEARTBEATS_S

    def _end_if_stuck(self, followed: _Followed, clock: float, now: float) -> None:
        attempt, run_id = followed.attempt, followed.item.run.run_id
        if followed.seen.status != "running" or followed.running_since is None:
            return
        most = followed.item.stuck_after_s
        if attempt.worker is None or attempt.loads:
            # What a model takes to load does not go by the length of a step.
            most = max(LEAST_S, most)
        # A job that was requeued begins anew when its scheduler runs it.
        idle = now - followed.running_since
        if attempt.status is Status.RUNNING:
            idle = min(idle, max(0.0, attempt.updated - attempt.progressed) + _age(attempt, clock))
        if idle < most:
            return
        reason = f"no progress for {duration(idle)} (launcher.stuck_after={most:g} s)"
        elsewhere = self._elsewhere(attempt)
        if followed.stuck is None:
            then = "; it is not here to be ended" if elsewhere else ": it is ended, and tried again"
            self._notice(f"{run_id}: {reason}{then}")
        if not elsewhere:
            self._stop([attempt], kill=True)
        followed.stuck = reason

    def _stop(self, attempts: list[Attempt], *, kill: bool) -> None:
        problem = self.launcher.stop(attempts, kill=kill)
        if problem:
            self._notice(f"{self.launcher.name}: {problem}")

    def _over(self, followed: _Followed, now: float) -> bool:
        """Whether it is followed no longer: done, given up, or back in the queue."""
        attempt = _read(followed.item)
        if attempt.number > followed.attempt.number:
            # Started a second time; or over, and submitted again by somebody else.
            followed.gone, followed.stuck, followed.refused = 0, None, None
            followed.pardoned = followed.pardoned and attempt.cancel is not None
        followed.attempt = attempt
        if attempt.live and (how := self._how_it_ended(followed)) is not None:
            attempt.end(*how)
            followed.attempt = attempt = _read(followed.item)
        if attempt.live:
            return self._stopping and followed.gone >= _GONE
        if self._is_leaving(followed, now):
            return False
        self._collect(followed)
        return True

    def _is_leaving(self, followed: _Followed, now: float) -> bool:
        """Whether its process is there still, and with it the device; one that hangs is ended."""
        worker = followed.attempt.worker
        if followed.place is None or worker in (None, self._this) or worker.alive() is not True:
            return False
        followed.left = now if followed.left is None else followed.left
        if now - followed.left > _GRACE_S:
            self._stop([followed.attempt], kill=True)
            followed.left = now
        return True

    def _how_it_ended(self, followed: _Followed) -> tuple[Status, str] | None:
        """Status and reason, if it is over without a word of its worker."""
        attempt, refused, seen = followed.attempt, followed.refused, followed.seen
        if refused is None and followed.gone < _GONE:
            return None
        if attempt.cancel is not None:
            return Status.CANCELLED, f"cancelled by {attempt.cancel}"
        if refused is not None:
            final = not refused.passing and followed.refusals >= _REFUSALS
            return (Status.REFUSED, refused.reason) if final else None
        if followed.stuck:
            return Status.STUCK, followed.stuck
        if self._stopping:
            return Status.INTERRUPTED, seen.reason or "it was ended before its checkpoint"
        if seen.outcome is Status.CANCELLED and seen.reason:
            return Status.CANCELLED, seen.reason
        if attempt.worker is None:
            what = "the worker ended before it had begun"
            return seen.outcome, f"{what}: {seen.reason}" if seen.reason else what
        why = f": {seen.reason}" if seen.reason else " (killed, or out of memory)"
        # Of several nodes the first may have said which is gone.
        said = attempt.reason or "the worker died without a word"
        return seen.outcome, f"{said}{why}"

    def _collect(self, followed: _Followed) -> None:
        item, attempt = followed.item, followed.attempt
        run_id = item.run.run_id
        if self._stopping or self._standing(item, attempt).ended:
            return
        if (by := _cancelled(attempt)) is not None and not followed.pardoned:
            self.failed[run_id] = by
            return
        if attempt.status is Status.REFUSED and attempt.by == self._this:
            self.failed[run_id] = f"refused: {attempt.reason}"
            return
        due = 0.0
        if self._failed(followed):
            tries = self._tries[run_id] = self._tries.get(run_id, 0) + 1
            if tries > self._max_retries:
                reason = attempt.reason or "the worker ended before it had begun"
                logs = item.paths.logs
                self.failed[run_id] = f"{reason} (tried {tries} times; logs in {logs})"
                return
            due = time.monotonic() + _RETRY_S[min(tries, len(_RETRY_S)) - 1]
        self._wait(_Waiting(item, attempt.number, due))

    def _failed(self, followed: _Followed) -> bool:
        """Whether such an end was a failure, of which a run may have `max_retries`."""
        attempt = followed.attempt
        if attempt.status in _FAILURES:
            # A job that no scheduler knows of, and no worker, was never one.
            return attempt.worker is not None or followed.seen.job_id is not None
        if attempt.status in (Status.FINISHED, Status.DIVERGED, Status.INTERRUPTED):
            # It was stopped, or did less than is wanted: no failure, if it came forward.
            return attempt.compute.spent(followed.item.unit) <= followed.began_at
        return False

    # -- what is started ------------------------------------------------------------------------

    def _free(self) -> list[int]:
        """The places of this machine where no run is, the lowest first."""
        taken = {followed.place for followed in self._active}
        return [place for place in range(self._max_parallel) if place not in taken]

    def _room(self, ready: int) -> bool:
        """Whether one more may be submitted beside the active and those that are `ready`."""
        if self.launcher.places:
            return len(self._free()) > ready
        return not self._active or len(self._active) + ready < self._max_parallel

    def _submit(self, now: float) -> None:
        again = [f for f in self._active if f.refused and f.attempt.cancel is None]
        if again:
            self._send(again, now)
        if now < self._next_submit:
            return
        ready: list[_Followed] = []
        later: list[_Waiting] = []
        batch = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        places = self._free() if self.launcher.places else []
        try:
            while self._waiting and len(ready) < self.launcher.at_once and self._room(len(ready)):
                # The longest, and of equal ones the oldest.
                waiting = self._waiting[-1]
                if waiting.due > now:
                    later.append(self._waiting.pop())
                    continue
                place = places[len(ready)] if places else None
                followed = self._prepared(waiting, batch, len(ready), place)
                self._waiting.pop()
                if followed is not None:
                    ready.append(followed)
        except OSError as error:
            # What is ready has no job yet: the next pass sends it.
            for followed in ready:
                followed.refused = Refused(reason=str(error), passing=True)
            raise
        finally:
            for waiting in later:
                self._wait(waiting)
            self._active += ready
        if ready:
            self._send(ready, now)

    def _prepared(
        self, waiting: _Waiting, batch: str, index: int, place: int | None
    ) -> _Followed | None:
        """A run that has an attempt now, to be sent; None where there is nothing to send."""
        item, run_id = waiting.item, waiting.item.run.run_id
        attempt = newest(item.paths)
        if self._standing(item, attempt).ended:
            return None
        if attempt is not None and attempt.live:
            self._follow(item, attempt)
            return None
        later = attempt is not None and attempt.number > waiting.before
        if attempt is not None and later and (by := _cancelled(attempt)) is not None:
            self.failed[run_id] = by
            return None
        devices = self.launcher.devices(place) if place is not None else ()
        name = self.launcher.name
        make_directory(item.paths.attempts)
        own = submit(item.paths, name, item.sweep, item.job, batch, index, devices)
        if own is None:
            # Another process submitted it at the same moment.
            self._follow(item, _read(item))
            return None
        return _Followed(item, own, place, began_at=own.compute.spent(item.unit))

    def _send(self, runs: Sequence[_Followed], now: float) -> None:
        """Have the launcher start them; pause where it does not, and tell why, if it is news."""
        orders = []
        for followed in runs:
            attempt = followed.attempt
            logs = attempt.run.attempt_logs(attempt.number)
            make_directory(logs)
            orders.append(Order(attempt=attempt, run=followed.item.run, logs=logs))
        for followed, refused in zip(runs, self.launcher.submit(orders), strict=True):
            followed.refused = refused
            followed.refusals += refused is not None
        reasons = [followed.refused.reason for followed in runs if followed.refused]
        if not reasons:
            if self._refusal is not None:
                self._notice(f"{self.launcher.name} takes runs again")
            self._refusal, self._pause = None, 0.0
            return
        self._pause = min(max(_FIRST_PAUSE_S, 2 * self._pause), _LONGEST_PAUSE_S)
        # Drivers that were refused together do not come back together.
        wait = self._pause * random.uniform(0.8, 1.2)
        self._next_submit = now + wait
        if reasons[0] != self._refusal:
            count = "1 run" if len(reasons) == 1 else f"{len(reasons)} runs"
            name = self.launcher.name
            self._notice(f"{name} did not take {count}: {reasons[0]}; tried again in {wait:.0f} s")
        self._refusal = reasons[0]


def _read(item: QueueItem) -> Attempt:
    """The newest attempt of a run that has one. Raises OSError where that is not to be seen."""
    if (attempt := newest(item.paths)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(item.paths.attempts))
    return attempt


def _saw(followed: _Followed, seen: Observed, now: float) -> None:
    """Note what the scheduler, the process table or the heartbeat says of its job."""
    followed.seen = seen
    if seen.status == "gone":
        followed.gone += 1
    elif seen.status != "unknown":
        followed.gone = 0
    if seen.status in ("pending", "gone"):
        followed.running_since = None
    elif seen.status == "running" and followed.running_since is None:
        followed.running_since = now


def _by_heartbeat(attempt: Attempt, clock: float) -> Observed:
    """What can be said of a job without its scheduler: whether its process lives, or its worker
    has been silent for SILENCE_S."""
    if attempt.worker is None and attempt.launcher in ("slurm", "ray"):
        return Observed(status="unknown", reason=f"waits for a job of {attempt.launcher}")
    process = attempt.worker or attempt.by
    alive = process.alive() if process else False
    if alive is not None:
        return Observed(status="running" if alive else "gone", reason="its process has ended")
    silent = _age(attempt, clock)
    if silent < SILENCE_S:
        return Observed(status="running")
    host = process.host if process else "its host"
    return Observed(status="gone", reason=f"no word from {host} for {duration(silent)}")


def _age(attempt: Attempt, clock: float) -> float:
    """Seconds since the attempt's file was written, by its file system's clock."""
    return max(0.0, clock - attempt.path.stat().st_mtime)


def _cancelled(attempt: Attempt) -> str | None:
    """By whom an attempt that is over was cancelled, in words; None where nobody asked for that."""
    if attempt.cancel:
        return f"cancelled by {attempt.cancel}"
    return (attempt.reason or "cancelled") if attempt.status is Status.CANCELLED else None
