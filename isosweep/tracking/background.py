"""Tracking: a copy of what the runs' files say, made by one process of the sweep.

Workers never talk to the store.
"""

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from isosweep.config.tracking import TrackingConfig
from isosweep.plan.cells import Plan
from isosweep.store.paths import SweepPaths
from isosweep.tracking.mlflow import MlflowTracker, Params
from isosweep.tracking.points import FinalStatus

# How long `close` waits for a sync that is under way.
JOIN_S = 60.0


class Tracker(Protocol):
    """A store that shows a sweep while it runs, and afterwards."""

    def sync(self) -> None:
        """Bring the store up to what the files say."""

    def finish(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        """Add figures and report to the sweep's own run and end it."""


class NullTracker:
    """`tracking=none`."""

    def sync(self) -> None:
        """Do nothing."""

    def finish(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        """Do nothing."""


class BackgroundTracker:
    """Syncs a tracker every `interval_s` from one daemon thread; its failures stop nothing.

    The first failure of the thread, and that of the last sync, are passed to `warn`; all are kept
    in `errors`.
    """

    def __init__(self, tracker: Tracker, interval_s: float, warn: Callable[[str], None]) -> None:
        self.errors: list[Exception] = []
        self._tracker = tracker
        self._interval_s = interval_s
        self._warn = warn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="isosweep-tracking", daemon=True)
        self._thread.start()

    def close(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        """Sync a last time, add figures and report, end the sweep's run as `status`."""
        self._stop.set()
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            self._warn(f"tracking: no answer from the store for {JOIN_S:.0f} s; it is incomplete")
            return
        failures = []
        for step in (self._tracker.sync, lambda: self._tracker.finish(status, figures, report)):
            try:
                step()
            except Exception as error:
                failures.append(error)
        self.errors += failures
        if failures:
            self._warn(f"tracking: the store is incomplete: {_described(failures[0])}")

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._tracker.sync()
            except Exception as error:
                self.errors.append(error)
                if len(self.errors) == 1:
                    self._warn(f"tracking: a sync failed, the sweep goes on: {_described(error)}")
            self._stop.wait(self._interval_s)


def make_tracker(
    paths: SweepPaths,
    plan: Plan,
    spec_params: Params,
    config: TrackingConfig,
    sweeps_dir: Path,
    stop: Collection[str],
) -> MlflowTracker | NullTracker:
    """The tracker that `config.name` asks for; `stop`: health rules that end a run."""
    match config.name:
        case "none":
            return NullTracker()
        case _:
            return MlflowTracker(paths, plan, spec_params, config, sweeps_dir, stop)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(
        ": "
    )
