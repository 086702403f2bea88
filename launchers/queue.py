"""A queue: keeps runs submitted, one submission a run, until each is done or given up.

What a run's files say is believed first: its worker writes the end of its submission, which is
noticed at the next pass. Only where a job is gone without a word is the scheduler, or the process
table, believed, twice in a row and with the files read in between.
"""

import time
from bisect import insort_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from isosweep.launchers.followed import Followed, RunFiles
from isosweep.launchers.heartbeat import (
    FileClock,
    idle_seconds,
    is_elsewhere,
    may_have_job,
    observe_elsewhere,
    patience_s,
)
from isosweep.launchers.items import QueueItem, merged
from isosweep.launchers.launcher import Launcher, Observed
from isosweep.launchers.places import Places
from isosweep.launchers.starting import Starter
from isosweep.plan.cells import PlannedRun, predicted
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.state import RunView
from isosweep.store.submissions import Outcome, SubmissionState, close, started
from isosweep.words.numbers import duration

# Between two looks at the files; a pass that takes long is followed by a pause of ten times that,
# so that a driver takes a tenth of a core at most.
_POLL_S, _SHARE = 0.25, 10
# Between two looks at heartbeats, which come every 5 s (`store.state.HEARTBEAT_S`).
_HEARTBEATS_S = 10.0
# Looks in a row that a job is gone in, before that is believed.
_GONE = 2
# Seconds between a failed try and the next, after the first, the second and every further one:
# what a disk or a device lacks for a minute is no reason to give a run up.
_RETRY_S = (10.0, 60.0, 300.0)


@dataclass
class _Waiting:
    """A run to be submitted. `before`: its newest submission when the queue began, which a cancel
    that this queue has to respect comes after. `due`: when it may be, by the monotonic clock."""

    item: QueueItem
    before: SubmissionState | None
    due: float = 0.0


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
        self._notice = notice
        self._max_parallel, self._max_retries = max_parallel, max_retries
        self._places = Places(max_parallel if launcher.places else None, launcher)
        self._starter = Starter(launcher, notice)
        # The shortest first, and of equal ones the newest.
        self._waiting: list[_Waiting] = []
        self._active: list[Followed] = []
        self._tries: dict[str, int] = {}
        self._next_look = self._next_heartbeat = 0.0
        self._stopping = False
        self._fault: OSError | None = None
        self._took = 0.0
        self.add(items)

    def add(self, items: Iterable[QueueItem]) -> None:
        """More runs; those that somebody works on already are followed from now on."""
        for item in merged(items):
            files = RunFiles(item.paths)
            submission = files.view.submission
            if self._standing(item, files).ended:
                continue
            if submission is not None and submission.live:
                # One that is being cancelled already is tried again after it.
                self._adopt(item, files, pardoned=submission.cancel is not None)
            else:
                self._wait(_Waiting(item, submission))

    @property
    def busy(self) -> bool:
        """Whether a run waits or is active."""
        return bool(self._waiting or self._active)

    @property
    def active(self) -> list[PlannedRun]:
        """The runs that are submitted and not over."""
        return [followed.item.run for followed in self._active]

    @property
    def views(self) -> list[tuple[PlannedRun, RunView]]:
        """The active runs, each with what was last read of it."""
        return [(followed.item.run, followed.files.view) for followed in self._active]

    @property
    def waiting(self) -> int:
        """How many runs are not submitted yet."""
        return len(self._waiting)

    @property
    def submits(self) -> bool:
        """Whether the next pass may submit one of those that wait."""
        return self._room(0) and self._starter.ready(time.monotonic(), 0)

    @property
    def pause_s(self) -> float:
        """Seconds until the next pass is due."""
        return max(_POLL_S, _SHARE * self._took)

    def step(self) -> None:
        """One pass: collect what is over, start what there is place for.

        Raises OSError, at its end, where a file system fails: what it met is for the next pass.
        """
        began, now = time.thread_time(), time.monotonic()
        self._fault = None
        with self._noting_faults():
            self._observe(now)
        active, self._active = self._active, []
        for followed in active:
            # What is over may wait again, or be followed on as somebody else's.
            if not self._over(followed, now):
                self._active.append(followed)
        self._places.look(now)
        if not self._stopping:
            self._submit(now)
        # What runs execute in this process (launcher=inline) is no cost of looking at them.
        inline = self.launcher.name == "inline"
        self._took = 0.0 if inline else time.thread_time() - began
        away = next((f.files.away for f in self._active if f.files.away), None)
        if (fault := self._fault or away) is not None:
            raise fault

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        """Leave undone what a file system refuses within, for `step` to raise."""
        try:
            yield
        except OSError as error:
            self._fault = error

    def stop(self, *, kill: bool = False) -> int:
        """Start no more, and ask the runs to write a checkpoint and leave, or end them (`kill`).

        Runs that another process submitted, and still follows, are left to it. How many leave:
        `step` collects them.
        """
        self._stopping = True
        self._waiting.clear()
        own = [followed for followed in self._active if self._ours(followed)]
        for followed in own:
            self._withdraw(followed)
        self._active = [followed for followed in own if not followed.refused]
        if self._active:
            self._stop([f.state for f in self._active if f.state.live], kill=kill)
        return len(self._active)

    def leave(self) -> None:
        """Follow nothing any more: jobs go on, and what no scheduler has taken is withdrawn."""
        for followed in self._active:
            self._withdraw(followed)
        self._active.clear()
        self._waiting.clear()

    def _withdraw(self, followed: Followed) -> None:
        """Nobody tries any more to have the scheduler take what it has refused."""
        if followed.own and followed.refused:
            reason = f"not taken by the scheduler: {followed.refused.reason}"
            with suppress(OSError):
                close(followed.state.submission, "interrupted", reason)

    def _ours(self, followed: Followed) -> bool:
        state = followed.files.view.submission
        if state is None or is_elsewhere(followed, self.launcher.name):
            return False
        return followed.own or state.submission.by.alive() is False

    def _standing(self, item: QueueItem, files: RunFiles) -> Standing:
        return run_standing(item.run, files.view, item.unit, item.health.stop)

    def _wait(self, waiting: _Waiting) -> None:
        # By the time that `makespan` promises the end of the sweep from.
        insort_left(self._waiting, waiting, key=lambda each: predicted(each.item.run.seconds))

    def _adopt(self, item: QueueItem, files: RunFiles, *, pardoned: bool = False) -> None:
        """Follow a submission that this queue did not make; its place here is taken."""
        state = files.view.submission
        assert state is not None
        number = state.submission.number
        followed = Followed(item=item, files=files, number=number, own=False, pardoned=pardoned)
        followed.began_at = followed.spent()
        here = not is_elsewhere(followed, self.launcher.name) and not state.gone
        # Its place may be taken already, for another item of the same run.
        taken = any(other.run_id == followed.run_id for other in self._active)
        if here and not taken:
            followed.slots = self._places.take_those_of(state.submission.devices)
        self._active.append(followed)

    # -- what has become of the active ----------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Ask for the jobs, where it is time for that: by one call for all of them."""
        look, heartbeat = now >= self._next_look, now >= self._next_heartbeat
        if not self._active or not (look or heartbeat):
            return
        clock = FileClock(self._active[0].item.paths.root)
        here: list[Followed] = []
        elsewhere: list[Followed] = []
        for followed in self._active:
            if may_have_job(followed, clock):
                away = is_elsewhere(followed, self.launcher.name)
                (elsewhere if away else here).append(followed)
        if look:
            answers = self.launcher.observe([followed.state for followed in here]) if here else []
            for followed, seen in zip(here, answers, strict=True):
                self._saw(followed, seen, now)
            self._next_look = time.monotonic() + self.launcher.poll_s
        if heartbeat:
            for followed in elsewhere:
                self._saw(followed, observe_elsewhere(followed, clock), now)
            for followed in (*here, *elsewhere):
                self._end_if_stuck(followed, clock, now)
            self._next_heartbeat = time.monotonic() + _HEARTBEATS_S

    def _saw(self, followed: Followed, seen: Observed, now: float) -> None:
        followed.saw(seen, now)
        if seen.status == "gone":
            # Its worker may have ended it just now.
            followed.files.read()
        elif seen.job is not None and followed.state.job is None:
            with self._noting_faults():
                started(followed.state.submission, seen.job)

    def _end_if_stuck(self, followed: Followed, clock: FileClock, now: float) -> None:
        idle, most = idle_seconds(followed, clock, now), patience_s(followed)
        # Without a submission it was read again just now, in no order: the pass gives it up.
        if idle is None or idle < most or followed.files.view.submission is None:
            return
        reason = f"no progress for {duration(idle)} (launcher.stuck_after={most:g} s)"
        elsewhere = is_elsewhere(followed, self.launcher.name)
        if followed.stuck is None:
            then = "; it is not here to be ended" if elsewhere else ": it is ended, and tried again"
            self._notice(f"{followed.run_id}: {reason}{then}")
        if not elsewhere:
            self._stop([followed.state], kill=True)
        followed.stuck = reason

    def _stop(self, states: list[SubmissionState], *, kill: bool) -> None:
        problem = self.launcher.stop(states, kill=kill)
        if problem:
            self._notice(f"{self.launcher.name}: {problem}")

    def _over(self, followed: Followed, now: float) -> bool:
        """Whether it is followed no longer: done, given up, or back in the queue."""
        followed.files.look(now)
        state = followed.files.view.submission
        if followed.files.away:
            # Nothing is known of it, nor can be written; its progress is waited for anew.
            followed.running_since = None
            return self._stopping and followed.gone >= _GONE
        if state is None:
            # Its files cannot be read: that is said, and the others go on.
            self.failed[followed.run_id] = followed.files.view.reason
            self._places.leave(followed)
            return True
        if state.submission.number > followed.number:
            # Closed, and submitted again, by somebody else.
            followed.number, followed.own, followed.refused = state.submission.number, False, None
            followed.gone, followed.stuck, followed.pardoned = 0, None, False
        if state.end is None and (how := self._how_it_ended(followed, state)) is not None:
            with self._noting_faults():
                close(state.submission, *how)
            state = followed.files.read().submission or state
        if state.end is None:
            return self._stopping and followed.gone >= _GONE
        self._collect(followed, state)
        return True

    def _how_it_ended(
        self, followed: Followed, state: SubmissionState
    ) -> tuple[Outcome, str] | None:
        """Outcome and reason, if it is over without a word of its worker."""
        if followed.refused is None and followed.gone < _GONE:
            return None
        if (by := _cancelled(state)) is not None:
            return "cancelled", by
        if followed.refused is not None:
            return None if followed.refused.passing else ("refused", followed.refused.reason)
        if followed.stuck:
            return "stuck", followed.stuck
        if self._stopping:
            return "interrupted", followed.observed.reason or "it was ended before its checkpoint"
        seen = followed.observed
        if seen.outcome == "cancelled" and seen.reason:
            return "cancelled", seen.reason
        current = followed.files.view.current
        if current is None:
            what = "the worker ended before it had begun"
            return seen.outcome, f"{what}: {seen.reason}" if seen.reason else what
        why = f": {seen.reason}" if seen.reason else " (killed, or out of memory)"
        # Of several nodes the first may have said which is gone.
        said = current.reason if current.status == "interrupted" else None
        return seen.outcome, f"{said or 'the worker died without a word'}{why}"

    def _collect(self, followed: Followed, state: SubmissionState) -> None:
        self._places.leave(followed)
        if self._stopping or self._standing(followed.item, followed.files).ended:
            return
        assert state.end is not None
        if (by := _cancelled(state)) is not None and not followed.pardoned:
            self.failed[followed.run_id] = by
            return
        if followed.own and state.end.outcome == "refused":
            self.failed[followed.run_id] = f"refused: {state.end.reason}"
            return
        if followed.failed_by(state.end.outcome):
            tries = self._tries[followed.run_id] = self._tries.get(followed.run_id, 0) + 1
            if tries > self._max_retries:
                reason = followed.files.view.reason or "the worker ended before it had begun"
                logs = followed.item.paths.logs
                self.failed[followed.run_id] = f"{reason} (tried {tries} times; logs in {logs})"
                return
            due = time.monotonic() + _RETRY_S[min(tries, len(_RETRY_S)) - 1]
            self._wait(_Waiting(followed.item, state, due))
            return
        self._wait(_Waiting(followed.item, state))

    # -- what is started ------------------------------------------------------------------------

    def _room(self, ready: int) -> bool:
        """Whether one more may be submitted beside the active and those that are `ready`."""
        if self.launcher.places:
            return self._places.room
        return not self._active or len(self._active) + ready < self._max_parallel

    def _submit(self, now: float) -> None:
        self._starter.again([followed for followed in self._active if followed.refused], now)
        ready: list[Followed] = []
        later: list[_Waiting] = []
        while self._waiting and self._room(len(ready)) and self._starter.ready(now, len(ready)):
            # The longest, and of equal ones the oldest.
            waiting = self._waiting.pop()
            if waiting.due > now:
                later.append(waiting)
            elif (followed := self._prepared(waiting)) is not None:
                ready.append(followed)
        for waiting in later:
            self._wait(waiting)
        if not ready:
            return
        with self._noting_faults():
            self._starter.start(ready, now, self.failed)
        # Where it was left half done, a job that is missing is found to be so, and tried again.
        self._active += [followed for followed in ready if followed.number]
        for followed in (followed for followed in ready if not followed.number):
            # Another process submitted it at the same moment, or its files are not in order.
            self._places.give(followed.slots)
            if followed.run_id in self.failed:
                continue
            state = followed.files.read().submission
            if state is not None and state.live:
                self._adopt(followed.item, followed.files)
            else:
                self._wait(_Waiting(followed.item, state))

    def _prepared(self, waiting: _Waiting) -> Followed | None:
        """A run about to be submitted, with its place; None where that is not to be done."""
        item, files = waiting.item, RunFiles(waiting.item.paths)
        state = files.view.submission
        if self._standing(item, files).ended:
            return None
        if state is not None and state.live:
            self._adopt(item, files)
            return None
        if state is not None and state != waiting.before and (by := _cancelled(state)) is not None:
            self.failed[item.run.run_id] = by
            return None
        followed = Followed(item=item, files=files, number=0, own=True)
        followed.began_at, followed.slots = followed.spent(), self._places.take()
        return followed


def _cancelled(state: SubmissionState) -> str | None:
    """By whom the submission was cancelled, in words; None where nobody asked for that."""
    if state.cancel:
        return f"cancelled by {state.cancel}"
    if state.end is None or state.end.outcome != "cancelled":
        return None
    return state.end.reason or "cancelled"
