"""Memory that is held throughout, against what real steps allocate; and how runs fit in it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from isosweep.config.base import replaced
from isosweep.config.model import adapter_weights, architecture_from_config
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.activations import training_bytes
from isosweep.costs.fit import fit_memory
from isosweep.costs.memory import kv_bytes_per_token, state_bytes
from isosweep.plan.rules import rules_of
from isosweep.plan.spec import evaluation_batch
from tests.conftest import candidates_of, make_config
from tests.models.families import configuration, language_model


@cache
def h200() -> SweepConfig:
    return make_config("model=qwen-1.5b")


def _model(family: str, layers: int) -> Any:
    import torch

    torch.manual_seed(0)
    return language_model(
        configuration(family, num_hidden_layers=layers, attn_implementation="sdpa")
    )


def test_weights_gradients_and_states_are_what_a_step_holds() -> None:
    import torch

    model = _model("Qwen2", 2)
    config = make_config()
    config = replaced(
        config,
        model=replaced(config.model, architecture=architecture_from_config(model.config.to_dict())),
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
    assert predicted.reference == 0


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


def test_precisions_and_references_are_those_that_trl_holds() -> None:
    arch, recipe = h200().model.architecture, h200().recipe
    lean = replaced(h200().hardware, weights_dtype="bfloat16")
    penalised = replaced(recipe, beta=0.01)
    # 4 weights + 4 gradients + 8 optimiser states, or half of it.
    assert state_bytes(arch, recipe, h200().hardware).total == 16 * arch.parameters
    assert state_bytes(arch, recipe, lean).total == 8 * arch.parameters
    # TRL loads the reference in the policy's precision.
    assert state_bytes(arch, penalised, h200().hardware).reference == 4 * arch.parameters
    assert state_bytes(arch, penalised, lean).reference == 2 * arch.parameters
    adapters = replaced(recipe, lora_rank=16, beta=0.01)
    state = state_bytes(arch, adapters, h200().hardware)
    assert state.total == 2 * arch.parameters + 16 * adapter_weights(arch, 16)


def test_eight_bits_shrink_what_a_device_holds() -> None:
    arch, recipe = h200().model.architecture, h200().recipe
    hardware = replaced(h200().hardware, optimizer="adamw_torch_8bit")
    block = 2 + 8 / 256
    expected = pytest.approx(block * arch.parameters)
    assert state_bytes(arch, recipe, hardware).optimizer == expected


def _fit(config: SweepConfig, *completions: int, longest: float = 1024.0) -> Any:
    return fit_memory(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        lengths=Lengths(prompt=72.0, completion=longest, longest=longest),
        completions=np.array(completions),
    )


def test_transformers_holds_all_rollouts_at_once_where_vllm_queues_them() -> None:
    config = make_config("model=qwen-1.5b", "generation=transformers")
    fit = _fit(config, 256, 65536)
    assert fit.micro_batch.tolist()[0] > 0
    assert fit.micro_batch.tolist()[1] == 0
    assert fit.needed[1] > 1e12
    assert (_fit(h200(), 65536).micro_batch > 0).all()
    assert 0 < _fit(h200(), 65536).concurrency[0] < 65536


def test_a_micro_batch_takes_half_of_the_room_at_most_and_a_request_has_to_fit() -> None:
    config = make_config("model=qwen-1.5b", "recipe.max_micro_batch=256")
    arch, recipe, hardware = config.model.architecture, config.recipe, config.hardware
    room = hardware.usable_bytes - state_bytes(arch, recipe, hardware).total
    passes = training_bytes(arch, recipe, hardware, prompt=72.0, completion=1024.0)
    (size,) = _fit(config, 4096).micro_batch
    assert passes.fixed + size * passes.per_completion <= room / 2
    assert passes.fixed + 2 * size * passes.per_completion > room / 2
    # Beside adapters a micro-batch of short answers fits before one request's decoding does.
    config = make_config("model=qwen-1.5b", "recipe.lora_rank=8")
    for memory in np.linspace(8.5, 10, 16):
        hardware = replaced(config.hardware, memory_gb=float(memory))
        fit = _fit(replaced(config, hardware=hardware), 64, longest=8.0)
        fits = fit.needed <= hardware.usable_bytes
        assert (fits == (fit.micro_batch > 0)).all()
        assert (fits == (fit.concurrency > 0)).all()


def test_an_evaluations_batch_is_as_large_as_fits_and_one_that_does_not_is_refused() -> None:
    asked = (
        *("model=qwen-1.5b", "generation=transformers", "hardware=h100"),
        *("task.num_eval_problems=8192", "evaluation.samples_per_problem=8"),
        *("task.max_completion_tokens=16384", "budget=1e20"),
    )
    config = make_config(*asked)
    planned = evaluation_batch(config)
    assert 16 < planned < 2048
    names = {}
    for size in (None, planned, 2 * planned):
        (table,) = candidates_of(make_config(*asked, f"evaluation.batch_size={size or 'null'}"))
        names[size] = {rule.setting for rule in rules_of(int(table.broken[0, 0, 0]))}
    assert "evaluation.batch_size" not in names[None] | names[planned]
    assert "evaluation.batch_size" in names[2 * planned]
    # No more than there are on a device, and not beyond what fills one.
    few = make_config(*asked, "task.num_eval_problems=2")
    assert evaluation_batch(few) == 16
    assert evaluation_batch(make_config("task.num_eval_problems=4096")) == 2048
