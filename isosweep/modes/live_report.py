"""The report of a sweep that goes on, written anew every few minutes by a process of its own.

`python -m isosweep.modes.live_report SWEEP_DIR PID` writes it once, at a low priority, if the
process PID, which started it, is still there.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isosweep.modes.sweeps import StoredSweep, read_sweep
from isosweep.store.paths import SweepPaths

# From the beginning of one report to that of the next. One takes some 5 s of one core.
INTERVAL_S = 300.0
# What a writer that is asked to end takes to take away the file that it writes.
_END_S = 5.0


class LiveReport:
    """Keeps `report.html` of a sweep up to date while the sweep is followed.

    `update` is cheap: each pass of the follower calls it. It is due `INTERVAL_S` after the follower
    began, and again as long after each report. `notice` is told once, when the first is there.
    After one that fails there are no more, and `notice` is told why: the sweep goes on.
    """

    def __init__(self, sweep: StoredSweep, notice: Callable[[str], None]) -> None:
        self._sweep, self._notice = sweep, notice
        self._due = time.monotonic() + INTERVAL_S
        self._writer: subprocess.Popen[bytes] | None = None
        self._noticed = self._failed = False

    def update(self) -> None:
        """Start the next report if it is due, and the last one is written."""
        if self._failed:
            return
        if self._writer is not None and (status := self._writer.poll()) is not None:
            said = self._writer.communicate()[0].decode(errors="replace").strip()
            self._writer = None
            if status:
                self._fail(said or f"its writer ended with {status}")
                return
            if not self._noticed:
                self._noticed = True
                every = f"written anew every {INTERVAL_S / 60:.0f} min"
                reports = ", ".join(str(paths.report) for _, paths in _views(self._sweep))
                self._notice(f"report so far, {every}: {reports}")
        if self._writer is None and time.monotonic() >= self._due:
            self._due = time.monotonic() + INTERVAL_S
            command = [sys.executable, "-P", "-m", __name__, str(self._sweep.paths.root)]
            command.append(str(os.getpid()))
            try:
                self._writer = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                )
            except OSError as error:
                self._fail(str(error))

    def _fail(self, reason: str) -> None:
        """Write no more reports, and say why."""
        self._failed = True
        self._notice(f"no further report before the sweep's end: {reason}")

    def stop(self) -> None:
        """End a report that is being written, so that it replaces none of a later analysis."""
        if self._writer is not None:
            self._writer.terminate()
            try:
                self._writer.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                self._writer.kill()
                self._writer.communicate()
            self._writer = None


def write_report(root: Path, driver: int) -> None:
    """Write the report of every variant of the sweep in `root`, as far as its runs have come.

    Without `driver`, this process's parent, nothing is written: another may have gone on with the
    sweep, and finished it. Raises what the first variant that cannot be written raised, when all
    others are written.
    """
    from isosweep.analysis.report import analyse
    from isosweep.modes.display_search import stored_course

    sweep = read_sweep(root)
    analysis, course = sweep.config.analysis, stored_course(sweep)
    faults: list[Exception] = []
    for axes, paths in _views(sweep):
        try:
            analyse(paths, analysis, axes, course, going_on=lambda: os.getppid() == driver)
        except Exception as error:
            faults.append(error)
    if faults:
        raise faults[0]


def _views(sweep: StoredSweep) -> list[tuple[dict[str, Any], SweepPaths]]:
    """The variants of `grid.axes`, and the files of each one's analysis."""
    view = sweep.config.analysis.view
    return [(axes, replace(sweep.paths, view=view(axes))) for axes in sweep.plan.axes]


def main(arguments: Sequence[str]) -> None:
    """Write the report of the sweep whose directory and driver are the `arguments`; asked to end by
    a signal, leave no half-written file. Why it cannot be written is a line of the output."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # At 19 it would wait for ten minutes beside runs that take every core.
    os.nice(10)
    try:
        write_report(Path(arguments[0]), int(arguments[1]))
    except Exception as error:
        sys.stdout.write(" ".join(f"{type(error).__name__}: {error}".split())[:500] + "\n")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
