"""The report of a sweep that goes on."""

from pathlib import Path

import pytest

from isosweep.modes import live_report
from isosweep.modes.dispatch import prepare
from isosweep.modes.live_report import LiveReport
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import terminal
from tests.modes.sweeps import write_records


def update_until_written(paths: SweepPaths) -> list[str]:
    """What is noticed until the first report has ended, well or not."""
    noticed = list[str]()
    report = LiveReport(paths, noticed.append)
    report.update()
    writer = report._writer
    assert writer is not None
    writer.wait(60)
    report.update()
    report.stop()
    return noticed


def test_a_report_says_how_far_the_sweep_is_and_reloads_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = tmp_path / "sweeps"
    config = make_config("mode=plan", "tracking=none", f"sweeps_dir={sweeps}", *SMALL)
    assert prepare(config)(terminal()) == 0
    write_records(tmp_path)
    (root,) = (path.parent for path in sweeps.glob("*/plan.json"))
    paths = SweepPaths(root, sweeps / "runs")
    monkeypatch.setattr(live_report, "INTERVAL_S", 0.0)
    (line,) = update_until_written(paths)
    assert line.endswith(str(paths.report))
    page = paths.report.read_text()
    assert " runs done, as of " in page
    assert '<meta http-equiv="refresh"' in page
    # Whoever reads the answer reads that of a sweep that is over.
    assert not paths.answer.exists()


def test_a_report_that_fails_is_no_concern_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_report, "INTERVAL_S", 0.0)
    assert update_until_written(SweepPaths(tmp_path / "gone", tmp_path / "runs")) == []


def test_no_report_is_due_when_following_begins(tmp_path: Path) -> None:
    report = LiveReport(SweepPaths(tmp_path, tmp_path / "runs"), print)
    report.update()
    assert report._writer is None
