"""What is expected of devices: within reason at the extremes, and less for nothing that is more."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.config.base import replaced
from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import GenerationConfig
from isosweep.config.task import Lengths
from isosweep.costs.efficiency import efficiency
from isosweep.costs.padding import cached_at_most, longest_of
from isosweep.plan.enumerate import planned_memory
from isosweep.plan.spec import reached
from tests.conftest import candidates_of, make_config

GPUS = ("a100", "b200", "h100", "h200", "l40s", "mi300x", "rtx4090")
MODELS = ("smollm2-135m", "qwen-0.5b", "qwen-7b", "qwen-72b", "qwen3-30b-a3b")
VLLM, TRANSFORMERS = (
    make_config(f"generation={name}").generation for name in ("vllm", "transformers")
)


def hardware(name: str) -> HardwareConfig:
    return make_config("model=qwen-0.5b", f"hardware={name}").hardware


def model(name: str) -> Architecture:
    return make_config(f"model={name}").model.architecture


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_reaches_a_share_of_every_gpu_that_has_been_seen(gpu: str, name: str) -> None:
    found = efficiency(model(name), hardware(gpu), VLLM)
    # Measured MFU of RL trainers: 0.03 to 0.4 (docs/time.md); ours on an H200 0.57.
    assert 0.1 < found.training_utilization < 0.6
    assert 0.2 < found.generation_utilization < 0.9
    assert 5e-4 < found.token_overhead_s < 0.01


def test_more_of_a_device_or_a_model_is_never_less() -> None:
    h100 = hardware("h100")
    attained = []
    for scale in (0.01, 0.1, 0.5, 1, 2, 4, 100):
        faster = replaced(h100, peak_flops=scale * h100.peak_flops)
        found = efficiency(model("qwen-7b"), faster, VLLM)
        attained.append(found.training_utilization * faster.peak_flops)
    assert attained == sorted(attained)
    narrow = [
        efficiency(
            replaced(model("qwen-7b"), hidden_size=width, intermediate_size=4 * width), h100, VLLM
        ).training_utilization
        for width in (16, 64, 256, 1024, 8192)
    ]
    assert narrow == sorted(narrow)
    # A product as narrow as this one is bound by memory.
    assert narrow[0] < narrow[-1] / 10
    mixture, dense = (efficiency(model(name), h100, VLLM) for name in ("qwen3-30b-a3b", "qwen-7b"))
    assert mixture.training_utilization < dense.training_utilization
    assert mixture.generation_utilization < dense.generation_utilization


def test_launches_grow_with_layers_and_are_those_of_python_with_transformers_alone() -> None:
    def token(name: str, generation: GenerationConfig) -> float:
        return efficiency(model(name), hardware("h200"), generation).token_overhead_s

    assert token("qwen-0.5b", TRANSFORMERS) == pytest.approx(0.026, rel=0.05)
    assert token("qwen-72b", TRANSFORMERS) > 2 * token("qwen-7b", TRANSFORMERS)
    assert token("qwen-0.5b", VLLM) < token("qwen-0.5b", TRANSFORMERS) / 5
    # On a CPU settings say everything.
    assert reached(make_config()).pass_overhead_s == 0


def test_the_longest_of_more_answers_is_longer_and_never_above_the_limit() -> None:
    lengths = Lengths(prompt=100.0, completion=200.0, longest=2048.0)
    found = longest_of(lengths, np.array([1.0, 2, 8, 64, 512, 1e6]))
    assert found[0] == pytest.approx(200)
    assert (np.diff(found) > 0).all()
    assert found[-1] == pytest.approx(2048)
    # Of 64 answers the longest is several times the mean: decoding waits for it.
    assert 600 < found[3] < 1400
    rng = np.random.default_rng(0)
    # Few reach the limit: nearly an exponential distribution, whose maxima are known.
    drawn = np.minimum(rng.exponential(200, size=(4000, 64)), 2048).max(axis=1).mean()
    assert found[3] == pytest.approx(drawn, rel=0.1)
    alike = replace(lengths, completion=2048.0)
    assert longest_of(alike, np.array([1.0, 64.0])) == pytest.approx(2048)
    assert cached_at_most(alike) == pytest.approx(2048)
    assert 100 < cached_at_most(lengths) < 512


KL = (
    *("model=qwen-7b", "hardware=h100", "hardware.devices_per_run=4", "hardware.sharding=fsdp"),
    *("recipe=grpo", "task=math", "budget=1e20"),
    *("grid.num_generations=[8,32]", "grid.problems_per_batch=[16,64]"),
)


def test_the_quickest_micro_batch_is_planned() -> None:
    (chosen,) = candidates_of(make_config(*KL))
    fixed = [
        candidates_of(make_config(*KL, f"recipe.micro_batch={size}"))[0] for size in (1, 2, 4, 8)
    ]
    fitting = [table for table in fixed if (table.memory.micro_batch > 0).all()]
    assert len(fitting) >= 3
    for table in fitting:
        assert (chosen.phases.total <= table.phases.total * (1 + 1e-9)).all()
    # The largest that fits leaves vLLM too little of the device.
    largest = planned_memory(chosen.config, chosen.completions)
    assert (chosen.memory.micro_batch < largest.micro_batch).any()
    assert (chosen.memory.concurrency > 2 * largest.concurrency).any()
    assert (chosen.memory.peak <= chosen.config.hardware.usable_bytes).all()
