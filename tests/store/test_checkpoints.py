"""Which checkpoints of an attempt are complete, in which order, and how large they are."""

from pathlib import Path

from isosweep.store.checkpoints import complete, complete_bytes, newest
from isosweep.store.paths import CHECKPOINT_PROGRESS, RunPaths


def test_an_attempt_goes_back_to_its_newest_complete_checkpoint_first(tmp_path: Path) -> None:
    run, start = RunPaths(tmp_path / "run"), tmp_path / "start"
    own = run.attempt_checkpoints(1)
    for step in (9, 10, 11):
        checkpoint = own / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / CHECKPOINT_PROGRESS).write_text("{}")
        if step != 11:
            complete(checkpoint)
    assert newest(run, 1, start) == [own / "checkpoint-10", own / "checkpoint-9", start]
    assert complete_bytes(run) == 2 * len("{}")
