"""A queue: keeps runs submitted, one attempt a run, until each is done or given up.

What an attempt's file says is believed first: its worker writes how it ended, which is noticed at
the next pass. When a job is gone without a word `launchers.liveness` decides.
"""

import errno
import os
import random
import secrets
import socket
import time
from bisect import insort_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from isosweep.files import make_directory
from isosweep.launchers.launcher import JobState, Launcher, Order, QueueItem, Refused
from isosweep.launchers.liveness import Liveness, observe_process
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.plan.patience import LEAST_S
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Attempt, Process, Status, create_attempt, newest
from isosweep.words.numbers import duration

# Between two looks at the files; a pass that takes long is followed by a pause of ten times that,
# so that a driver takes a tenth of a core at most.
_POLL_S, _SHARE = 0.25, 10
# Looks in a row that a job is gone in, before that is believed: a network file system may show a
# worker's last word after its job has left.
_LOOKS = 2
# Seconds between a failed try and the next, after the first, the second and every further one:
# what a disk or a device lacks for a minute is no reason to give a run up.
_RETRY_S = (10.0, 60.0, 300.0)
# Pauses after a refusal, doubled each time: a controller is back after a restart in seconds, after
# a failover in a minute or two.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0
# Refusals of a run after which one that does not say that it passes is believed: users and names
# are unknown for a moment, too.
_REFUSALS = 3
# A worker that has said its last word is gone within seconds: what takes longer hangs.
_GRACE_S = 60.0
_NOT_SENT = Refused(reason="it was not submitted", passing=True)


@dataclass(eq=False)
class _Wanted:
    """A run that is not done.

    `heeded_after`: a cancel of an attempt up to this number came before the queue did. `tries`: how
    often it failed. `due`: when it may be submitted, by the monotonic clock.
    """

    item: QueueItem
    heeded_after: int
    tries: int = 0
    due: float = 0.0


@dataclass(eq=False)
class _Followed:
    """A run whose newest attempt is live, as last read.

    `place`: its place on this machine. `refused`: why no scheduler has it yet, `refusals` how often
    one did not take it. `seen`: what is known of its job. `stuck`: why its job was told to end.
    `idle_since`: when this process saw its job begin, its file come forward, or its attempt end.
    `spent_before`: compute that the run had behind it.
    """

    wanted: _Wanted
    attempt: Attempt
    spent_before: float
    place: int | None = None
    refused: Refused | None = None
    refusals: int = 0
    stuck: str | None = None
    seen: JobState = field(default_factory=lambda: JobState(status="unknown"))
    idle_since: float = field(default_factory=time.monotonic)

    @property
    def item(self) -> QueueItem:
        """The run, and how it is trained."""
        return self.wanted.item


class RunQueue:
    """Runs of a sweep. `failed`: runs given up, and why.

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
        self._waiting: list[_Wanted] = []
        self._active: list[_Followed] = []
        self._liveness = Liveness(looks=_LOOKS)
        self._next_look = self._next_submit = self._pause = 0.0
        self._refusal = ""
        self._stopping = False
        self._took = 0.0
        self.add(items)

    def add(self, items: Iterable[QueueItem]) -> None:
        """More runs; those that somebody works on already are followed from now on.

        Raises OSError where one cannot be seen; none is added then.
        """
        for item, attempt in [(item, newest(item.paths)) for item in items]:
            number = attempt.number if attempt else 0
            if self._standing(item, attempt).ended:
                continue
            if attempt is not None and attempt.live:
                # One that is being cancelled already is tried again after it.
                heeded_after = number if attempt.cancel else number - 1
                self._adopt(_Wanted(item, heeded_after), attempt)
            else:
                self._enqueue(_Wanted(item, number))

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
        return time.monotonic() >= self._next_submit and self._has_room(idle=not self._active)

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
                if self._is_over(followed, now):
                    self._active.remove(followed)
            except OSError as error:
                failed = error
        self._took = time.thread_time() - began
        if not self._stopping and now >= self._next_submit:
            self._submit(now)
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
        self._active = [f for f in self._active if self._is_ours(f.attempt) and not f.refused]
        if self._active:
            self._stop_jobs([f.attempt for f in self._active if f.attempt.live], kill=kill)
        return len(self._active)

    def detach(self) -> None:
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

    def _is_ours(self, attempt: Attempt) -> bool:
        by = attempt.by
        if self._is_elsewhere(attempt):
            return False
        return by is None or by == self._this or by.alive() is False

    def _is_elsewhere(self, attempt: Attempt) -> bool:
        """Whether its job cannot be asked for through this launcher, or not on this host."""
        process = attempt.worker or attempt.by
        host = process.host if process and attempt.launcher in ("local", "inline") else None
        return attempt.launcher != self.launcher.name or host not in (None, socket.gethostname())

    def _standing(self, item: QueueItem, attempt: Attempt | None) -> Standing:
        return run_standing(item.run, attempt, item.unit, item.health.stop)

    def _enqueue(self, wanted: _Wanted) -> None:
        # By the time that `makespan` promises the end of the sweep from.
        insort_left(self._waiting, wanted, key=lambda each: predicted(each.item.run.seconds))

    def _adopt(self, wanted: _Wanted, attempt: Attempt) -> None:
        """Follow an attempt that this queue did not make; its place here is taken."""
        item = wanted.item
        followed = _Followed(wanted, attempt, attempt.compute.spent(item.unit))
        if self.launcher.places and not (self._is_elsewhere(attempt) or attempt.gone):
            free = self._free_places()
            own = [p for p in free if {*self.launcher.devices(p)} & {*attempt.devices}]
            followed.place = next(iter(own or (() if attempt.devices else free)), None)
        self._active.append(followed)

    # -- what has become of the active ----------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Ask for the jobs, where it is time for that: by one call for all of them."""
        asked = [f for f in self._active if f.attempt.live and not f.refused]
        if not asked or now < self._next_look:
            return
        here = [f.attempt for f in asked if not self._is_elsewhere(f.attempt)]
        answers = iter(self.launcher.observe(here) if here else ())
        self._next_look = time.monotonic() + self.launcher.poll_s
        attempts = [followed.attempt for followed in asked]
        observed = [
            observe_process(each) if self._is_elsewhere(each) else next(answers)
            for each in attempts
        ]
        for followed, seen in zip(asked, self._liveness.judge(attempts, observed), strict=True):
            followed.seen = seen

    def _is_over(self, followed: _Followed, now: float) -> bool:
        """Whether it is followed no longer: done, given up, or back in the queue."""
        before, attempt = followed.attempt, _read(followed.item)
        if attempt.number > before.number:
            # Started a second time; or over, and submitted again by somebody else.
            followed.seen = JobState(status="unknown")
            followed.refused = followed.stuck = None
        was, now_is = ((each.number, each.status, each.progressed) for each in (before, attempt))
        if was != now_is or followed.seen.status in ("pending", "gone"):
            followed.idle_since = now
        followed.attempt = attempt
        if attempt.live and (how := self._end_of(followed)) is not None:
            attempt.end(*how)
            followed.attempt = attempt = _read(followed.item)
        if attempt.live:
            self._end_if_stuck(followed, now)
            return False
        if self._is_leaving(followed, now):
            return False
        self._collect(followed)
        return True

    def _end_of(self, followed: _Followed) -> tuple[Status, str] | None:
        """Status and reason of an attempt that is over without a word of its worker, else None."""
        attempt, refused, seen = followed.attempt, followed.refused, followed.seen
        if refused is None and seen.status != "gone":
            return None
        if attempt.cancel is not None:
            return Status.CANCELLED, f"cancelled by {attempt.cancel}"
        if refused is not None:
            final = not refused.passing and followed.refusals >= _REFUSALS
            return (Status.REFUSED, refused.reason) if final else None
        if followed.stuck is not None:
            return Status.STUCK, followed.stuck
        if self._stopping:
            return Status.INTERRUPTED, seen.reason or "it was ended before its checkpoint"
        if seen.outcome is Status.CANCELLED and seen.reason:
            return Status.CANCELLED, seen.reason
        if attempt.worker is None:
            said, why = "the worker ended before it had begun", seen.reason
        else:
            # Of several nodes the first may have said which is gone.
            said = attempt.reason or "the worker died without a word"
            why = seen.reason or "killed, or out of memory"
        return seen.outcome, f"{said}: {why}" if why else said

    def _end_if_stuck(self, followed: _Followed, now: float) -> None:
        """End a job that runs and whose run has not come forward for too long."""
        attempt, most = followed.attempt, followed.item.stuck_after_s
        if attempt.worker is None or attempt.loads:
            # What a model takes to load does not go by the length of a step.
            most = max(LEAST_S, most)
        idle = now - followed.idle_since
        if followed.seen.status != "running" or idle < most:
            return
        elsewhere = self._is_elsewhere(attempt)
        if followed.stuck is None:
            reason = f"no progress for {duration(idle)} (launcher.stuck_after={most:g} s)"
            then = "; it is not here to be ended" if elsewhere else ": it is ended, and tried again"
            self._notice(f"{followed.item.run.run_id}: {reason}{then}")
            followed.stuck = reason
        # One that is there still is told again.
        followed.idle_since = now - most + _GRACE_S
        if not elsewhere:
            self._stop_jobs([attempt], kill=True)

    def _stop_jobs(self, attempts: list[Attempt], *, kill: bool) -> None:
        """Have the launcher ask them to leave; the user is told what went wrong."""
        problem = self.launcher.stop(attempts, kill=kill)
        if problem:
            self._notice(f"{self.launcher.name}: {problem}")

    def _is_leaving(self, followed: _Followed, now: float) -> bool:
        """Whether its process is there still, and with it the device; one that hangs is ended."""
        worker = followed.attempt.worker
        if followed.place is None or worker in (None, self._this) or worker.alive() is not True:
            return False
        if now - followed.idle_since > _GRACE_S:
            self._stop_jobs([followed.attempt], kill=True)
            followed.idle_since = now
        return True

    def _collect(self, followed: _Followed) -> None:
        """Note what an attempt that is over means for its run: done, given up, or tried again."""
        wanted, item, attempt = followed.wanted, followed.item, followed.attempt
        run_id = item.run.run_id
        if self._stopping or self._standing(item, attempt).ended:
            return
        if attempt.number > wanted.heeded_after and (by := _cancelled_by(attempt)) is not None:
            self.failed[run_id] = by
            return
        if attempt.status is Status.REFUSED and attempt.by == self._this:
            self.failed[run_id] = f"refused: {attempt.reason}"
            return
        if self._has_failed(followed):
            wanted.tries += 1
            if wanted.tries > self._max_retries:
                tried = f"tried {wanted.tries} times; logs in {item.paths.logs}"
                self.failed[run_id] = f"{attempt.reason} ({tried})"
                return
            wanted.due = time.monotonic() + _RETRY_S[min(wanted.tries, len(_RETRY_S)) - 1]
        wanted.heeded_after = attempt.number
        self._enqueue(wanted)

    def _has_failed(self, followed: _Followed) -> bool:
        """Whether such an end was a failure, of which a run may have `max_retries`."""
        attempt = followed.attempt
        if attempt.status in (Status.FAILED, Status.LOST, Status.STUCK):
            # A job that no scheduler knows of, and no worker, was never one.
            return attempt.worker is not None or followed.seen.job_id is not None
        if attempt.status in (Status.FINISHED, Status.DIVERGED, Status.INTERRUPTED):
            # It was stopped, or did less than is wanted: no failure, if it came forward.
            return attempt.compute.spent(followed.item.unit) <= followed.spent_before
        return False

    # -- what is started ------------------------------------------------------------------------

    def _free_places(self) -> list[int]:
        """The places of this machine where no run is, the lowest first."""
        taken = {followed.place for followed in self._active}
        return [place for place in range(self._max_parallel) if place not in taken]

    def _has_room(self, *, idle: bool) -> bool:
        """Whether one more may be submitted. `idle`: nothing was active when this pass began."""
        if self.launcher.places:
            return bool(self._free_places())
        return idle or len(self._active) < self._max_parallel

    def _submit(self, now: float) -> None:
        """Send what was refused again; where nothing was, what there is room for."""
        if not any(followed.refused for followed in self._active):
            self._make_attempts(now)
        ready = [f for f in self._active if f.refused and f.attempt.cancel is None]
        if ready:
            self._send(ready, now)

    def _make_attempts(self, now: float) -> None:
        """Make an attempt, which is to be sent, for each run that there is room for."""
        idle, count = not self._active, 0
        batch = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        # The longest first, and of equal ones the oldest; one stays if its file cannot be written.
        for wanted in [each for each in reversed(self._waiting) if each.due <= now]:
            if count == self.launcher.max_batch or not self._has_room(idle=idle):
                return
            count += self._make_attempt(wanted, batch, count)
            self._waiting.remove(wanted)

    def _make_attempt(self, wanted: _Wanted, batch: str, index: int) -> bool:
        """Whether the run has a new attempt now; where another process works on it, that is
        followed."""
        item = wanted.item
        attempt = newest(item.paths)
        if self._standing(item, attempt).ended:
            return False
        if attempt is not None and attempt.live:
            self._adopt(wanted, attempt)
            return False
        later = attempt is not None and attempt.number > wanted.heeded_after
        if attempt is not None and later and (by := _cancelled_by(attempt)) is not None:
            self.failed[item.run.run_id] = by
            return False
        place = self._free_places()[0] if self.launcher.places else None
        devices = self.launcher.devices(place) if place is not None else ()
        name = self.launcher.name
        make_directory(item.paths.attempts)
        own = create_attempt(item.paths, name, item.sweep, item.job, batch, index, devices)
        if own is None:
            # Another process submitted it at the same moment.
            self._adopt(wanted, _read(item))
            return False
        spent = own.compute.spent(item.unit)
        self._active.append(_Followed(wanted, own, spent, place=place, refused=_NOT_SENT))
        return True

    def _send(self, ready: list[_Followed], now: float) -> None:
        """Have the launcher start them; pause where it does not, and tell why, if it is news."""
        orders: list[Order] = []
        sent: list[_Followed] = []
        for followed in ready:
            order = Order(attempt=followed.attempt, run=followed.item.run)
            try:
                make_directory(order.logs)
            except OSError as error:
                followed.refused = Refused(reason=str(error), passing=True)
            else:
                orders.append(order)
                sent.append(followed)
        for followed, refused in zip(sent, self.launcher.submit(orders), strict=True):
            followed.refused = refused
            followed.refusals += refused is not None
        reasons = [followed.refused.reason for followed in ready if followed.refused]
        if not reasons:
            if self._refusal:
                self._notice(f"{self.launcher.name} takes runs again")
            self._refusal, self._pause = "", 0.0
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


def _cancelled_by(attempt: Attempt) -> str | None:
    """By whom an attempt that is over was cancelled, in words; None where nobody asked for that."""
    if attempt.cancel:
        return f"cancelled by {attempt.cancel}"
    return (attempt.reason or "cancelled") if attempt.status is Status.CANCELLED else None
