"""Memory that is held throughout and files of checkpoints, against real steps and real files."""

from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from isosweep.config.model import adapter_weights, architecture_from_config
from isosweep.config.study import CheckpointConfig, Keep
from isosweep.config.sweep import SweepConfig
from isosweep.costs.memory import (
    PROCESS_BYTES,
    CheckpointBytes,
    StateBytes,
    checkpoint_bytes,
    host_bytes,
    kv_bytes_per_token,
    peak_bytes,
    run_bytes,
    state_bytes,
)
from tests.conftest import make_config
from tests.models.families import configuration, language_model

QWEN = ("model=qwen-1.5b", "hardware=h100", "budget=1e20")
EIGHT = ("hardware.devices_per_run=8", "hardware.sharding=fsdp")
ONE = CheckpointBytes(weights=6e9, optimizer=12e9)


def settings_of(config: SweepConfig) -> tuple[Any, Any, Any]:
    return config.model.architecture, config.recipe, config.hardware


def state(*overrides: str) -> StateBytes:
    return state_bytes(*settings_of(make_config(*QWEN, *overrides)))


def test_weights_gradients_states_and_cache_are_what_a_step_holds() -> None:
    import torch

    torch.manual_seed(0)
    made = configuration("Qwen3", num_hidden_layers=2, attn_implementation="sdpa")
    model, arch = language_model(made), architecture_from_config(made.to_dict())
    optimizer = torch.optim.AdamW(model.parameters())
    made = model(input_ids=torch.randint(0, 80, (3, 8)), use_cache=True)
    made.logits.sum().backward()
    optimizer.step()

    def size(tensors: Any) -> int:
        return sum(t.numel() * t.element_size() for t in tensors)

    config = make_config()
    planned = state_bytes(arch, config.recipe, config.hardware)
    # Norms of a model this small are a thousandth of it, and are not planned.
    near = partial(pytest.approx, rel=2e-3)
    assert planned.weights == near(size(model.parameters()))
    assert planned.gradients == near(size(p.grad for p in model.parameters()))
    states = [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
    assert planned.optimizer == near(size(states))
    cache = [t for layer in made.past_key_values.layers for t in (layer.keys, layer.values)]
    assert 3 * 8 * kv_bytes_per_token(arch, "float32") == size(cache)


def test_precisions_references_and_shards_are_those_that_trl_holds() -> None:
    arch = make_config(*QWEN).model.architecture
    # 4 weights + 4 gradients + 8 optimiser states, or half of it.
    assert state().total == 16 * arch.parameters
    assert state("hardware.weights_dtype=bfloat16").total == 8 * arch.parameters
    assert state(*EIGHT).total == 2 * arch.parameters
    # TRL loads the reference in the policy's precision, and with LoRA none.
    half = state("recipe.beta=0.01", "hardware.weights_dtype=bfloat16")
    assert half.reference == 2 * arch.parameters
    lora = state("recipe.beta=0.01", "recipe.lora_rank=16")
    assert lora.total == 2 * arch.parameters + 16 * adapter_weights(arch, 16)
    eight_bit = state("hardware.optimizer=adamw_torch_8bit")
    assert eight_bit.optimizer == pytest.approx((2 + 8 / 256) * arch.parameters)


def test_the_first_rank_of_fsdp_reads_the_weights() -> None:
    config = make_config(*QWEN, *EIGHT)
    arch = config.model.architecture
    assert host_bytes(*settings_of(config)) == 8 * PROCESS_BYTES + 4 * arch.parameters
    penalised = make_config(*QWEN, *EIGHT, "recipe.beta=0.1")
    assert host_bytes(*settings_of(penalised)) == 8 * PROCESS_BYTES + 8 * arch.parameters


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
    one = checkpoint_bytes(*settings_of(config))
    # Headers of small files: a name and a shape a tensor.
    headers = 2000 + 1500 * sum(weight.requires_grad for weight in model.parameters())
    weight_file = "model" if rank is None else "adapter_model"
    sizes = {f"{weight_file}.safetensors": one.weights, "optimizer.pt": one.optimizer}
    for name, planned in sizes.items():
        found = (tmp_path / "checkpoint-0" / name).stat().st_size
        assert planned <= found <= planned + headers


def test_a_run_keeps_what_is_asked_and_the_largest_are_the_last_to_run() -> None:
    hour: dict[str, Any] = {"seconds": 3600.0, "num_steps": 10_000}
    left = {keep: run_bytes(ONE, CheckpointConfig(keep=keep), **hour) for keep in get_args(Keep)}
    # 9 s at 2 GB/s, so every 450 s; an hour has 8, and the last.
    kept = {"all": 162e9, "resumable": 18e9, "weights": 6e9, "none": 0.0}
    assert {keep: each.kept for keep, each in left.items()} == kept
    assert {each.running for each in left.values()} == {162e9, 36e9}
    small = run_bytes(CheckpointBytes(weights=1, optimizer=2), CheckpointConfig(), **hour)
    runs = [left["resumable"]] * 3 + [small]
    assert peak_bytes(runs, 2) == 3 * 18e9 + 3 + 2 * 18e9
    assert peak_bytes(runs, 9) == 3 * 36e9 + 6
