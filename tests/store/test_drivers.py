"""One process follows a sweep; who comes second sees who."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store import drivers
from isosweep.store.drivers import Claim, Driver, drive, living_driver
from tests.runs import wait_for


def claimed(directory: Path) -> Claim:
    claim = drive(directory)
    assert isinstance(claim, Claim)
    return claim


def test_the_second_is_told_who_follows_and_since_when(tmp_path: Path) -> None:
    claim = claimed(tmp_path)
    second = drive(tmp_path)
    assert isinstance(second, Driver)
    assert second.by.pid == os.getpid()
    assert abs(second.unix_time - time.time()) < 60
    claim.release(1)
    assert living_driver(tmp_path) is None
    assert (read_json(tmp_path / "1.json") or {})["exit_status"] == 1
    claimed(tmp_path).release(0)


def test_a_driver_of_another_host_lives_while_its_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "BEAT_S", 0.05)
    claim = claimed(tmp_path)
    before = (tmp_path / "1.json").stat().st_mtime_ns
    wait_for(lambda: (tmp_path / "1.json").stat().st_mtime_ns != before)
    claim.release(0)
    monkeypatch.undo()
    other = claimed(tmp_path)
    document = read_json(tmp_path / "2.json") or {}
    document["by"]["host"] = "another-host"
    write_json(tmp_path / "2.json", document)
    assert living_driver(tmp_path) is not None
    # Who may only read has no file of the directory's to tell the time by.
    with monkeypatch.context() as patch:
        refused = OSError(errno.EROFS, "Read-only file system")
        patch.setattr(Path, "touch", mock.Mock(side_effect=refused))
        assert living_driver(tmp_path) is not None
    old = (tmp_path / "2.json").stat().st_mtime - drivers.DRIVER_SILENCE_S - 1
    os.utime(tmp_path / "2.json", (old, old))
    assert living_driver(tmp_path) is None
    other.release(0)


def test_of_many_at_once_one_drives(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: drive(tmp_path), range(8)))
    (claim,) = (answer for answer in answers if isinstance(answer, Claim))
    assert [path.name for path in tmp_path.iterdir()] == ["1.json"]
    claim.release(0)


def test_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{ garbage")
    with pytest.raises(RecordError, match=r"1\.json: not a driver of a sweep"):
        drive(tmp_path)
