"""What a machine lacks, or a plan cannot use, is refused before anything is launched."""

import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from isosweep.difficulty.selection import choose_variants
from isosweep.errors import PreflightError, SettingError
from isosweep.files import read_json, write_json
from isosweep.launchers.sbatch import gpus_of_node
from isosweep.modes.sweeps import places_of, read_sweep, store_plan, sweep_paths
from isosweep.plan.study import Study, resolve
from isosweep.preflight.machine import missing_devices, preflight
from isosweep.preflight.plan import require_disk, require_search
from isosweep.store.checkpoints import complete
from isosweep.store.paths import CHECKPOINT_FILES, RunPaths
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import ended
from tests.tasks.files import ROWS, math_overrides, write_rows


def checked(*overrides: str) -> None:
    config = make_config(*overrides)
    preflight(config, choose_variants(config))


def lacking(*overrides: str) -> str:
    with pytest.raises(PreflightError) as caught:
        checked(*overrides)
    return str(caught.value)


TRAIN = "pip install 'isosweep[train]'"


@pytest.mark.parametrize(
    ("overrides", "package", "remedy"),
    [
        ("task=math", "math_verify", TRAIN),
        ("recipe.lora_rank=4", "peft", TRAIN),
        ("search=frontier", "optuna", TRAIN),
        ("tracking=wandb", "wandb", "pip install 'isosweep[wandb]'"),
        ("hardware.optimizer=adamw_torch_8bit", "torchao", "or set hardware.optimizer=adamw"),
        (
            *("model=qwen-0.5b hardware.attention=flash_attention_2", "flash_attn"),
            "set hardware.attention=sdpa",
        ),
    ],
)
def test_a_missing_package_is_named_with_what_to_do(
    overrides: str, package: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = lacking(*overrides.split())
    assert f"missing: the package {package}\n" in said
    assert remedy in said


def test_problems_are_drawn_before_anything_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked()
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    checked(*math_overrides(path))
    axes = "grid.axes={task.num_eval_problems:[4,100]}"
    with pytest.raises(SettingError, match=r"asks for 108 distinct problems"):
        checked(*math_overrides(path, axes))
    # Without hub and cache there are none.
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    with pytest.raises(SettingError, match=r"datasets cannot load split 'train'") as caught:
        checked("task=math")
    assert "task.math.dataset=null task.math.path=FILE.jsonl" in str(caught.value)


def test_host_memory_that_is_not_there_is_named_before_a_run_loads() -> None:
    eight = ("hardware.devices_per_run=8", "hardware.sharding=fsdp")
    said = lacking("model=qwen-72b", *eight)
    assert "294.8 GB of host memory to load a run" in said
    # The first rank reads 7.6e9 float32 weights, beside the memory of eight.
    said = lacking("model=qwen-7b", *eight, "launcher=slurm", "launcher.slurm.mem_gb=30")
    assert "34.5 GB of host memory in each job, which asks for 30" in said
    assert "launcher.slurm.mem_gb=116" in said


GPU = ("model=qwen-0.5b", "hardware=h100", "generation=transformers")
PAIR = ("hardware.devices_per_run=2", "hardware.sharding=fsdp")
MIG = "MIG-GPU-8932f937/1/0,MIG-GPU-8932f937/2/0"


@pytest.mark.parametrize(
    ("visible", "overrides", "missing", "remedy"),
    [
        ("4,5,6,7", PAIR, "", ""),
        ("4", PAIR, "2 GPUs for a run, of 1 here", "set hardware.devices_per_run=1"),
        ("NoDevFiles", (), "a GPU (h100) on this machine", "run on a GPU machine"),
        (MIG, PAIR, "2 GPUs that one run can see", "set hardware.devices_per_run=1"),
        ("4,5", ("launcher.max_parallel=2",), "", ""),
        (
            *("4,5", ("launcher.max_parallel=3",), "GPUs for 3 runs at once, 1 each, of 2 here"),
            "set launcher.max_parallel=2",
        ),
    ],
)
def test_gpus_that_are_missing_are_named_with_the_inherited_list(
    visible: str,
    overrides: tuple[str, ...],
    missing: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isosweep.devices._driver_devices", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = missing_devices(make_config(*GPU, *overrides))
    assert len(found) == bool(missing)
    for what, do in found:
        assert what.startswith(missing)
        assert f"CUDA_VISIBLE_DEVICES={visible}" in what
        assert do.startswith(remedy)


@pytest.mark.parametrize(
    ("overrides", "asked", "lacks"),
    [
        (PAIR, 2, False),
        ((*PAIR, "launcher.slurm.gpus_per_node=1"), 1, True),
        (("hardware.devices_per_run=16", "hardware.sharding=fsdp"), 8, False),
        (("+launcher.slurm.additional.gres='gpu:h100:1'",), 0, False),
        (("+launcher.slurm.additional.gres='nvme:1'",), 1, False),
    ],
)
def test_a_slurm_job_asks_for_the_gpus_of_its_run(
    overrides: tuple[str, ...], asked: int, lacks: bool
) -> None:
    config = make_config(*GPU, "launcher=slurm", *overrides)
    assert gpus_of_node(config) == asked
    needed = config.hardware.node_devices
    rule = f"{needed} GPUs in what each job asks for, which is {asked}"
    assert [what for what, _ in missing_devices(config)] == ([rule] if lacks else [])


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
    for place in range(20):
        run = sweep.paths.run(sweep.plan.runs[place].run_id)
        # Of a smaller budget, or interrupted: it goes on from its checkpoint.
        with_checkpoint(
            ended(sweep, place, share=0.5) if place % 2 else run,
            study.plan.runs[0].checkpoint_bytes,
        )
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
        (("search.max_compute=1",), r"=1: the cheapest.* 6\.4e\+09 .*compute=6\.4e\+09$"),
        (
            ("search.max_compute=6.4e9", "grid.axes={recipe.num_iterations:[1,2]}"),
            r"2 variants have equal parts.*compute=1\.28e\+10$",
        ),
    ],
)
def test_what_a_search_cannot_use_is_refused(overrides: tuple[str, ...], said: str) -> None:
    require_search(resolve(make_config(*SEARCH, "search.max_compute=6.4e9")))
    with pytest.raises(SettingError, match=said):
        require_search(resolve(make_config(*SEARCH, *overrides)))
