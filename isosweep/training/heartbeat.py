"""A thread that shows that a worker lives, and looks for what the run's files ask of it."""

import threading
from contextlib import suppress

from isosweep.errors import RecordError
from isosweep.store.claims import highest_of, names
from isosweep.store.state import HEARTBEAT_S, Attempt, OvertakenError
from isosweep.store.submissions import read_submission
from isosweep.training.reporter import Reporter
from isosweep.training.stopping import StopRequest


class Watch:
    """What the files of a run ask of the worker of one of its submissions.

    `submission`: its number; None of a run that nobody submitted.
    """

    def __init__(self, attempt: Attempt, submission: int | None, stop: StopRequest) -> None:
        self._attempt, self._submission, self._stop = attempt, submission, stop

    def look(self) -> None:
        """Hand what is found to the stop request.

        A cancel request, an end that somebody else wrote, a newer submission or attempt. Files are
        listed, never looked for: a network file system may remember that one was absent.
        """
        try:
            self._attempt.check()
        except OvertakenError as overtaken:
            self._stop.overtaken = str(overtaken)
        if self._submission is None:
            return
        run, own = self._attempt.run, self._submission
        there = names(run.submissions)
        if (newest := highest_of(there)) > own:
            self._stop.overtaken = f"{run.run_id}: submission {newest} owns the run now"
        elif f"{own}.cancel.json" in there and not self._stop.cancelled:
            self._stop.cancel(self._who_cancelled(there))
        elif f"{own}.end.json" in there and self._stop.reason is None:
            self._stop.reason = "somebody has ended its submission"

    def _who_cancelled(self, there: list[str]) -> str:
        assert self._submission is not None
        try:
            state = read_submission(self._attempt.run, self._submission, there)
        except RecordError:
            return "a request that cannot be read"
        return state.cancel or "a request"


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
