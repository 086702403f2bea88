"""The thread that keeps a store up to date while a sweep runs, and outlives none of its faults."""

import threading
import time
from types import SimpleNamespace
from typing import cast

from isosweep.tracking.points import RunStatus
from isosweep.tracking.tracker import Backend, BackgroundTracker, StoredRun, Tracker, fault
from tests.runs import wait_for


class FakeTracker(Tracker):
    """Fails as long as asked to, or waits for `gate`."""

    def __init__(self, failing: bool = False) -> None:
        self.backend = cast(Backend, SimpleNamespace(name="http://store"))
        self.failing, self.syncs = failing, 0
        self.gate = threading.Event()

    def sync(self) -> StoredRun:
        self.gate.wait()
        self.syncs += 1
        if self.failing:
            raise OSError("it does not answer")
        return StoredRun()

    def finish(self, status: RunStatus | None) -> None:
        self.sync()


def test_a_failing_store_is_told_once_and_once_more_at_the_end() -> None:
    tracker, said = FakeTracker(failing=True), list[str]()
    tracker.gate.set()
    background = BackgroundTracker(tracker, 0.01, said.append, remedy="mode=analyse sweep=X")
    wait_for(lambda: tracker.syncs >= 3)
    fails = "tracking: http://store: it does not answer;"
    goes_on = f"{fails} the runs go on, and the view catches up later"
    assert said == [goes_on]
    tracker.failing = False
    wait_for(lambda: len(said) > 1)
    tracker.failing = True
    wait_for(lambda: len(said) > 2)
    assert said[1:] == ["tracking: http://store: it works again and is up to date", goes_on]
    background.close("KILLED")
    assert said[3:] == [f"{fails} the view is incomplete, mode=analyse sweep=X completes it"]


def test_a_store_that_hangs_holds_up_no_end() -> None:
    tracker, said = FakeTracker(), list[str]()
    background = BackgroundTracker(tracker, 0.01, said.append, join_s=0.2)
    began = time.monotonic()
    background.close("FINISHED")
    assert time.monotonic() - began < 5
    (line,) = said
    assert line.startswith("tracking: http://store: still not up to date after 0 s")
    tracker.failing = True
    tracker.gate.set()
    wait_for(lambda: tracker.syncs >= 2)
    assert len(said) == 1, "a thread that is left behind says nothing"


def test_a_fault_is_the_cause_s_first_line_without_a_password() -> None:
    error = RuntimeError("no\nmore")
    error.__cause__ = OSError("postgresql://me:secret@db/mlflow is away\nand so on")
    assert fault(error) == "postgresql://me:***@db/mlflow is away"
