"""Which checkpoint an attempt starts from."""

import os
import stat
from pathlib import Path

import pytest

from isosweep.files import write_json
from isosweep.store.checkpoints import complete
from isosweep.store.paths import CHECKPOINT_PROGRESS, RunPaths
from isosweep.store.records import AttemptStart, append_attempt
from isosweep.training.progress import find_resume_point


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
    write_json(path / CHECKPOINT_PROGRESS, {})
    if whole:
        complete(path)
    return path


def test_an_attempt_starts_from_the_newest_checkpoint_on_its_chain(run: RunPaths) -> None:
    checkpoint(run, 1, 2, whole=False)
    start = find_resume_point(run, 4)
    assert (start.step, start.parent, start.checkpoint, start.health) == (0, None, None, None)
    checkpoint(run, 1, 3)
    checkpoint(run, 1, 5)
    checkpoint(run, 2, 9)
    checkpoint(run, 3, 8, whole=False)
    # What attempt 1 did after step 3, and all of attempt 2, is off the chain of attempt 3.
    start = find_resume_point(run, 4)
    assert (start.step, start.parent) == (3, 1)
    assert start.health is None
    before = find_resume_point(run, 3)
    assert (before.step, before.parent) == (9, 2)
    newer = checkpoint(run, 3, 7)
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
