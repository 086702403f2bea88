"""The thread that keeps the store up to date while a sweep runs."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from isosweep.config.tracking import TrackingConfig
from isosweep.tracking.background import BackgroundTracker, NullTracker, make_tracker
from isosweep.tracking.mlflow import MlflowTracker
from isosweep.tracking.points import FinalStatus
from tests.tracking.sweeps import SPEC_PARAMS, STOP, Sweep

pytestmark = [
    pytest.mark.mlflow,
    # MLflow 3.17's own table definitions under SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
]


class FakeTracker:
    """Counts calls; fails as long as asked to."""

    def __init__(self, failing: bool = False) -> None:
        self.failing = failing
        self.syncs = 0
        self.finished: list[FinalStatus] = []
        self.threads: list[str] = []
        self.called = threading.Event()

    def sync(self) -> None:
        self.syncs += 1
        self.threads.append(threading.current_thread().name)
        if self.syncs >= 3:
            self.called.set()
        if self.failing:
            raise ConnectionError("no store\nand a long tail")

    def finish(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        self.finished.append(status)


def test_background_syncs_repeat_and_the_last_is_the_callers() -> None:
    tracker, warnings = FakeTracker(), list[str]()
    background = BackgroundTracker(tracker, 0.01, warnings.append)
    assert tracker.called.wait(10)
    background.close("FINISHED", [], None)
    assert tracker.threads[0] == "isosweep-tracking"
    assert tracker.threads[-1] == threading.current_thread().name
    assert (tracker.finished, warnings, background.errors) == (["FINISHED"], [], [])


def test_a_failing_store_is_reported_once_and_once_more_at_the_end() -> None:
    tracker, warnings = FakeTracker(failing=True), list[str]()
    background = BackgroundTracker(tracker, 0.01, warnings.append)
    assert tracker.called.wait(10)
    assert warnings == ["tracking: a sync failed, the sweep goes on: ConnectionError: no store"]
    background.close("KILLED", [], None)
    assert warnings[1:] == ["tracking: the store is incomplete: ConnectionError: no store"]
    assert tracker.finished == ["KILLED"]
    assert len(background.errors) == tracker.syncs


def test_a_store_that_recovers_is_complete_at_the_end(sweep: Sweep) -> None:
    # A directory where the lock belongs: no sync gets past it.
    obstacle = sweep.root / "mlflow.lock"
    obstacle.mkdir()
    warned = threading.Event()
    warnings = list[str]()

    def warn(text: str) -> None:
        warnings.append(text)
        warned.set()

    background = BackgroundTracker(sweep.tracker(), 60.0, warn)
    assert warned.wait(60)
    obstacle.rmdir()
    background.close("FINISHED", [], None)
    assert len(warnings) == 1
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    assert sweep.stored()["parent"].info.status == "FINISHED"


def test_no_tracking_is_a_tracker_that_does_nothing(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    none = TrackingConfig(name="none")
    tracker = make_tracker(sweep.paths, sweep.plan, SPEC_PARAMS, none, sweep.root, STOP)
    assert isinstance(tracker, NullTracker)
    tracker.sync()
    tracker.finish("FINISHED", [], None)
    chosen = make_tracker(sweep.paths, sweep.plan, SPEC_PARAMS, sweep.config, sweep.root, STOP)
    assert isinstance(chosen, MlflowTracker)


def test_importing_the_module_does_not_import_mlflow() -> None:
    code = "import sys, isosweep.tracking; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
