"""vLLM's own configuration of every engine that five realistic plans ask for.

vLLM's CPU build checks the scheduler's limits, the context, how a model divides and what its cache
takes. It cannot check sleep mode, which it refuses, CUDA graphs, and whether memory suffices:
docs/vllm.md says so.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from isosweep.config.architecture import Architecture
from isosweep.costs.engine import BLOCK_TOKENS, blocks, cache_bytes_per_token
from isosweep.costs.padding import cached_at_most
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import Study, resolve
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
# The largest context of any of the models: vLLM refuses more than a model's own.
POSITIONS = 32768


@pytest.fixture(autouse=True, scope="module")
def _vllm() -> Iterator[None]:
    require_vllm()
    with mock.patch.dict(os.environ, {"VLLM_LOGGING_LEVEL": "ERROR"}):
        yield


@cache
def study(plan: str) -> Study:
    return resolve(make_config(*plan.split(), GRID, "grid.seeds=[0]"))


def on_disk(arch: Architecture, directory: Path) -> Path:
    """A directory with the `config.json` of a model of this architecture."""
    kind = "Qwen2" if arch.qkv_bias else "Qwen3" if arch.qk_norm else "Llama"
    document = {
        "architectures": [f"{kind}ForCausalLM"],
        "model_type": kind.lower(),
        "num_hidden_layers": arch.num_layers,
        "num_attention_heads": arch.num_heads,
        "num_key_value_heads": arch.num_kv_heads,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-6,
    }
    for name in ("hidden_size", "head_dim", "intermediate_size", "vocab_size"):
        document[name] = getattr(arch, name)
    (directory / "config.json").write_text(json.dumps(document))
    return directory


class Recorder:
    """In place of `vllm.LLM`: what it is given."""

    given: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        Recorder.given = given

    def sleep(self, level: int) -> None:
        pass


def given_to_vllm(spec: RunSpec, model: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What TRL's own code gives `vllm.LLM` for this run, with `options` put past it."""
    from trl.generation import vllm_generation

    from isosweep.training.vllm import engine_options

    trl = trl_arguments(spec, spec.vllm_max_model_len)
    backend = vllm_generation.VLLMGeneration.__new__(vllm_generation.VLLMGeneration)
    backend.model = SimpleNamespace(name_or_path=str(model), named_modules=list)
    backend.accelerator = SimpleNamespace(
        num_processes=spec.devices, process_index=0, local_process_index=0
    )
    backend.accelerator.wait_for_everyone = lambda: None
    backend.mode, backend.model_impl, backend.trust_remote_code = "colocate", "auto", False
    backend.tensor_parallel_size = trl["vllm_tensor_parallel_size"]
    backend.gpu_memory_utilization = trl["vllm_gpu_memory_utilization"]
    backend.max_model_length = trl["vllm_max_model_length"]
    backend.enable_sleep_mode = trl["vllm_enable_sleep_mode"]
    # As GRPOTrainer does: completions of one process, times the processes of one engine.
    local = spec.completions_per_step // spec.devices
    backend.max_num_seqs = local * backend.tensor_parallel_size
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(vllm_generation, "LLM", Recorder),
        mock.patch("torch.distributed.new_subgroups_by_enumeration", return_value=(None, None)),
        engine_options(options),
    ):
        backend._init_vllm()
    return Recorder.given


def configured(**given: Any) -> Any:
    """vLLM's configuration of an engine with these arguments; ValueError where it refuses."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    # A CPU build refuses it.
    given.pop("enable_sleep_mode", None)
    arguments = EngineArgs(**{**given, "skip_tokenizer_init": True})
    return arguments.create_engine_config(usage_context=UsageContext.LLM_CLASS)


def engines(plan: str, model: Path) -> Iterator[tuple[RunSpec, dict[str, Any]]]:
    """Every distinct engine of a plan: a run that has it, and vLLM's arguments."""
    seen = set()
    for spec in study(plan).specs.values():
        given = given_to_vllm(spec, model, engine_arguments(spec))
        key = json.dumps(given, sort_keys=True, default=str)
        if key not in seen:
            seen.add(key)
            yield spec, given


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
    from vllm.v1.core.kv_cache_utils import check_enough_kv_cache_memory

    config = study(plan).config
    cells, rejected = study(plan).plan.cells, study(plan).plan.rejected
    by_rule = Counter(item.rule for item in rejected)
    assert len(cells) >= PLANS[plan], by_rule
    assert "hardware.memory_gb" not in by_rule
    longest = config.task.planned_prompt_tokens + config.task.completion_limit
    model = on_disk(config.model.architecture, tmp_path)
    for spec, given in engines(plan, model):
        made = configured(**given)
        limits = made.scheduler_config
        assert limits.max_num_seqs == spec.vllm_max_num_seqs > 0
        assert limits.max_num_batched_tokens == spec.vllm_max_num_batched_tokens
        assert made.model_config.max_model_len == spec.vllm_max_model_len >= longest
        layers = cache_of(made)
        # Refuses a cache that does not hold one sequence.
        check_enough_kv_cache_memory(made, layers, spec.vllm_cache_bytes)
        page = sum(layer.page_size_bytes for layer in layers.values())
        arch, size = config.model.architecture, given["tensor_parallel_size"]
        assert page == BLOCK_TOKENS * cache_bytes_per_token(arch, "bfloat16", size)
        pages = spec.vllm_cache_bytes // page
        expected = config.task.planned_prompt_tokens + cached_at_most(config.task.lengths)
        assert pages * BLOCK_TOKENS >= spec.vllm_max_num_seqs * blocks(expected)
