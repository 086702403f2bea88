"""Bytes of checkpoints, planned, against files of real ones."""

from pathlib import Path
from typing import get_args

import pytest

from isosweep.config.base import replaced
from isosweep.config.study import CheckpointConfig, Keep
from isosweep.costs.checkpoints import (
    CheckpointBytes,
    checkpoint_bytes,
    peak_bytes,
    run_bytes,
    written,
)
from tests.conftest import make_config

ONE = CheckpointBytes(weights=6e9, optimizer=12e9)


def planned(*overrides: str) -> CheckpointBytes:
    config = make_config(*overrides)
    return checkpoint_bytes(config.model.architecture, config.recipe, config.hardware)


def test_weights_and_both_moments_are_counted_once_however_many_devices() -> None:
    model = make_config("model=qwen-1.5b").model.architecture
    one = planned("model=qwen-1.5b", "hardware=h100", "budget=1e20")
    assert one.weights == model.parameters * 4
    assert one.total == model.parameters * 12
    shared = ("hardware.devices_per_run=8", "hardware.sharding=fsdp")
    parts = planned("model=qwen-1.5b", "hardware=h100", "budget=1e20", *shared)
    assert parts.optimizer == one.optimizer
    # A head that is the embedding has two names, and its parts lie under both.
    assert parts.weights == one.weights + 4 * model.embedding_weights


@pytest.mark.train
@pytest.mark.parametrize("rank", [None, 4])
def test_a_real_checkpoint_has_the_planned_size(rank: int | None, tmp_path: Path) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    from isosweep.models.weights import weights
    from isosweep.plan.spec import run_spec
    from isosweep.training.arguments import adapters
    from isosweep.training.policy import load_policy

    config = make_config(f"recipe.lora_rank={rank or 'null'}")
    spec = run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=16)
    model, _ = load_policy(spec, str(weights(spec.model)))
    if rank is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapters(spec))
    arguments = TrainingArguments(
        str(tmp_path), use_cpu=True, report_to="none", optim="adamw_torch"
    )
    trainer = Trainer(model, arguments)
    trainer.create_optimizer_and_scheduler(1)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    trainer.optimizer.step()
    trainer._save_checkpoint(model, None)
    one = planned(f"recipe.lora_rank={rank or 'null'}")
    directory = tmp_path / "checkpoint-0"
    weight_file = "model" if rank is None else "adapter_model"
    # Headers of small files: a name and a shape a tensor.
    headers = 2000 + 1500 * sum(weight.requires_grad for weight in model.parameters())
    found = (directory / f"{weight_file}.safetensors").stat().st_size
    assert one.weights <= found <= one.weights + headers
    found = (directory / "optimizer.pt").stat().st_size
    assert one.optimizer <= found <= one.optimizer + headers


def test_a_run_writes_by_its_share_of_time_and_keeps_what_is_asked() -> None:
    config = CheckpointConfig(keep="all")
    # 9 s at 2 GB/s, so every 450 s; an hour has 8, and the last.
    assert written(ONE, config, seconds=3600, num_steps=10_000) == 9
    assert written(ONE, config, seconds=3600, num_steps=3) == 4
    small = CheckpointBytes(weights=1e6, optimizer=2e6)
    assert written(small, config, seconds=3600, num_steps=10_000) == 121
    left = {keep: run_bytes(ONE, replaced(config, keep=keep), 9) for keep in get_args(Keep)}
    assert [left[keep].kept for keep in ("all", "resumable", "weights", "none")] == [
        *(162e9, 18e9),
        *(6e9, 0.0),
    ]
    assert [left[keep].running for keep in ("all", "resumable", "none")] == [162e9, 36e9, 36e9]
    assert [run_bytes(ONE, CheckpointConfig(), count).running for count in (1, 3)] == [18e9, 36e9]


def test_the_peak_is_of_the_largest_runs_last() -> None:
    config = CheckpointConfig()
    runs = [run_bytes(ONE, config, 9)] * 3 + [
        run_bytes(CheckpointBytes(weights=1, optimizer=2), config, 9)
    ]
    assert peak_bytes(runs, 2) == 3 * 18e9 + 3 + 2 * 18e9
    assert peak_bytes(runs, 9) == 3 * 36e9 + 6
