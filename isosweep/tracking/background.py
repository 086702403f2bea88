"""Tracking beside the runs: one thread of one process of a sweep, whose failures stop nothing."""

import threading
from collections.abc import Callable
from pathlib import Path

from isosweep.tracking.backend import StoreError
from isosweep.tracking.points import FinalStatus
from isosweep.tracking.tracker import Tracker

# Longest pause after syncs that failed.
_MAX_PAUSE_S = 60.0


class BackgroundTracker:
    """Syncs a tracker every `interval_s` from a daemon thread.

    `say` is given a line when the store fails, one when it works again, and one at the end if the
    store lacks something, with `remedy`.
    """

    def __init__(
        self,
        tracker: Tracker,
        interval_s: float,
        say: Callable[[str], None],
        remedy: str = "mode=analyse",
        join_s: float = 60.0,
    ) -> None:
        """`join_s`: how long `close` waits at most."""
        self._tracker, self._interval_s, self._join_s = tracker, interval_s, join_s
        self._say, self._remedy = say, remedy
        self._stop = threading.Event()
        # What is wrong with the store at present; "" if it works.
        self._fault = ""
        self._finish: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name="isosweep-tracking", daemon=True)
        self._thread.start()

    def link(self) -> str | None:
        """Where a server shows the sweep, once it has taken everything; None if none does."""
        done = not (self._thread.is_alive() or self._fault)
        return self._tracker.backend.link() if done else None

    def close(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        """Sync a last time and finish as `Tracker.finish`; returns after `join_s` at the latest."""
        self._finish = lambda: self._tracker.finish(status, figures, report)
        self._stop.set()
        self._thread.join(self._join_s)
        # Nothing is said from here on, whatever a thread that is left behind still does.
        self._say, say = (lambda line: None), self._say
        fault = self._fault
        if self._thread.is_alive():
            name = self._tracker.backend.name
            fault = f"{name}: it has not taken everything in {self._join_s:.0f} s"
        if fault:
            say(f"tracking: {fault}; the view is incomplete, {self._remedy} completes it")

    def _work(self) -> None:
        pause = self._interval_s
        while not self._stop.is_set():
            done = self._attempt(self._tracker.sync)
            pause = self._interval_s if done else min(2 * pause, _MAX_PAUSE_S)
            self._stop.wait(pause)
        # The last word on a failure is `close`'s.
        self._attempt(self._finish, aloud=False)

    def _attempt(self, step: Callable[[], None], *, aloud: bool = True) -> bool:
        """Whether `step` went well; says what is new about the store."""
        before = self._fault
        try:
            step()
        except Exception as error:
            self._fault = str(error) if isinstance(error, StoreError) else repr(error)
            if aloud and not before:
                self._say(f"tracking: {self._fault}; the runs go on, and the view catches up later")
            return False
        self._fault = ""
        if before:
            name = self._tracker.backend.name
            self._say(f"tracking: {name}: it works again and is up to date")
        return True
