"""A thread that shows that a worker lives, and looks for what the run's files ask of it."""

import threading
from contextlib import suppress

from isosweep.errors import RecordError
from isosweep.files import highest_of, names
from isosweep.store.attempts import HEARTBEAT_S, Attempt, read
from isosweep.training.reporter import Reporter
from isosweep.training.stopping import StopRequest


class Watch:
    """What the files of a run ask of the worker of one of its attempts."""

    def __init__(self, attempt: Attempt, stop: StopRequest) -> None:
        self._attempt, self._stop = attempt, stop

    def look(self) -> None:
        """Hand what is found to the stop request.

        A newer attempt, a cancel request, an end that somebody else wrote. Files are listed, never
        looked for: a network file system may remember that one was absent.
        """
        run, own = self._attempt.run, self._attempt.number
        there = names(run.attempts)
        later = highest_of(there)
        if later > own:
            self._stop.overtaken = f"{run.run_id}: attempt {later} owns the run now"
        elif f"{own}.cancel.json" in there and not self._stop.cancelled:
            self._stop.cancel(self._who_cancelled())
        elif f"{own}.end.json" in there and self._stop.reason is None:
            self._stop.reason = "somebody has ended its attempt"

    def _who_cancelled(self) -> str:
        with suppress(RecordError):
            return read(self._attempt.run, self._attempt.number).cancel or "a request"
        return "a request that cannot be read"


class Heartbeat:
    """Writes the state of a run every HEARTBEAT_S s while its process lives, whatever that does."""

    def __init__(self, reporter: Reporter, watch: Watch) -> None:
        self._reporter, self._watch = reporter, watch
        self._over = threading.Event()

    def __enter__(self) -> "Heartbeat":
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_S):
            # A disk that is full, or away, for a while: training goes on without a sign of life.
            with suppress(OSError):
                self._watch.look()
            with suppress(OSError):
                self._reporter.beat()
