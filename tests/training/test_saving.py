"""When checkpoints are due, and what becomes of one that cannot be written."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.store.attempts import OvertakenError, claim
from isosweep.store.checkpoints import fault, keep_only
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths, complete_checkpoints
from isosweep.training.saving import Saver, SavingError


def saver_in(root: Path, config: CheckpointConfig) -> Saver:
    return Saver(config, claim(RunPaths(root)), None)


def save(saver: Saver, root: Path, step: int, write: Callable[[], object] = dict) -> None:
    """As the loop and the trainer do it: decide, make the directory, complete."""
    saver.decided()
    path = RunPaths(root).attempt_checkpoints(1) / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "state").write_text("{}")
    saver.complete(path, write)


def test_the_interval_follows_what_a_checkpoint_takes(tmp_path: Path) -> None:
    saver = saver_in(tmp_path, CheckpointConfig())
    # Before anything was measured a kill costs what it costs at least.
    assert saver.interval_s == 30.0
    expected = {0.01: 30.0, 2.0: 100.0, 20.0: 1000.0, 300.0: 3600.0}
    for taken, interval in expected.items():
        saver._taken = taken
        assert saver.interval_s == interval


def test_the_last_is_kept_until_the_next_is_on_the_disk_marker_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = saver_in(tmp_path, CheckpointConfig())
    own = RunPaths(tmp_path).attempt_checkpoints(1)
    save(saver, tmp_path, 1)
    with_marker: list[bool] = []

    def sync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), (own / "checkpoint-2").stat()):
            marked = (own / "checkpoint-2" / CHECKPOINT_FILES).exists()
            with_marker.append(marked and (own / "checkpoint-1" / CHECKPOINT_FILES).exists())

    monkeypatch.setattr(os, "fsync", sync)
    save(saver, tmp_path, 2)
    assert with_marker == [False, True]
    assert complete_checkpoints(own).keys() == {2}
    assert not (own / "checkpoint-1").exists()


def test_a_checkpoint_that_cannot_be_written_is_named_and_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    saver = saver_in(tmp_path, CheckpointConfig())
    save(saver, tmp_path, 1)

    def full() -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos\nframe #0")

    with pytest.raises(SavingError) as caught:
        save(saver, tmp_path, 2, full)
    said = str(caught.value)
    assert str(tmp_path / "checkpoints" / "1" / "checkpoint-2: cannot be written, with") in said
    assert "GB free there" in said
    assert "\n" not in said
    assert complete_checkpoints(RunPaths(tmp_path).attempt_checkpoints(1)).keys() == {1}
    assert not (tmp_path / "checkpoints" / "1" / "checkpoint-2").exists()


def test_an_overtaken_attempt_removes_nothing(tmp_path: Path) -> None:
    saver = saver_in(tmp_path, CheckpointConfig(keep="none"))
    save(saver, tmp_path, 1)
    claim(RunPaths(tmp_path))
    with pytest.raises(OvertakenError):
        saver.end(lambda checkpoint: None)
    assert complete_checkpoints(RunPaths(tmp_path).attempt_checkpoints(1)).keys() == {1}


def test_what_is_no_checkpoint_ends_no_run(tmp_path: Path) -> None:
    attempt = claim(RunPaths(tmp_path))
    own = attempt.run.attempt_checkpoints(1)
    (own / "checkpoint-1" / CHECKPOINT_FILES).mkdir(parents=True)
    (own / "checkpoint-2").write_text("a file")
    assert "cannot be read" in str(fault(own / "checkpoint-1"))
    keep_only(attempt.run, 1, ())
    assert not (own / "checkpoint-1").exists()
    # A size beyond any file's.
    files = '{"a": {"bytes": 1e999}}'
    (tmp_path / CHECKPOINT_FILES).write_text(f'{{"version": 1, "files": {files}}}')
    assert "OverflowError" in str(fault(tmp_path))
