"""Which checkpoint an attempt starts from, and who may read it."""

import os
import stat
from pathlib import Path

import pytest

from isosweep.store.checkpoints import complete, complete_bytes, fault, find_resume_point, keep_only
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from isosweep.store.records import AttemptStart, append_attempt


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Attempt 2 went on from step 5 of attempt 1; attempt 3 did not see that, and from step 3."""
    run = RunPaths(tmp_path)
    for attempt, parent, step in ((1, None, 0), (2, 1, 5), (3, 1, 3)):
        start = AttemptStart(attempt=attempt, parent=parent, resumed_step=step)
        append_attempt(run.records, start)
    return run


def checkpoint(run: RunPaths, attempt: int, step: int, whole: bool = True) -> Path:
    path = run.attempt_checkpoints(attempt) / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model").write_bytes(bytes(100))
    if whole:
        complete(path, spent=step)
    return path


def test_an_attempt_starts_from_the_newest_checkpoint_on_its_chain(run: RunPaths) -> None:
    checkpoint(run, 1, 2, whole=False)
    start = find_resume_point(run, 4)
    assert (start.step, start.parent, start.checkpoint, start.progress) == (0, None, None, {})
    for attempt, step in ((1, 3), (1, 5), (2, 9)):
        checkpoint(run, attempt, step)
    checkpoint(run, 3, 8, whole=False)
    assert complete_bytes(run) == 3 * 100
    # What attempt 1 did after step 3, and all of attempt 2, is off the chain of attempt 3.
    start = find_resume_point(run, 4)
    assert (start.step, start.parent, start.progress) == (3, 1, {"spent": 3})
    before = find_resume_point(run, 3)
    assert (before.step, before.parent) == (9, 2)
    for step in (7, 10):
        newer = checkpoint(run, 3, step)
    assert find_resume_point(run, 4).checkpoint == newer


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o644), (0o077, 0o600)])
def test_who_may_see_a_checkpoint_can_go_on_from_it_and_change_nothing(
    run: RunPaths, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        path = checkpoint(run, 1, 3, whole=False)
        (path / "for_one").touch(0o600)
        (path / "for_the_group").touch(0o664)
        complete(path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {mode}


@pytest.mark.parametrize(
    "marker", ["{", "[]", '{"version": 2}', '{"version": 2, "progress": {}, "files": {"a": "x"}}']
)
def test_what_is_no_checkpoint_ends_no_run(run: RunPaths, marker: str) -> None:
    own = run.attempt_checkpoints(1)
    (own / "checkpoint-1" / CHECKPOINT_FILES).mkdir(parents=True)
    (own / "checkpoint-2").write_text("a file")
    path = checkpoint(run, 1, 3, whole=False)
    (path / CHECKPOINT_FILES).write_text(marker)
    (path / "a").write_text("")
    assert fault(own / "checkpoint-1") == f"{CHECKPOINT_FILES} cannot be read (ValueError)"
    assert fault(path) is not None
    assert complete_bytes(run) == 0
    assert find_resume_point(run, 4).checkpoint is None
    keep_only(run, 1, ())
    assert [path.name for path in own.iterdir()] == ["checkpoint-2"]
