"""What a plan cannot use, or has no room for, is refused before anything is launched."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.files import read_json, write_json
from isosweep.modes.sweeps import places_of, read_sweep, store_plan, sweep_paths
from isosweep.plan.study import Study, resolve
from isosweep.preflight.plan import require_disk, require_search
from isosweep.store.checkpoints import complete
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import ended

# 27 runs of 18.5 GB.
QWEN = (
    *("model=qwen-1.5b", "recipe=isocompute_easy", "hardware=h100", "budget=1e20"),
    *("grid.seeds=[0]", "launcher.max_parallel=8"),
)
Usage = namedtuple("Usage", ("total", "used", "free"))


def study_in(root: Path, *overrides: str) -> Study:
    return resolve(make_config(*QWEN, f"sweeps_dir={root / 'sweeps'}", *overrides))


def refusal(free: float, root: Path, *overrides: str) -> str:
    """What is said of a sweep with so many bytes free; nothing: it finds room."""
    study = study_in(root, *overrides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))
        try:
            require_disk(study, sweep_paths(study), places_of(study))
        except SettingError as error:
            return str(error)
    return ""


def test_the_checkpoints_find_room_or_are_refused_with_how_much_they_take(tmp_path: Path) -> None:
    # 500 GB, and 18.5 GB more for each of eight that train.
    assert not refusal(660e9, tmp_path)
    refused = refusal(600e9, tmp_path)
    assert refused.startswith(f"sweeps_dir={tmp_path / 'sweeps'}: has ")
    rule = "27 runs, 8 at once, take up to 648 GB more (checkpoint.keep=resumable: 18.5 GB each)"
    assert rule in refused
    assert refused.endswith("works: sweeps_dir=DIRECTORY on a disk with 648 GB free")
    for fewer in ("launcher.max_parallel=5", "checkpoint.keep=weights"):
        assert not refusal(600e9, tmp_path, fewer)


def with_checkpoint(run: RunPaths, size: float) -> None:
    """A complete checkpoint of `size` bytes, by its own list of files."""
    checkpoint = run.attempt_checkpoints(1) / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    complete(checkpoint)
    document = read_json(checkpoint / CHECKPOINT_FILES)
    assert document is not None
    files = {"model.safetensors": int(size)}
    write_json(checkpoint / CHECKPOINT_FILES, {**document, "files": files})


def test_a_run_takes_what_it_has_not_there_already_and_nothing_once_it_has_ended(
    tmp_path: Path,
) -> None:
    study = study_in(tmp_path)
    store_plan(study, sweep_paths(study))
    sweep = read_sweep(sweep_paths(study).root)
    size = study.plan.runs[0].checkpoint_bytes
    for place in range(20):
        # Of a smaller budget, or interrupted: it goes on from its checkpoint.
        run = (
            ended(sweep, place, share=0.5)
            if place % 2
            else sweep.paths.run(sweep.plan.runs[place].run_id)
        )
        with_checkpoint(run, size)
    # 7 that have none yet, and the one being written of each of 8.
    assert "27 runs, 8 at once, take up to 278 GB more" in refusal(270e9, tmp_path)
    assert not refusal(280e9, tmp_path)
    # Of runs that plan a single checkpoint the one that is there stays until that is written.
    once = ("checkpoint.min_interval_s=1e6", "checkpoint.max_interval_s=1e6")
    assert "27 runs, 8 at once, take up to 278 GB more" in refusal(270e9, tmp_path, *once)
    # With fewer left of each than is there, nothing is counted on before it is free.
    assert "take up to " in refusal(140e9, tmp_path, "checkpoint.keep=none")
    ended(sweep, 26)
    assert "26 runs, 8 at once, take " in refusal(150e9, tmp_path)


SEARCH = (*SMALL, "budget=[6.4e9,1.28e10]", "search=frontier")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("search.max_compute=6.4e9",), ""),
        (("search.max_compute=1",), r"=1: the cheapest.* 6\.4e\+09 .*compute=6\.4e\+09$"),
        (
            ("search.max_compute=6.4e9", "grid.axes={recipe.num_iterations:[1,2]}"),
            r"2 variants have equal parts.*compute=1\.28e\+10$",
        ),
        (("search.storage='foo://bar'",), r"foo://bar: cannot be opened \(Can't load plugin"),
        (("search.storage='sqlite:////no/such/directory/x.db'",), "/directory is no directory"),
        (
            ("search.storage='postgresql+nosuch://user:secret@host/db'",),
            r"user:\*\*\*@host/db: cannot be opened",
        ),
    ],
)
def test_what_a_search_cannot_use_is_refused(overrides: tuple[str, ...], said: str) -> None:
    study = resolve(make_config(*SEARCH, *overrides))
    if not said:
        require_search(study)
        return
    with pytest.raises(SettingError, match=said):
        require_search(study)
