"""The report of a sweep that goes on."""

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isosweep.files import write_text
from isosweep.modes.dispatch import prepare
from isosweep.modes.live_report import INTERVAL_S, LiveReport, main, write_report
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
    assert " runs done, as of " in page
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
            wait=self._wait,
        )

    def _wait(self, timeout: float | None = None) -> int:
        if timeout is not None and not self.obeys:
            raise subprocess.TimeoutExpired("a writer", timeout)
        return 0


@pytest.mark.parametrize(("status", "notices"), [(0, 1), (1, 0)])
def test_it_is_due_every_few_minutes_and_noticed_once_where_it_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, notices: int
) -> None:
    clock, noticed = Clock(monkeypatch, status), list[str]()
    sweep = sweep_in(tmp_path)
    report = LiveReport(sweep, noticed.append)
    for now in (0.0, INTERVAL_S - 1, INTERVAL_S, INTERVAL_S + 1, 2 * INTERVAL_S + 1):
        clock.now = now
        report.update()
    assert clock.begun == [INTERVAL_S, 2 * INTERVAL_S + 1]
    assert [line.endswith(str(sweep.paths.report)) for line in noticed] == [True] * notices


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


def test_a_writer_that_is_asked_to_end_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(root: Path, _: int) -> None:
        monkeypatch.setattr(Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        write_text(root / "report.html", "a page")

    monkeypatch.setattr("isosweep.modes.live_report.write_report", write)
    monkeypatch.setattr("isosweep.modes.live_report.os.nice", lambda _: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit):
            main([str(tmp_path), str(os.getppid())])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not list(tmp_path.iterdir())


def test_the_notice_names_the_report_of_every_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, noticed = Clock(monkeypatch, 0), list[str]()
    sweep = sweep_in(tmp_path, "grid.axes={recipe.num_iterations:[1,2]}")
    report = LiveReport(sweep, noticed.append)
    for clock.now in (INTERVAL_S, INTERVAL_S + 1):
        report.update()
    analyses = sweep.paths.root / "analysis"
    reports = [f"{analyses}/recipe.num_iterations={value}/report.html" for value in (1, 2)]
    assert noticed[0].endswith(": " + ", ".join(reports))
