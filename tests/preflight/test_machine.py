"""What a machine lacks is reported before anything is launched."""

import sys
from pathlib import Path

import pytest

from isosweep.difficulty.selection import choose_variants
from isosweep.errors import PreflightError, SettingError
from isosweep.launchers.sbatch import gpus_of_node
from isosweep.preflight.machine import missing_devices, preflight
from tests.conftest import make_config
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
        ("task=reasoning_gym", "reasoning_gym", TRAIN),
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
    checked()


def test_without_hub_and_cache_a_language_model_is_told_what_to_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    with pytest.raises(SettingError) as caught:
        checked("task=math")
    message = str(caught.value)
    assert message.startswith("task.math.dataset=openai/gsm8k: datasets cannot load split 'train'")
    for choice in (
        "datasets.load_dataset('openai/gsm8k', 'main')",
        "task.math.dataset=null task.math.path=FILE.jsonl",
        "task=reasoning_gym",
    ):
        assert choice in message


def test_problems_are_drawn_before_anything_is_launched(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    checked(*math_overrides(path))
    axes = "grid.axes={task.num_eval_problems:[4,100]}"
    with pytest.raises(SettingError, match=r"asks for 108 distinct problems"):
        checked(*math_overrides(path, axes))


def test_host_memory_that_is_not_there_is_named_before_a_run_loads() -> None:
    eight = ("hardware.devices_per_run=8", "hardware.sharding=fsdp")
    said = lacking("model=qwen-72b", *eight)
    assert "294.8 GB of host memory to load a run" in said
    assert "a machine with more memory" in said
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
        (("launcher.slurm.gpus_per_node=0",), 0, True),
        (("+launcher.slurm.additional.gres='gpu:h100:1'",), 0, False),
        (("+launcher.slurm.additional.gpus-per-task=1",), 0, False),
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
