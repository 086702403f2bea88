"""Nothing is appended, and no checkpoint removed, through a link."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.files import append_line, open_to_append, write_json
from isosweep.search.study import _mend
from isosweep.store.checkpoints import keep_only, keep_weights
from isosweep.store.paths import RunPaths
from isosweep.store.records import append_metrics


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "runs" / "r")
    run.root.mkdir(parents=True)
    return run


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of somebody's, with a file and a checkpoint of their own in it."""
    path = tmp_path / "foreign"
    (path / "checkpoint-500").mkdir(parents=True)
    (path / "checkpoint-500" / "w").write_text("weights")
    (path / "notes.jsonl").write_text("mine, and no line's end")
    return path


# What is appended to, by the link that somebody has put in its place.
APPENDS: dict[str, Callable[[RunPaths], object]] = {
    "metrics/1.jsonl": lambda run: append_metrics(run.metrics, 1, {"step": 1}),
    "notes.jsonl": lambda run: append_line(run.root / "notes.jsonl", {}, sync=False),
    "worker.out": lambda run: open_to_append(run.root / "worker.out"),
    "journal": lambda run: _mend(run.root / "journal"),
}


@pytest.mark.parametrize("place", APPENDS)
def test_nothing_is_appended_to_what_a_link_leads_to(
    place: str, run: RunPaths, foreign: Path
) -> None:
    link = run.root / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(foreign / "notes.jsonl")
    with pytest.raises(OSError, match=re.escape(str(link))) as refused:
        APPENDS[place](run)
    assert refused.value.errno == errno.ELOOP
    assert (foreign / "notes.jsonl").read_text() == "mine, and no line's end"


def test_a_link_in_the_place_of_a_document_is_replaced(run: RunPaths, foreign: Path) -> None:
    run.spec.symlink_to(foreign / "notes.jsonl")
    write_json(run.spec, {})
    assert not run.spec.is_symlink()
    assert (foreign / "notes.jsonl").read_text() == "mine, and no line's end"


def test_checkpoints_behind_links_are_not_removed(run: RunPaths, foreign: Path) -> None:
    run.checkpoints.mkdir()
    (run.checkpoints / "1").symlink_to(foreign)
    (run.checkpoints / "2").mkdir()
    (run.checkpoints / "2" / "checkpoint-1").symlink_to(foreign / "checkpoint-500")
    keep_only(run, 3, ())
    assert (foreign / "checkpoint-500" / "w").read_text() == "weights"


def test_only_checkpoints_are_removed_from_among_checkpoints(run: RunPaths) -> None:
    own = run.attempt_checkpoints(1)
    for name in ("checkpoint-5", "checkpoint-best", "mine"):
        (own / name).mkdir(parents=True)
    (run.checkpoints / "2" / "checkpoint-7").mkdir(parents=True)
    (run.checkpoints / "2" / "README.md").write_text("the trainer's")
    keep_only(run, 2, ())
    assert {path.name for path in own.iterdir()} == {"checkpoint-best", "mine"}
    assert not (run.checkpoints / "2").exists()


def test_a_kept_checkpoint_leaves_what_a_link_in_it_leads_to(run: RunPaths, foreign: Path) -> None:
    checkpoint = run.attempt_checkpoints(1) / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "optimizer.pt").symlink_to(foreign / "notes.jsonl")
    (checkpoint / "optimizer_0").symlink_to(foreign)
    (checkpoint / "model.safetensors").write_text("w")
    keep_weights(checkpoint)
    assert {path.name for path in checkpoint.iterdir()} == {"model.safetensors"}
    assert (foreign / "notes.jsonl").exists()
    assert (foreign / "checkpoint-500" / "w").exists()
