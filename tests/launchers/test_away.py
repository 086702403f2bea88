"""A queue whose file system fails for a while: no run does, and each pass says what failed."""

import errno
from pathlib import Path

import pytest

from isosweep import files
from tests.launchers.fake import (
    FakeLauncher,
    attempts,
    finishes,
    follow,
    items_of,
    never_begins,
    queue_of,
)


def test_runs_that_are_away_are_waited_for_though_their_jobs_end(tmp_path: Path) -> None:
    launcher = FakeLauncher(finishes, looks=10**9)
    queue = queue_of(items_of(tmp_path), launcher)
    queue.step()
    assert len(queue.active) == 3
    # As where a mount is gone.
    runs = tmp_path / "runs"
    gone = runs.rename(tmp_path / "gone")
    runs.mkdir()
    launcher.alive.clear()
    for _ in range(20):
        with pytest.raises(FileNotFoundError, match="No such file"):
            queue.step()
    assert (len(queue.active), queue.failed) == (3, {})
    runs.rmdir()
    gone.rename(runs)
    launcher.looks = 1
    follow(queue)
    assert not queue.failed
    # A job that ended without a word is tried again, once.
    assert {*attempts(tmp_path).values()} == {2}


def test_an_end_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(items_of(tmp_path), FakeLauncher(never_begins), retries=0)
    queue.step()

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "planted", "there")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", refused)
        # A job is believed to be gone where it is twice.
        queue.step()
        for _ in range(5):
            with pytest.raises(OSError, match="planted"):
                queue.step()
    assert (len(queue.active), queue.failed) == (3, {})
    follow(queue)
    assert len(queue.failed) == 3
    assert {*attempts(tmp_path).values()} == {1}


def test_a_run_whose_directory_is_gone_keeps_no_other_from_its_end(tmp_path: Path) -> None:
    launcher = FakeLauncher(finishes)
    queue = queue_of(items_of(tmp_path), launcher)
    queue.step()
    first = queue.active[0].run_id
    (tmp_path / "runs" / first).rename(tmp_path / "gone")
    launcher.alive = {path: job for path, job in launcher.alive.items() if first not in str(path)}
    for _ in range(6):
        with pytest.raises(FileNotFoundError, match=first):
            queue.step()
    assert [run.run_id for run in queue.active] == [first]
    assert queue.waiting == 0
