"""What a machine lacks is reported before anything is launched."""

import sys
from pathlib import Path

import pytest

from isosweep.difficulty.variants import choose_variants
from isosweep.errors import PreflightError, SettingError
from isosweep.preflight.machine import preflight
from tests.conftest import make_config
from tests.tasks.files import ROWS, math_overrides, write_rows


def checked(*overrides: str) -> None:
    config = make_config(*overrides)
    preflight(config, choose_variants(config))


def lacking(*overrides: str) -> str:
    with pytest.raises(PreflightError) as caught:
        checked(*overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "package", "remedy"),
    [
        ("task=reasoning_gym", "reasoning_gym", "pip install 'isosweep[train]'"),
        ("task=math", "math_verify", "pip install 'isosweep[train]'"),
        ("task=math", "pyarrow", "pip install 'isosweep[train]'"),
        ("recipe.lora_rank=4", "peft", "pip install 'isosweep[train]'"),
        ("search=frontier", "optuna", "pip install 'isosweep[train]'"),
        ("tracking=wandb", "wandb", "pip install 'isosweep[wandb]'"),
        (
            "hardware.optimizer=adamw_torch_8bit",
            "torchao",
            "pip install torchao, or set hardware.optimizer=adamw",
        ),
        (
            "model=qwen-0.5b hardware.attention=flash_attention_2",
            "flash_attn",
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


@pytest.fixture
def _no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.usefixtures("_no_hub")
def test_without_hub_and_cache_a_language_model_is_told_what_to_train_on() -> None:
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


@pytest.mark.usefixtures("_no_hub")
def test_a_missing_dataset_is_named_with_all_else_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    what = "missing: the dataset openai/gsm8k in the local cache"
    asked = ("task=math", "grid.axes={task.num_eval_problems:[4,8]}")
    assert lacking(*asked).count(what) == 1
    (tmp_path / "cache" / "openai___gsm8k" / "main" / "0.0.0" / "hash").mkdir(parents=True)
    assert what not in lacking(*asked)


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
