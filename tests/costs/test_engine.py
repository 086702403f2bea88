"""How a run fits its device: micro-batches, and vLLM beside the state, asleep, over devices."""

import numpy as np
import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.costs.activations import training_bytes
from isosweep.costs.engine import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    EngineBytes,
    context_tokens,
    engine_bytes,
)
from isosweep.costs.fit import MemoryFit, fit_memory
from isosweep.costs.memory import kv_bytes_per_token, state_bytes
from isosweep.costs.padding import cached_at_most
from tests.conftest import make_config

EIGHT = ("hardware=h100", "hardware.devices_per_run=8", "hardware.sharding=fsdp")
LONG = ("budget=1e20", "task=math", "task.prompt_tokens=150", "task.max_completion_tokens=2048")


def _context(config: SweepConfig) -> int:
    return context_tokens(config.task.lengths.prompt, config.task.lengths.longest)


def _engine(config: SweepConfig) -> EngineBytes:
    lengths = config.task.lengths
    return engine_bytes(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        cached=lengths.prompt + cached_at_most(lengths),
        longest=lengths.prompt + lengths.longest,
        context=_context(config),
    )


def _fit(config: SweepConfig, *completions: int) -> MemoryFit:
    return fit_memory(config, config.recipe, np.array(completions), _context(config))


def test_as_many_requests_are_held_as_fit_beside_what_else_is_there() -> None:
    engine = _engine(make_config("model=qwen-1.5b", *LONG))
    for room in np.linspace(3e9, 120e9, 40):
        for beside in (0.0, 5e9, 20e9):

            def held(count: int, beside: float = beside) -> float:
                return float(engine.awake(count) + np.maximum(engine.working(count), beside))

            most = np.array([MAX_NUM_SEQS])
            (found,) = engine.requests_within(float(room), np.array([beside]), most)
            assert found == 0 or held(int(found)) <= room
            assert found == MAX_NUM_SEQS or held(int(found) + 1) > room


def test_an_engine_that_sleeps_keeps_its_counts_and_graphs() -> None:
    config = make_config("model=qwen-1.5b", *LONG)
    arch, engine = config.model.architecture, _engine(config)
    counts = 1024 * (4 * arch.vocab_size + arch.vocab_size / 8)
    # 51 graphs of pieces and as many of decoding, in each of 28 layers; attention's 394 MiB.
    graphs = 102 * 28 * 0.4e6 + 394 * 2**20
    assert engine.asleep(1024) == pytest.approx(counts + graphs)
    given_back = engine.awake(1024) - engine.asleep(1024)
    assert given_back == pytest.approx(2 * arch.parameters + 1024 * engine.cache)
    assert engine.longest == 2208 * kv_bytes_per_token(arch, "bfloat16")
    # Logits in bfloat16, and the sampler's float32 copy.
    assert engine.logits == 6 * arch.vocab_size


@pytest.mark.parametrize("sleep", ["false", "true"])
def test_state_engine_and_training_never_take_more_than_there_is(sleep: str) -> None:
    sampled = ("generation.tensor_parallel=2", f"generation.sleep={sleep}")
    config = make_config("model=qwen-7b", *LONG, *EIGHT, *sampled)
    hardware, arch, engine = config.hardware, config.model.architecture, _engine(config)
    room, state = hardware.usable_bytes, state_bytes(arch, config.recipe, hardware).total
    fit = _fit(config, 256, 4096, 65536)
    assert (fit.micro_batch > 0).all()
    each = training_bytes(arch, config.recipe, hardware, prompt=150.0, completion=2048.0)
    training = each.fixed + fit.micro_batch * each.per_completion
    held = (engine.asleep if sleep == "true" else engine.awake)(fit.concurrency)
    assert (state + training + held <= room).all()
    sampling = engine.awake(fit.concurrency) + engine.working(fit.concurrency)
    assert (state + sampling <= room).all()
    assert (fit.peak <= room).all()
    planned = fit.engine
    assert planned is not None
    assert (planned.cache_bytes >= fit.concurrency * engine.cache).all()
    # vLLM asks at its start for that share of the memory.
    assert (planned.share * hardware.memory_gb * 1e9 <= room).all()
    assert (fit.concurrency <= planned.batched_tokens).all()
    assert (planned.batched_tokens <= MAX_NUM_BATCHED_TOKENS).all()


def test_transformers_holds_all_rollouts_at_once_where_vllm_queues_them() -> None:
    fit = _fit(make_config("model=qwen-1.5b", "generation=transformers", *LONG), 256, 65536)
    assert fit.micro_batch[0] > 0
    assert (fit.micro_batch[1], fit.concurrency[1]) == (0, 65536)
    assert fit.needed[1] > 1e12
    queued = _fit(make_config("model=qwen-1.5b", *LONG), 65536)
    assert queued.micro_batch[0] > 0
    assert 0 < queued.concurrency[0] <= MAX_NUM_SEQS


def test_what_fits_is_what_is_needed() -> None:
    # Beside adapters a micro-batch of short answers fits before one request's decoding does.
    short = ("model=qwen-1.5b", "recipe.lora_rank=8", "task.max_completion_tokens=8")
    for memory in (8.5, 8.8, 9.1, 9.4, 9.7, 10.0):
        config = make_config(*LONG, *short, f"hardware.memory_gb={memory}")
        fit = _fit(config, 64)
        fits = fit.needed <= config.hardware.usable_bytes
        assert (fits == (fit.micro_batch > 0)).all()
        assert (fits == (fit.concurrency > 0)).all()
