"""Which checkpoint an attempt starts from."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.files import write_json
from isosweep.store.checkpoints import complete
from isosweep.store.paths import CHECKPOINT_FILES, CHECKPOINT_PROGRESS, RunPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record, attempt_file
from isosweep.training.progress import find_resume_point


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Attempt 2 went on from step 5 of attempt 1; attempt 3 did not see that, and from step 3."""
    run = RunPaths(tmp_path)
    for attempt, parent, step in ((1, None, 0), (2, 1, 5), (3, 1, 3)):
        start = AttemptStart(attempt=attempt, parent=parent, resumed_step=step)
        append_attempt(run.records, start)
    return run


def checkpoint(
    run: RunPaths,
    attempt: int,
    step: int,
    whole: bool = True,
    *,
    said: int | None = None,
    recorded: Sequence[int] = (),
) -> Path:
    path = run.attempt_checkpoints(attempt) / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model").write_bytes(bytes(100))
    document = {"step": step if said is None else said, "recorded": recorded}
    write_json(path / CHECKPOINT_PROGRESS, document)
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


def record(run: RunPaths, attempt: int, step: int) -> None:
    taken = Record(
        step=step,
        compute=Compute(),
        successes=(1,),
        samples_per_problem=1,
        completion_tokens=1.0,
        unix_time=0.0,
    )
    append_record(run.records, attempt, taken)


def test_a_record_that_is_lost_is_taken_again_from_before_it(run: RunPaths) -> None:
    for step in (0, 2):
        record(run, 1, step)
    for step in (6, 8):
        record(run, 3, step)
    older = checkpoint(run, 1, 3, recorded=(0, 2))
    before = checkpoint(run, 3, 5, recorded=(0, 2))
    newest = checkpoint(run, 3, 7, recorded=(0, 2, 6))
    assert find_resume_point(run, 4).checkpoint == newest
    # Somebody's editor has torn a line.
    third = attempt_file(run.records, 3)
    head, six, eight = third.read_text().splitlines()
    third.write_text("\n".join([head, six[:30], eight, ""]))
    start = find_resume_point(run, 4)
    assert start.checkpoint == before
    (loss,) = start.losses
    assert loss == (
        f"the checkpoint of step 7 in {newest} is passed over, to take records again that are "
        "lost: of step 6; training goes on from step 5"
    )
    # All of an earlier attempt: the only whole beginning is the very first.
    attempt_file(run.records, 1).unlink()
    assert find_resume_point(run, 4).step == 0
    assert older.exists()


def test_a_checkpoint_in_another_ones_place_is_passed_over(run: RunPaths) -> None:
    checkpoint(run, 3, 7, said=6)
    unlisted = checkpoint(run, 3, 8, whole=False)
    (unlisted / CHECKPOINT_PROGRESS).rename(run.root / "away")
    complete(unlisted)
    assert (unlisted / CHECKPOINT_FILES).exists()
    start = find_resume_point(run, 4)
    assert start.step == 0
    assert [loss.partition(" is broken: ")[2] for loss in start.losses] == [
        f"{CHECKPOINT_FILES} does not list {CHECKPOINT_PROGRESS}; training goes on from step 0",
        "it is that of step 6; training goes on from step 0",
    ]
