"""What is written to a directory that is away for a while waits until it is back."""

import errno
import threading
from pathlib import Path

import pytest

from isosweep.store import presence
from isosweep.store.claims import claim
from isosweep.store.paths import RunPaths
from isosweep.store.presence import persist, there, wait_for
from isosweep.store.records import append_metrics


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "LOOK_S", 0.01)


def a_run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "sweeps" / "runs" / "one")
    run.root.mkdir(parents=True)
    run.spec.write_text("{}")
    return run


def test_a_mount_that_is_gone_leaves_an_empty_directory(tmp_path: Path) -> None:
    assert not there(tmp_path / "missing")
    assert not there(tmp_path)
    (tmp_path / "a").write_text("")
    assert there(tmp_path)


def test_a_write_waits_for_its_directory_and_makes_none_in_its_place(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    gone = (tmp_path / "sweeps").rename(tmp_path / "gone")

    def back() -> None:
        assert not (tmp_path / "sweeps").exists()
        gone.rename(tmp_path / "sweeps")

    timer = threading.Timer(0.3, back)
    timer.start()
    persist(lambda: append_metrics(run.metrics, 1, {"step": 1}), run.root, lambda: False)
    timer.join()
    assert (run.metrics / "1.jsonl").read_text() == '{"attempt": 1, "step": 1}\n'


def test_nothing_is_claimed_in_a_tree_that_is_away(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "sweeps").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        claim(run.submission(1), {})
    assert not (tmp_path / "sweeps").exists()


def test_who_is_to_leave_waits_no_longer(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        wait_for(tmp_path / "missing", lambda: True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_write_that_fails_where_its_directory_is_there_is_told(
    number: int, tmp_path: Path
) -> None:
    def write() -> None:
        raise OSError(number, "planted")

    with pytest.raises(OSError, match="planted"):
        persist(write, a_run(tmp_path).root, lambda: False)
