"""vLLM's part of a device: what is planned for it, asleep, over several devices, on a server."""

import numpy as np
import pytest

from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.activations import training_bytes
from isosweep.costs.engine import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    EngineBytes,
    context_tokens,
    engine_bytes,
    requests_within,
)
from isosweep.costs.fit import MemoryFit, fit_memory
from isosweep.costs.memory import kv_bytes_per_token, state_bytes
from tests.conftest import candidates_of, make_config

EIGHT = ("hardware=h100", "hardware.devices_per_run=8", "hardware.sharding=fsdp")


def _engine(config: SweepConfig, completion: float = 2048.0) -> EngineBytes:
    return engine_bytes(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        cached=150.0 + completion,
        longest=150.0 + completion,
        context=context_tokens(150.0, completion),
    )


def _fit(config: SweepConfig, *completions: int) -> MemoryFit:
    return fit_memory(
        config.model.architecture,
        config.recipe,
        config.hardware,
        config.generation,
        lengths=Lengths(prompt=150.0, completion=2048.0, longest=2048.0),
        completions=np.array(completions),
    )


def test_as_many_requests_are_held_as_fit_beside_what_else_is_there() -> None:
    engine = _engine(make_config("model=qwen-1.5b"))
    for room in np.linspace(3e9, 120e9, 40):
        for beside in (0.0, 5e9, 20e9):

            def held(count: int, beside: float = beside) -> float:
                return float(engine.awake(count) + np.maximum(engine.working(count), beside))

            (found,) = requests_within(
                engine, np.array(room), np.array([beside]), np.array([MAX_NUM_SEQS])
            )
            assert found == 0 or held(int(found)) <= room
            assert found == MAX_NUM_SEQS or held(int(found) + 1) > room


def test_on_a_cpu_the_cache_has_larger_blocks_and_one_that_is_never_used() -> None:
    config = make_config("generation=vllm")
    engine = _engine(config, completion=9.0)
    block = 128 * kv_bytes_per_token(config.model.architecture, "float32")
    # 159 tokens take two blocks, and the longest context of 609 five.
    assert engine.cached(8) == (2 * 8 + 1) * block
    assert engine.cached(1) == (5 + 1) * block


@pytest.mark.parametrize("sleep", [False, True])
def test_state_engine_and_training_never_take_more_than_there_is(sleep: bool) -> None:
    config = make_config("model=qwen-7b", *EIGHT, "generation.tensor_parallel=2")
    config = replaced(config, generation=replaced(config.generation, sleep=sleep))
    hardware, arch, engine = config.hardware, config.model.architecture, _engine(config)
    room = hardware.memory_gb * 1e9 * (1 - hardware.memory_reserve)
    state = state_bytes(arch, config.recipe, hardware).total
    fit = _fit(config, 256, 4096, 65536)
    assert (fit.micro_batch > 0).all()
    each = training_bytes(arch, config.recipe, hardware, prompt=150.0, completion=2048.0)
    training = each.fixed + fit.micro_batch * each.per_completion
    held = engine.asleep(fit.concurrency) if sleep else engine.awake(fit.concurrency)
    assert (state + training + held <= room).all()
    sampling = engine.awake(fit.concurrency) + engine.working(fit.concurrency)
    assert (state + sampling <= room).all()
    planned = fit.engine
    assert planned is not None
    assert (planned.cache_bytes >= fit.concurrency * engine.cache).all()
    # vLLM asks at its start for that share of the memory.
    assert (planned.share * hardware.memory_gb * 1e9 <= sampling).all()
    assert (fit.concurrency <= planned.batched_tokens).all()
    assert (planned.batched_tokens <= MAX_NUM_BATCHED_TOKENS).all()


def test_an_engine_that_sleeps_keeps_its_counts_and_graphs() -> None:
    config = make_config("model=qwen-1.5b")
    arch, engine = config.model.architecture, _engine(config)
    counts = 1024 * (4 * arch.vocab_size + arch.vocab_size / 8)
    # 51 graphs of pieces and as many of decoding, in each of 28 layers; attention's 394 MiB.
    graphs = 102 * 28 * 0.4e6 + 394 * 2**20
    assert engine.asleep(1024) == pytest.approx(counts + graphs)
    given_back = 2 * arch.parameters + 1024 * 2208 * kv_bytes_per_token(arch, "bfloat16")
    assert engine.awake(1024) - engine.asleep(1024) == pytest.approx(given_back)
    # Logits in bfloat16, and the sampler's float32 copy.
    assert engine.logits == 6 * arch.vocab_size


def test_an_engine_over_two_devices_decodes_faster_and_less_than_twice_as_fast() -> None:
    asked = ("model=qwen-7b", *EIGHT, "budget=1e20")
    one, two = (
        candidates_of(make_config(*asked, f"generation.tensor_parallel={n}"))[0].phases.generation
        for n in (1, 2)
    )
    # Few rollouts a device: reading the weights takes the time. Four rollouts, or eight on two.
    assert one[0, 0] / 2 < two[0, 0] < one[0, 0]
