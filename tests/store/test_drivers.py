"""One process follows a sweep; who comes second sees who."""

import errno
import os
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store import drivers
from isosweep.store.drivers import Claim, Driver, drive, living_driver


def claimed(directory: Path) -> Claim:
    claim = drive(directory)
    assert isinstance(claim, Claim)
    return claim


def elsewhere(directory: Path, number: int = 1) -> None:
    """As if the driver were a process of another host."""
    document = read_json(directory / f"{number}.json")
    assert document is not None
    document["by"]["host"] = "another-host"
    write_json(directory / f"{number}.json", document)


def test_the_second_is_told_who_follows_and_since_when(tmp_path: Path) -> None:
    claim = claimed(tmp_path)
    second = drive(tmp_path)
    assert isinstance(second, Driver)
    assert second.by.pid == os.getpid()
    assert abs(second.unix_time - time.time()) < 60
    claim.release(1)
    assert living_driver(tmp_path) is None
    assert (read_json(tmp_path / "1.json") or {})["left"] == 1
    claimed(tmp_path).release(0)


def test_a_driver_of_another_host_lives_while_its_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "BEAT_S", 0.05)
    claim = claimed(tmp_path)
    before = (tmp_path / "1.json").stat().st_mtime_ns
    deadline = time.monotonic() + 10
    while (tmp_path / "1.json").stat().st_mtime_ns == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    claim.release(0)
    monkeypatch.undo()
    other = claimed(tmp_path)
    elsewhere(tmp_path, 2)
    assert living_driver(tmp_path) is not None
    # Who may only read has no file of the directory's to tell the time by.
    with monkeypatch.context() as patch:
        refused = OSError(errno.EROFS, "Read-only file system")
        patch.setattr(Path, "touch", mock.Mock(side_effect=refused))
        assert living_driver(tmp_path) is not None
    old = (tmp_path / "2.json").stat().st_mtime - drivers.SILENCE_S - 1
    os.utime(tmp_path / "2.json", (old, old))
    assert living_driver(tmp_path) is None
    other.release(0)


def test_of_many_at_once_one_drives(tmp_path: Path) -> None:
    answers: list[Claim | Driver] = []
    start = threading.Barrier(8)

    def compete() -> None:
        start.wait()
        answers.append(drive(tmp_path))

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claims = [answer for answer in answers if isinstance(answer, Claim)]
    assert len(claims) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["1.json"]
    claims[0].release(0)


def test_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{ garbage")
    with pytest.raises(RecordError, match=r"1\.json: not a driver of a sweep"):
        drive(tmp_path)
