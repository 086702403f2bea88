"""vLLM's own configuration of every engine that five realistic plans ask for.

vLLM's CPU build checks the scheduler's limits, the context, how a model divides and what its cache
takes. It cannot check sleep mode, which it refuses, CUDA graphs, and whether memory suffices:
docs/vllm.md says so.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from isosweep.config.model import Architecture
from isosweep.costs.engine import BLOCK_TOKENS, blocks, cache_bytes_per_token
from isosweep.costs.padding import cached_at_most
from isosweep.plan.study import resolve
from isosweep.training.arguments import engine_arguments, trl_arguments
from tests.conftest import make_config
from tests.training.engines import VLLM, require_vllm

pytestmark = VLLM

SHARDED = "hardware.sharding=fsdp"
# The Playbook's grid for easy problems, up to the largest n x B.
GRID = "grid.max_completions_per_step=65536"
# What is planned, and the least number of cells that it has to have: written down beforehand.
PLANS = {
    "model=qwen-1.5b task=math hardware=h100 budget=1e19": 27,
    "model=qwen-1.5b task=math hardware=h200 budget=1e20 generation.sleep=true": 20,
    f"model=qwen-7b task=math hardware=l40s hardware.devices_per_run=8 {SHARDED} budget=1e21 "
    "generation.tensor_parallel=2 generation.sleep=true": 10,
    f"model=qwen-14b task=math hardware=h200 hardware.devices_per_run=8 {SHARDED} budget=1e21 "
    "generation.tensor_parallel=2": 10,
    f"model=qwen-72b task=math hardware=mi300x hardware.devices_per_run=8 {SHARDED} "
    "budget=1e22 hardware.weights_dtype=bfloat16 generation.tensor_parallel=8 "
    "generation.sleep=true": 10,
}


@pytest.fixture(autouse=True, scope="module")
def _vllm() -> Iterator[None]:
    require_vllm()
    with mock.patch.dict(os.environ, {"VLLM_LOGGING_LEVEL": "ERROR"}):
        yield


def on_disk(arch: Architecture, directory: Path) -> Path:
    """A directory with the `config.json` of a model of this architecture."""
    kind = "Qwen3" if arch.qk_norm else "Qwen2"
    document = {
        "architectures": [f"{kind}ForCausalLM"],
        "model_type": kind.lower(),
        "num_hidden_layers": arch.num_layers,
        "num_attention_heads": arch.num_heads,
        "num_key_value_heads": arch.num_kv_heads,
        # vLLM refuses a context beyond a model's own.
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
    }
    for name in ("hidden_size", "head_dim", "intermediate_size", "vocab_size"):
        document[name] = getattr(arch, name)
    (directory / "config.json").write_text(json.dumps(document))
    return directory


def cache_of(config: Any) -> dict[str, Any]:
    """vLLM's description of the cache of every layer, in blocks of a GPU's size."""
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    model, parallel = config.model_config, config.parallel_config
    layer = FullAttentionSpec(
        block_size=BLOCK_TOKENS,
        num_kv_heads=model.get_num_kv_heads(parallel),
        head_size=model.get_head_size(),
        dtype=torch.bfloat16,
    )
    return {f"layer.{i}": layer for i in range(model.get_num_layers(parallel))}


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_vllm_takes_every_engine_that_is_planned(plan: str, tmp_path: Path) -> None:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.core.kv_cache_utils import check_enough_kv_cache_memory

    study = resolve(make_config(*plan.split(), GRID, "grid.seeds=[0]"))
    by_rule = Counter(item.rule for item in study.plan.rejected)
    assert len(study.plan.cells) >= PLANS[plan], by_rule
    assert "hardware.memory_gb" not in by_rule
    config, seen = study.config, set[str]()
    longest = config.task.planned_prompt_tokens + config.task.completion_limit
    arch, model = config.model.architecture, on_disk(config.model.architecture, tmp_path)
    for spec in study.specs.values():
        trl = trl_arguments(spec, spec.vllm_max_model_len)
        size = trl["vllm_tensor_parallel_size"]
        # As TRL passes them on (trl/generation/vllm_generation.py), but for sleep mode.
        given = {
            "tensor_parallel_size": size,
            "gpu_memory_utilization": trl["vllm_gpu_memory_utilization"],
            "max_model_len": trl["vllm_max_model_length"],
            "distributed_executor_backend": "external_launcher",
            **engine_arguments(spec),
        }
        if (key := json.dumps(given, sort_keys=True)) in seen:
            continue
        seen.add(key)
        made = EngineArgs(str(model), skip_tokenizer_init=True, **given).create_engine_config(
            usage_context=UsageContext.LLM_CLASS
        )
        limits = made.scheduler_config
        assert limits.max_num_seqs == spec.vllm_max_num_seqs > 0
        assert limits.max_num_batched_tokens == spec.vllm_max_num_batched_tokens
        assert made.model_config.max_model_len == spec.vllm_max_model_len >= longest
        layers = cache_of(made)
        # Refuses a cache that does not hold one sequence.
        check_enough_kv_cache_memory(made, layers, spec.vllm_cache_bytes)
        page = sum(layer.page_size_bytes for layer in layers.values())
        assert page == BLOCK_TOKENS * cache_bytes_per_token(arch, "bfloat16", size)
        pages = spec.vllm_cache_bytes // page
        expected = config.task.planned_prompt_tokens + cached_at_most(config.task.lengths)
        assert pages * BLOCK_TOKENS >= spec.vllm_max_num_seqs * blocks(expected)
