"""Below a run nothing is written through a link, and nothing is removed through one."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from isosweep.analysis.figures.draw_matplotlib import write_figures
from isosweep.errors import RecordError
from isosweep.files import (
    append_line,
    open_to_append,
    read_json,
    read_lines,
    remove_tree,
    write_json,
)
from isosweep.search.study import _mend
from isosweep.store.checkpoints import keep_only, keep_weights, remove
from isosweep.store.paths import RunPaths, require_plain
from isosweep.store.records import append_metrics, attempt_file
from isosweep.store.state import claim_attempt
from isosweep.store.submissions import submit
from isosweep.tracking.artifacts import Artifacts

LINK = "is a link, which is not followed"


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


# Where somebody has put a link, to what of `foreign` it leads, and what would be written there.
WRITES: dict[str, tuple[str, str, Callable[[RunPaths], object]]] = {
    "metrics": (
        "metrics/1.jsonl",
        "notes.jsonl",
        lambda run: append_metrics(run.metrics, 1, {"step": 1}),
    ),
    "a line": (
        "records",
        "",
        lambda run: append_line(run.records / "notes.jsonl", {}, sync=False, below=run.root),
    ),
    "a document": (
        "records",
        "",
        lambda run: write_json(run.records / "notes.jsonl", {}, below=run.root),
    ),
    "a file to append to": (
        "records",
        "",
        lambda run: open_to_append(run.records / "notes.jsonl", run.root),
    ),
    "an attempt": ("attempts", "", lambda run: claim_attempt(run, None)),
    "a submission": ("submissions", "", lambda run: submit(run, "local", {}, "s", "b")),
    "figures": ("figures", "", lambda run: write_figures({}, run.root / "figures", ["png"])),
    "a search's journal": ("journal", "notes.jsonl", lambda run: _mend(run.root / "journal")),
}


@pytest.mark.parametrize("what", WRITES)
def test_nothing_is_written_to_what_a_link_leads_to(
    what: str, run: RunPaths, foreign: Path
) -> None:
    place, leads_to, write = WRITES[what]
    link = run.root / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(foreign / leads_to)
    (foreign / "holiday.png").write_bytes(b"mine")
    with pytest.raises(OSError, match=LINK) as refused:
        write(run)
    assert refused.value.filename == str(link)
    assert (foreign / "notes.jsonl").read_text() == "mine, and no line's end"
    names = {path.name for path in foreign.iterdir()}
    assert names == {"checkpoint-500", "holiday.png", "notes.jsonl"}


def test_checkpoints_behind_links_are_not_removed(run: RunPaths, foreign: Path) -> None:
    run.checkpoints.mkdir()
    (run.checkpoints / "1").symlink_to(foreign)
    (run.checkpoints / "2").mkdir()
    (run.checkpoints / "2" / "checkpoint-1").symlink_to(foreign / "checkpoint-500")
    keep_only(run, 3, ())
    remove(run.checkpoints / "1" / "checkpoint-500")
    remove(run.checkpoints / "2" / "checkpoint-1")
    for checkpoint in ("1/checkpoint-500", "2/checkpoint-1"):
        with pytest.raises(OSError, match=LINK):
            keep_weights(run.checkpoints / checkpoint)
    with pytest.raises(OSError, match=LINK):
        remove_tree(run.checkpoints / "1" / "checkpoint-500", run.root)
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


def test_a_run_with_a_link_in_it_is_not_trained(run: RunPaths, foreign: Path) -> None:
    require_plain(run)
    place = run.attempt_checkpoints(2) / "checkpoint-50"
    place.mkdir(parents=True)
    (place / "model.safetensors").symlink_to(foreign / "notes.jsonl")
    with pytest.raises(RecordError, match=rf"model\.safetensors: {LINK}"):
        require_plain(run)
    elsewhere = RunPaths(run.root.parent / "linked")
    elsewhere.root.symlink_to(foreign)
    with pytest.raises(RecordError, match=LINK):
        require_plain(elsewhere)


def test_a_directory_of_runs_that_is_a_link_is_its_users_own_choice(
    run: RunPaths, tmp_path: Path
) -> None:
    (tmp_path / "other").symlink_to(run.root.parent)
    same = RunPaths(tmp_path / "other" / "r")
    append_metrics(same.metrics, 1, {"step": 1})
    assert json.loads(attempt_file(run.metrics, 1).read_text())["step"] == 1
    require_plain(same)
    assert os.listdir(run.metrics) == ["1.jsonl"]  # noqa: PTH208


class Kept:
    """A client of MLflow whose runs' artifacts lie where it is told."""

    def __init__(self, place: Path) -> None:
        self.info = SimpleNamespace(artifact_uri=place.as_uri())

    def get_run(self, _: str) -> "Kept":
        return self


def test_artifacts_are_not_written_behind_a_link(tmp_path: Path, foreign: Path) -> None:
    def put(name: str, place: Path) -> None:
        Artifacts(Kept(place), "run", None, shared=False).put(name, b"new")

    place = tmp_path / "mlartifacts" / "run" / "artifacts"
    put("report.html", place)
    assert (place / "report.html").read_bytes() == b"new"
    (place / "report.html").unlink()
    (place / "report.html").symlink_to(foreign / "notes.jsonl")
    put("report.html", place)
    assert (place / "report.html").read_bytes() == b"new"
    (place / "figures").symlink_to(foreign)
    (tmp_path / "mlartifacts" / "other").symlink_to(foreign)
    for name, at in (("figures/a", place), ("a", tmp_path / "mlartifacts" / "other" / "artifacts")):
        with pytest.raises(OSError, match=LINK):
            put(name, at)
    assert {path.name for path in foreign.iterdir()} == {"checkpoint-500", "notes.jsonl"}
    assert (foreign / "notes.jsonl").read_text() == "mine, and no line's end"
    (tmp_path / "config.json").symlink_to(foreign / "notes.jsonl")
    with pytest.raises(OSError, match=LINK):
        Artifacts(Kept(place), "run", None, shared=False).add(tmp_path / "config.json")


def test_a_pipe_or_a_device_in_the_place_of_a_file_holds_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.json")
    (tmp_path / "2.json").symlink_to("/dev/zero")
    assert [*read_lines(tmp_path / "1.json")] == []
    writer = os.open(tmp_path / "1.json", os.O_RDWR)
    try:
        for name in ("1.json", "2.json"):
            with pytest.raises(ValueError, match="EOF"):
                read_json(tmp_path / name)
    finally:
        os.close(writer)
