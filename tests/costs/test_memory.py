"""Memory: against tensors that real models save, optimiser states that real steps allocate."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from isosweep.config.architecture import adapter_weights
from isosweep.config.hardware import Sharding
from isosweep.config.model_files import architecture_from_config
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import fit_memory
from isosweep.costs.memory import (
    kv_bytes_per_token,
    layer_activation_bytes,
    state_bytes,
    training_bytes,
)
from tests.conftest import make_config
from tests.costs.test_flops import FAMILIES, SIZES


@cache
def h200() -> SweepConfig:
    return make_config("model=qwen-1.5b")


def _model(family: str, layers: int) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    settings = {**SIZES, **FAMILIES[family], "num_hidden_layers": layers}
    settings["attn_implementation"] = "sdpa"
    config = getattr(transformers, f"{family}Config")(**settings)
    return getattr(transformers, f"{family}ForCausalLM")(config)


def _saved_bytes(model: Any, tokens: int) -> int:
    """Bytes of the distinct storages that a forward pass saves, the model's own left out."""
    import torch

    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(0, 80, (1, tokens))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model.model(input_ids=ids, use_cache=False).last_hidden_state.sum()
    del loss
    return sum(saved.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_saves_what_the_model_says(family: str, dtype: str) -> None:
    import torch

    tokens = 96
    # The difference between depths leaves embeddings, norms at the end and masks out.
    shallow, deep = (
        _saved_bytes(_model(family, layers).to(getattr(torch, dtype)), tokens) for layers in (1, 3)
    )
    arch = architecture_from_config(_model(family, 1).config.to_dict())
    predicted = tokens * layer_activation_bytes(arch, dtype)
    assert predicted == pytest.approx((deep - shallow) / 2, rel=0.1)


def test_weights_gradients_and_states_are_what_a_step_holds() -> None:
    import torch

    model = _model("Qwen2", 2)
    config = make_config()
    config = replace(
        config,
        model=replace(config.model, architecture=architecture_from_config(model.config.to_dict())),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    model(input_ids=torch.randint(0, 80, (1, 8))).logits.sum().backward()
    optimizer.step()

    def size(tensors: Any) -> int:
        return sum(t.numel() * t.element_size() for t in tensors)

    predicted = state_bytes(config.model.architecture, config.recipe, config.hardware)
    assert predicted.weights == size(model.parameters())
    assert predicted.gradients == size(p.grad for p in model.parameters())
    states = [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
    assert predicted.optimizer == size(states)
    assert predicted.autocast == predicted.reference == 0


def test_the_cache_is_what_generation_keeps() -> None:
    import torch

    model = _model("Qwen3", 2)
    tokens = 11
    with torch.no_grad():
        cache = model(input_ids=torch.randint(0, 80, (3, tokens)), use_cache=True).past_key_values
    expected = sum(
        t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values)
    )
    arch = architecture_from_config(model.config.to_dict())
    assert 3 * tokens * kv_bytes_per_token(arch, "float32") == expected


def test_stages_shard_what_their_paper_says() -> None:
    arch, recipe = h200().model.architecture, h200().recipe
    one = replace(h200().hardware, devices_per_run=1)
    whole = state_bytes(arch, recipe, one)
    # arXiv 1910.02054, figure 1, with float32 states instead of mixed ones.
    stages: tuple[tuple[Sharding, tuple[str, ...]], ...] = (
        ("ddp", ()),
        ("zero1", ("optimizer",)),
        ("zero2", ("optimizer", "gradients")),
    )
    for sharding, sharded in stages:
        hardware = replace(one, devices_per_run=8, sharding=sharding)
        part = state_bytes(arch, recipe, hardware)
        for name in ("weights", "gradients", "optimizer"):
            expected = getattr(whole, name) / (8 if name in sharded else 1)
            assert getattr(part, name) == expected
    last = state_bytes(arch, recipe, replace(one, devices_per_run=8, sharding="zero3"))
    assert last.total == whole.total / 8


def test_mixed_precision_holds_float32_weights_and_states() -> None:
    arch = h200().model.architecture
    state = state_bytes(arch, h200().recipe, h200().hardware)
    # 4 weights + 2 autocast copy + 4 gradients + 8 optimiser states.
    assert state.total == 18 * arch.parameters
    lean = state_bytes(arch, h200().recipe, replace(h200().hardware, weights_dtype="bfloat16"))
    assert lean.total == 8 * arch.parameters
    adapters = state_bytes(arch, replace(h200().recipe, lora_rank=16), h200().hardware)
    assert adapters.total == 2 * arch.parameters + 16 * adapter_weights(arch, 16)
    with_reference = state_bytes(arch, replace(h200().recipe, beta=0.01), h200().hardware)
    assert with_reference.total == 20 * arch.parameters


def test_adapters_have_the_parameters_that_peft_would_make() -> None:
    # Rank r on a map of (in, out) has r (in + out): Qwen2.5-1.5B, r = 16, all linear maps.
    h, q, kv, ff = 1536, 1536, 256, 8960
    per_layer = 16 * ((h + q) + 2 * (h + kv) + (q + h) + 2 * (h + ff) + (ff + h))
    assert adapter_weights(h200().model.architecture, 16) == 28 * per_layer


def _fit(config: SweepConfig, *completions: int, longest: float = 1024.0) -> Any:
    return fit_memory(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        prompt=72.0,
        completion=longest,
        completions=np.array(completions),
    )


def test_what_is_planned_fits_the_device() -> None:
    capacity = h200().hardware.memory_gb * 1e9 * (1 - h200().hardware.memory_reserve)
    arch = h200().model.architecture
    state = state_bytes(arch, h200().recipe, h200().hardware).total
    for length in (256.0, 1024.0, 8192.0, 32768.0):
        fit = _fit(h200(), 256, 4096, 65536, longest=length)
        assert (fit.micro_batch > 0).all()
        each = training_bytes(arch, h200().hardware, prompt=72.0, completion=length)
        weights = 2 * arch.parameters
        used = state + fit.micro_batch * each + weights + fit.cache_bytes
        assert (used <= fit.peak).all()
        assert (fit.peak <= capacity).all()
        assert (np.array([256, 4096, 65536]) % fit.micro_batch == 0).all()
        cache = fit.concurrency * (72.0 + length) * kv_bytes_per_token(arch, "bfloat16")
        assert (cache <= fit.cache_bytes).all()
        # Rounded down to whole per cents, the share may hold one per cent less.
        share = (fit.vllm_share + 0.01) * h200().hardware.memory_gb * 1e9
        assert (fit.cache_bytes + weights <= share).all()


def test_longer_completions_never_fit_more() -> None:
    fits = [_fit(h200(), 4096, longest=2.0**power) for power in range(8, 17)]
    micro = [int(fit.micro_batch[0]) for fit in fits]
    assert micro == sorted(micro, reverse=True)
    needed = [float(fit.needed[0]) for fit in fits]
    assert needed == sorted(needed)
    room = h200().hardware.memory_gb * 1e9 * (1 - h200().hardware.memory_reserve)
    for size, bytes_needed in zip(micro, needed, strict=True):
        assert (size == 0) == (bytes_needed > room)


def test_transformers_holds_all_rollouts_at_once_where_vllm_queues_them() -> None:
    config = make_config("model=qwen-1.5b", "generation=transformers")
    fit = _fit(config, 256, 65536)
    assert fit.micro_batch.tolist()[0] > 0
    assert fit.micro_batch.tolist()[1] == 0
    assert fit.needed[1] > 1e12
    assert (_fit(h200(), 65536).micro_batch > 0).all()
    assert 0 < _fit(h200(), 65536).concurrency[0] < 65536
