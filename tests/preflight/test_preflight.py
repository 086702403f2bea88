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


@pytest.mark.parametrize(
    ("task", "package"),
    [("reasoning_gym", "reasoning_gym"), ("math", "math_verify"), ("math", "pyarrow")],
)
def test_a_tasks_missing_package_is_named(
    task: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PreflightError) as caught:
        checked(f"task={task}")
    assert f"missing: the package {package}" in str(caught.value)
    assert "pip install 'isosweep[train]'" in str(caught.value)
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
    axes = "grid.axes={task.num_eval_problems:[4,8]}"
    with pytest.raises(PreflightError) as caught:
        checked("task=math", axes)
    assert str(caught.value).count(what) == 1
    (tmp_path / "cache" / "openai___gsm8k" / "main" / "0.0.0" / "hash").mkdir(parents=True)
    with pytest.raises(PreflightError) as caught:
        checked("task=math", axes)
    assert what not in str(caught.value)


def test_problems_are_drawn_before_anything_is_launched(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    checked(*math_overrides(path))
    axes = "grid.axes={task.num_eval_problems:[4,100]}"
    with pytest.raises(SettingError, match=r"asks for 108 distinct problems"):
        checked(*math_overrides(path, axes))


@pytest.mark.parametrize(
    ("overrides", "lacks", "remedy"),
    [
        (
            ("hardware.optimizer=adamw_torch_8bit",),
            "the package torchao",
            "pip install torchao, or set hardware.optimizer=adamw",
        ),
        (
            ("model=qwen-0.5b", "hardware.attention=flash_attention_2"),
            "the package flash_attn",
            "set hardware.attention=sdpa",
        ),
        # The first rank reads 7.6e9 float32 weights, beside the memory of eight.
        (
            (
                *("model=qwen-7b", "hardware.devices_per_run=8", "hardware.sharding=fsdp"),
                *("launcher=slurm", "launcher.slurm.mem_gb=30"),
            ),
            "34.5 GB of host memory in each job, which asks for 30",
            "launcher.slurm.mem_gb=116",
        ),
        (
            ("model=qwen-72b", "hardware.devices_per_run=8", "hardware.sharding=fsdp"),
            "294.8 GB of host memory to load a run",
            "a machine with more memory",
        ),
    ],
)
def test_what_training_lacks_is_said_before_it_starts(
    overrides: tuple[str, ...], lacks: str, remedy: str
) -> None:
    with pytest.raises(PreflightError) as caught:
        checked(*overrides)
    assert lacks in str(caught.value)
    assert remedy in str(caught.value)


def test_tracking_in_wandb_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(PreflightError, match=r"package wandb\n.*'isosweep\[wandb\]'"):
        checked("tracking=wandb")
