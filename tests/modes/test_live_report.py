"""The report of a sweep that goes on."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isosweep.modes.dispatch import prepare
from isosweep.modes.live_report import INTERVAL_S, LiveReport, write_report
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import sweep_in, terminal
from tests.modes.sweeps import write_records


def test_it_says_how_far_the_sweep_is_and_reloads_itself(tmp_path: Path) -> None:
    sweeps = tmp_path / "sweeps"
    config = make_config("mode=plan", "tracking=none", f"sweeps_dir={sweeps}", *SMALL)
    assert prepare(config)(terminal()) == 0
    write_records(tmp_path)
    (root,) = (path.parent for path in sweeps.glob("*/plan.json"))
    paths = SweepPaths(root, sweeps / "runs")
    # Whoever started it is gone.
    write_report(root, os.getpid())
    assert not paths.report.exists()
    write_report(root, os.getppid())
    page = paths.report.read_text()
    assert re.search(r" runs done, as of \d{4}-\d\d-\d\d \d\d:\d\d UTC", page)
    assert '<meta http-equiv="refresh"' in page
    # Whoever reads the answer reads that of a sweep that is over.
    assert [path.name for path in paths.analysis.iterdir()] == ["report.html"]


class Clock:
    """A time, and writers that end well or not; `begun`: when each was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
        self.now, self.begun, self.ended, self._status = 0.0, list[float](), list[str](), status
        self.obeys = True
        monkeypatch.setattr("isosweep.modes.live_report.time.monotonic", lambda: self.now)
        monkeypatch.setattr("isosweep.modes.live_report.subprocess.Popen", self._start)

    def _start(self, command: list[str], **_: Any) -> Any:
        self.begun.append(self.now)
        return SimpleNamespace(
            poll=lambda: self._status,
            terminate=lambda: self.ended.append("terminated"),
            kill=lambda: self.ended.append("killed"),
            communicate=self._communicate,
        )

    def _communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        if timeout is not None and not self.obeys:
            raise subprocess.TimeoutExpired("a writer", timeout)
        return b"RuntimeError: planted\n", None


def test_it_is_due_every_few_minutes_and_noticed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, noticed = Clock(monkeypatch, 0), list[str]()
    sweep = sweep_in(tmp_path)
    report = LiveReport(sweep, noticed.append)
    for now in (0.0, INTERVAL_S - 1, INTERVAL_S, INTERVAL_S + 1, 2 * INTERVAL_S + 1):
        clock.now = now
        report.update()
    assert clock.begun == [INTERVAL_S, 2 * INTERVAL_S + 1]
    assert [line.endswith(str(sweep.paths.report)) for line in noticed] == [True]


def test_after_a_report_that_failed_there_is_a_notice_and_no_other_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, noticed = Clock(monkeypatch, 1), list[str]()
    report = LiveReport(sweep_in(tmp_path), noticed.append)
    for times in range(1, 5):
        clock.now = times * INTERVAL_S
        report.update()
    assert clock.begun == [INTERVAL_S]
    assert noticed == ["no further report before the sweep's end: RuntimeError: planted"]


def test_a_writer_says_in_one_line_why_it_failed(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "isosweep.modes.live_report", str(tmp_path), "1"]
    failed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stdout.count("\n") == 1
    assert "plan.json" in failed.stdout


@pytest.mark.parametrize(
    ("obeys", "ended"), [(True, ["terminated"]), (False, ["terminated", "killed"])]
)
def test_a_report_that_is_being_written_is_asked_to_end_and_killed_if_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: bool, ended: list[str]
) -> None:
    clock = Clock(monkeypatch, 0)
    report, clock.now, clock.obeys = LiveReport(sweep_in(tmp_path), print), INTERVAL_S, obeys
    report.update()
    report.stop()
    assert clock.ended == ended
