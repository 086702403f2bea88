"""Tracking: a copy of what the runs' files say, made by one thread of one process of the sweep.

Workers never talk to the store, and no fault of it reaches the runs: it is told in one line, and a
second line says that it is over.
"""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from isosweep.tracking.faults import StoreError
from isosweep.tracking.points import FinalStatus
from isosweep.tracking.tracker import Tracker

# How long `close` waits for the store, and for each run besides: a first sync takes 0.1 s a run
# (benchmarks/tracking.py), and with a server in between 0.3 s, of some 50 ms a request. A store
# that does not answer at all is given up sooner, by `store.ENVIRONMENT`.
JOIN_S = 60.0
JOIN_RUN_S = 1.0
# A sync of this many seconds is called slow.
SLOW_S = 60.0
# Longest pause after syncs that failed: each may ask a store that cannot be written for all runs.
MAX_PAUSE_S = 60.0


class BackgroundTracker:
    """Syncs a tracker every `interval_s` from one daemon thread; its failures stop nothing.

    `say` is given a line when the store fails, one when it works again, and one at the end where
    the store lacks something, with `remedy`.
    """

    def __init__(
        self,
        tracker: Tracker,
        interval_s: float,
        say: Callable[[str], None],
        remedy: str = "mode=analyse",
        join_s: float = JOIN_S,
        seen: str = "",
    ) -> None:
        """`seen`: how the view is seen where no server shows it."""
        self.seen = seen
        self._tracker = tracker
        self._interval_s = interval_s
        self._say = say
        self._remedy = remedy
        self._join_s = join_s
        self._stop = threading.Event()
        # What is said of the store at present: "" where it works.
        self._fault = ""
        self._telling = threading.Lock()
        self._finish: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name="isosweep-tracking", daemon=True)
        self._thread.start()

    def link(self) -> str | None:
        """Where a server shows the sweep, once it has taken everything; None where none does."""
        return None if self._thread.is_alive() or self._fault else self._tracker.link()

    def close(self, status: FinalStatus | None, figures: list[Path], report: Path | None) -> None:
        """Sync a last time, add figures and report, end the sweep's run as `status`.

        None: as its runs stand. Returns after `join_s` whatever the store does.
        """
        self._finish = partial(self._tracker.finish, status, figures, report)
        self._stop.set()
        self._thread.join(self._join_s)
        with self._telling:
            late = self._thread.is_alive()
            # Nothing is said from here on, whatever a thread that is left behind still does.
            self._say, say = (lambda line: None), self._say
        fault = self._fault
        if late:
            fault = f"{self._tracker.name}: it has not taken everything in {self._join_s:.0f} s"
        if fault:
            say(f"tracking: {fault}; the view is incomplete, {self._remedy} completes it")

    def _work(self) -> None:
        failures = 0
        while not self._stop.is_set():
            done = self._attempt(self._tracker.sync)
            failures = 0 if done else min(failures + 1, 16)
            self._stop.wait(
                min(self._interval_s * 2**failures, MAX_PAUSE_S) if failures else self._interval_s
            )
        if self._attempt(self._tracker.sync, last=True):
            self._attempt(self._finish, last=True)

    def _attempt(self, step: Callable[[], None], *, last: bool = False) -> bool:
        """Whether `step` went well; tells what is new of the store."""
        slow = threading.Timer(SLOW_S, self._tell, [f"{self._tracker.name}: it is slow"])
        slow.daemon = True
        slow.start()
        try:
            step()
        except Exception as error:
            said = str(error) if isinstance(error, StoreError) else repr(error)
            # The last word is `close`'s.
            self._tell(said, aloud=not last)
            return False
        finally:
            slow.cancel()
        self._tell("")
        return True

    def _tell(self, fault: str, *, aloud: bool = True) -> None:
        with self._telling:
            before, self._fault = self._fault, fault
            if not aloud or bool(before) == bool(fault):
                return
            if fault:
                self._say(f"tracking: {fault}; the runs go on, and the view catches up later")
            else:
                self._say(f"tracking: {self._tracker.name}: it works again and is up to date")
