"""Tracking beside the runs: one thread of one process of a sweep, whose failures stop nothing."""

import threading
from collections.abc import Callable

from isosweep.config.secrets import hidden
from isosweep.errors import SettingError
from isosweep.tracking.backend import FinalStatus
from isosweep.tracking.tracker import Tracker

# Longest text of a library that a line of the terminal carries.
_MAX_FAULT = 200


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
        self._status: FinalStatus | None = None
        self._thread = threading.Thread(target=self._work, name="isosweep-tracking", daemon=True)
        self._thread.start()

    def link(self) -> str | None:
        """Return where a server shows the sweep, once it has taken everything; else None."""
        done = not (self._thread.is_alive() or self._fault)
        return self._tracker.backend.link if done else None

    def close(self, status: FinalStatus | None) -> None:
        """Finish as `Tracker.finish`; returns after `join_s` at the latest."""
        self._status = status
        self._stop.set()
        self._thread.join(self._join_s)
        # A thread that is left behind says nothing from here on.
        self._say, say = (lambda line: None), self._say
        fault = self._fault
        if self._thread.is_alive():
            fault = f"{self._tracker.backend.name}: still not up to date after {self._join_s:.0f} s"
        if fault:
            say(f"tracking: {fault}; the view is incomplete, {self._remedy} completes it")

    def _work(self) -> None:
        while not self._stop.is_set():
            before = self._fault
            self._try(self._tracker.sync)
            if self._fault and not before:
                self._say(f"tracking: {self._fault}; the runs go on, and the view catches up later")
            self._stop.wait(self._interval_s)
        # `close` says what fails here.
        self._try(lambda: self._tracker.finish(self._status))

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except SettingError as error:
            self._fault = str(error)
        except Exception as error:
            self._fault = f"{self._tracker.backend.name}: {fault(error)}"
        else:
            if self._fault:
                name = self._tracker.backend.name
                self._say(f"tracking: {name}: it works again and is up to date")
            self._fault = ""


def fault(error: BaseException) -> str:
    """Return the first line of the error's root cause, without passwords."""
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    lines = str(error).strip().splitlines() or [""]
    return hidden(lines[0])[:_MAX_FAULT] or type(error).__name__
