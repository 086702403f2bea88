"""Time: the roofline's limits, what scales with what, exchanges, and a generator beside."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isosweep.config.refusals import choices_of, config_directory
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.padding import longest_of
from isosweep.costs.timing import StepSeconds, sampling
from isosweep.plan.candidates import Candidates
from isosweep.plan.scheduling import makespan, makespan_bound
from isosweep.plan.spec import reached
from tests.conftest import candidates_of, make_config


def table_of(*overrides: str) -> Candidates:
    (table,) = candidates_of(make_config(*overrides))
    return table


def phases(*overrides: str) -> StepSeconds:
    return table_of(*overrides).phases


def _decode_seconds(config: SweepConfig, together: int, prompt: float = 1.0) -> float:
    """Seconds to decode one position of `together` rollouts, nothing else."""
    sampled = sampling(
        config.model.architecture,
        config.hardware,
        config.generation,
        Lengths(prompt=prompt, completion=2.0, longest=2.0),
        rollouts=np.array([float(together)]),
        concurrency=np.array([together]),
        prefill_flops=0.0,
    )
    assert sampled.positions[0] == 1
    return float(sampled.device[0])


def test_decoding_reads_the_weights_computes_or_reads_the_cache_whichever_takes_longest() -> None:
    config = make_config("model=qwen-7b")
    arch, hardware = config.model.architecture, config.hardware
    reading = 2 * arch.active_parameters / hardware.memory_bandwidth
    # Ten rollouts read the same weights.
    for together in (1, 10):
        assert _decode_seconds(config, together) == pytest.approx(reading, rel=1e-2)
    arithmetic = 4096 * 2 * arch.active_parameters / hardware.peak_flops
    assert _decode_seconds(config, 4096) == pytest.approx(arithmetic, rel=0.02)
    cache = 64 * 30_000 * 2 * 2 * 28 * 4 * 128 / hardware.memory_bandwidth
    assert _decode_seconds(config, 64, prompt=30_000.0) == pytest.approx(cache + reading, rel=0.01)


def test_a_mixture_reads_more_experts_the_more_rollouts_ask() -> None:
    config = make_config("model=qwen3-30b-a3b")
    arch, bandwidth = config.model.architecture, config.hardware.memory_bandwidth
    active, everything = arch.active_parameters, arch.layer_weights + arch.embedding_weights
    assert _decode_seconds(config, 1) * bandwidth == pytest.approx(2 * active, rel=1e-3)
    assert _decode_seconds(config, 128) * bandwidth == pytest.approx(2 * everything, rel=0.01)


def test_an_engine_over_two_devices_decodes_faster_and_less_than_twice_as_fast() -> None:
    asked = ("model=qwen-7b", "hardware=h100", "budget=1e20")
    eight = ("hardware.devices_per_run=8", "hardware.sharding=fsdp")
    one, two = (
        phases(*asked, *eight, f"generation.tensor_parallel={n}").generation for n in (1, 2)
    )
    # Few rollouts a device: reading the weights takes the time. Four rollouts, or eight on two.
    assert one[0, 0] / 2 < two[0, 0] < one[0, 0]


# Bytes for each parameter that a device sends: of 4 devices in one node a ring takes three quarters
# of all, and on 2 nodes this much over the two cards of a node; for every update, and for every
# micro-batch. Weights are gathered to score and twice to train; FSDP's gradients, in float32, are
# reduced as often as it trains.
@pytest.mark.parametrize(
    ("sharding", "update", "micro_batch"), [("ddp", 2 * 2, 0), ("fsdp", 0, 3 * 2 + 4)]
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_devices_exchange_gradients_once_and_gather_weights_for_every_micro_batch(
    nodes: int, sharding: str, update: float, micro_batch: float
) -> None:
    asked = (
        *("recipe.micro_batch=4", "grid.num_generations=[16,64]", "launcher=slurm"),
        *("model=qwen-0.5b", "budget=1e20", f"hardware.sharding={sharding}"),
        *("hardware.devices_per_run=4", f"hardware.nodes_per_run={nodes}"),
    )
    links, cards = (1e10, 1e18) if nodes == 1 else (1e18, 1e9)
    slow, fast = (
        table_of(
            *asked,
            f"hardware.interconnect_bandwidth={faster * links}",
            f"hardware.node_bandwidth={faster * cards}",
        )
        for faster in (1, 2)
    )
    parameters = slow.config.model.architecture.parameters
    micro_batches = slow.completions / 4 / slow.memory.micro_batch
    sent = 3 / 4 * parameters * (update + micro_batch * micro_batches)
    bandwidth = 1e10 if nodes == 1 else 2 * 1e9
    saved = slow.phases.update - fast.phases.update
    assert saved == pytest.approx(sent / bandwidth / 2, rel=1e-5)


@pytest.mark.parametrize("draws", [1, 2])
def test_what_is_spent_beside_the_device_counts_once_for_each_of_its_causes(draws: int) -> None:
    asked = (
        *("recipe.zero_variance=resample", "recipe.max_draws=2", f"recipe.planned_draws={draws}"),
        *("recipe.num_iterations=3", "grid.num_generations=[8]", "grid.problems_per_batch=[4]"),
        *("model=qwen-0.5b", "generation=transformers", "budget=1e17"),
    )
    lengths = make_config(*asked).task.lengths
    causes: dict[str, float] = {
        "step": 1,
        "token": draws * (float(longest_of(lengths, np.array(32.0))) - 1),
        "answer": draws * 8 * 4,
        "pass": 0,
    }

    def seconds(spent: str = "") -> float:
        each = (f"hardware.{name}_overhead_s={2.0 * (name == spent)}" for name in causes)
        return float(phases(*asked, *each).total[0, 0])

    for name in ("step", "token", "answer"):
        assert seconds(name) - seconds() == pytest.approx(2 * causes[name]), name


@pytest.mark.parametrize("gpu", sorted({*choices_of(config_directory(), "hardware")} - {"cpu"}))
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen-0.5b", "qwen-7b", "qwen3-30b-a3b"])
def test_every_model_reaches_a_share_of_every_gpu_that_has_been_seen(gpu: str, name: str) -> None:
    asked = (f"model={name}", f"hardware={gpu}", "budget=1e20")
    found = reached(make_config(*asked, "generation=vllm"))
    # Measured MFU of RL trainers: 0.03 to 0.4 (docs/time.md); ours on an H200 0.57.
    assert 0.1 < found.training_utilization < 0.6
    assert 0.2 < found.generation_utilization < 0.9
    # Launches of each layer are those of Python with transformers alone.
    python = reached(make_config(*asked, "generation=transformers"))
    assert 5e-4 < 5 * found.token_overhead_s < python.token_overhead_s < 0.1


def test_the_quickest_micro_batch_is_planned() -> None:
    asked = (
        *("model=qwen-7b", "hardware=h100", "hardware.devices_per_run=4", "budget=1e20"),
        *("hardware.sharding=fsdp", "recipe=grpo", "task=math"),
        *("grid.num_generations=[8,32]", "grid.problems_per_batch=[16,64]"),
    )
    chosen = table_of(*asked)
    fixed = [table_of(*asked, f"recipe.micro_batch={size}") for size in (1, 2, 4, 8)]
    fitting = [table for table in fixed if (table.memory.micro_batch > 0).all()]
    assert len(fitting) >= 3
    for table in fitting:
        assert (chosen.phases.total <= table.phases.total * (1 + 1e-9)).all()
    assert (chosen.memory.peak <= chosen.config.hardware.usable_bytes).all()


TWO = ("model=qwen-0.5b", "hardware=h100", "budget=1e18", "recipe.rollout_lag=2")
BESIDE = ("hardware.devices_per_run=2", "generation.overlap=true")


def test_generation_and_scoring_go_on_beside_training() -> None:
    beside, alone = phases(*TWO, *BESIDE), phases(*TWO)
    assert beside.beside is not None
    longer = np.maximum(beside.generation + beside.beside, beside.learning)
    np.testing.assert_allclose(beside.total, longer + beside.transfer)
    # The run on the one device that trains, which samples and scores as well.
    assert alone.beside is None
    assert np.all(beside.total < alone.total)
    np.testing.assert_allclose(beside.generation, alone.generation)
    np.testing.assert_allclose(
        beside.training + beside.overhead + beside.beside, alone.training + alone.overhead
    )
    # The weights go through the host's memory.
    parameters = make_config(*TWO).model.architecture.parameters
    assert beside.transfer == pytest.approx(2 * 4 * parameters / 6.4e10)


@pytest.mark.parametrize("generation", ["transformers", "vllm"])
def test_each_kind_of_device_has_its_own_memory(generation: str) -> None:
    asked = (*TWO, "model=qwen-1.5b", "hardware.memory_gb=40", f"generation={generation}")
    beside, shared = table_of(*asked, *BESIDE).memory, table_of(*asked).memory
    # The trainer's states and an engine do not fit one device together.
    assert beside.micro_batch.max() > 0
    assert np.all(beside.peak[beside.micro_batch > 0] <= 0.9 * 40e9)
    assert np.all(beside.needed <= shared.needed)
    assert np.all(beside.concurrency >= shared.concurrency)


def _best_makespan(durations: list[float], places: int) -> float:
    return min(
        max(
            sum(d for d, where in zip(durations, choice, strict=True) if where == place)
            for place in range(places)
        )
        for choice in itertools.product(range(places), repeat=len(durations))
    )


@settings(max_examples=60)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=7), st.integers(1, 3))
def test_longest_first_keeps_its_bounds(durations: list[float], places: int) -> None:
    end, best = makespan(durations, places), _best_makespan(durations, places)
    assert makespan_bound(durations, places) <= best * (1 + 1e-9)
    assert best <= end * (1 + 1e-9)
    assert end <= best * (4 / 3 - 1 / (3 * places)) * (1 + 1e-9)
