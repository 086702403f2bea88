"""Time: the roofline's limits, what scales with what, and schedules."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.padding import longest_of
from isosweep.costs.timing import sampling
from isosweep.plan.scheduling import makespan, makespan_bound
from tests.conftest import candidates_of, make_config


def qwen() -> SweepConfig:
    return make_config("model=qwen-7b", "hardware.generation_utilization=1")


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


def test_one_rollout_decodes_at_the_speed_of_reading_the_weights() -> None:
    arch, hardware = qwen().model.architecture, qwen().hardware
    reading = 2 * arch.active_parameters / hardware.memory_bandwidth
    assert _decode_seconds(qwen(), 1) == pytest.approx(reading, rel=1e-3)
    # Ten rollouts read the same weights.
    assert _decode_seconds(qwen(), 10) == pytest.approx(reading, rel=1e-2)


def test_many_rollouts_decode_at_the_speed_of_arithmetic_and_long_ones_at_that_of_the_cache() -> (
    None
):
    arch, hardware = qwen().model.architecture, qwen().hardware
    arithmetic = 4096 * 2 * arch.active_parameters / hardware.peak_flops
    assert _decode_seconds(qwen(), 4096) == pytest.approx(arithmetic, rel=0.02)
    cache = 64 * 30_000 * 2 * 2 * 28 * 4 * 128 / hardware.memory_bandwidth
    reading = 2 * arch.active_parameters / hardware.memory_bandwidth
    assert _decode_seconds(qwen(), 64, prompt=30_000.0) == pytest.approx(cache + reading, rel=0.01)


def test_a_mixture_reads_more_experts_the_more_rollouts_ask() -> None:
    config = make_config("model=qwen3-30b-a3b", "hardware.generation_utilization=1")
    arch, bandwidth = config.model.architecture, config.hardware.memory_bandwidth
    assert _decode_seconds(config, 1) * bandwidth == pytest.approx(
        2 * arch.active_parameters, rel=1e-3
    )
    everything = 2 * (arch.layer_weights + arch.embedding_weights)
    assert _decode_seconds(config, 128) * bandwidth == pytest.approx(everything, rel=0.01)


def test_twice_the_completions_train_twice_as_long_on_one_device_and_as_long_on_two() -> None:
    spread = ("hardware.devices_per_run=2", "hardware.sharding=ddp")
    one, two = (
        # Answers so short that all are decoded at once, whatever memory is left.
        candidates_of(make_config("model=qwen-1.5b", "task=sort_instruct", "budget=1e20", *more))[0]
        for more in ((), spread)
    )
    # Among more rollouts there are more of a length: a little less padding.
    assert 1.9 < one.phases.training[1, 0] / one.phases.training[0, 0] < 2
    assert two.phases.training[1, 0] == pytest.approx(one.phases.training[0, 0])
    assert (two.phases.update > one.phases.update / 2).all()
    # A run never takes less device time for being spread.
    assert (2 * two.seconds > one.seconds * 0.99).all()


@pytest.mark.parametrize(
    ("sharding", "moves", "gathers"),
    # Weights are gathered to score and twice to train; FSDP's gradients, in float32, are reduced as
    # often as it trains.
    [("ddp", 2, 0), ("fsdp", 0, 5)],
)
def test_devices_exchange_gradients_once_and_gather_weights_for_every_micro_batch(
    sharding: str, moves: int, gathers: int
) -> None:
    config = make_config(
        *("recipe.micro_batch=4", "grid.num_generations=[16,64]"),
        *("model=qwen-0.5b", "budget=1e20", f"hardware.sharding={sharding}"),
        *("hardware.devices_per_run=4", "hardware.interconnect_bandwidth=1e10"),
    )
    faster = replaced(config.hardware, interconnect_bandwidth=2e10)
    slow, fast = (
        candidates_of(each)[0].phases.update for each in (config, replaced(config, hardware=faster))
    )
    # Each sends three quarters of all, in 2 bytes for a parameter: half as long at twice the speed.
    each = 3 / 4 * 2 * config.model.architecture.parameters / 2e10
    table = candidates_of(config)[0]
    micro_batches = table.completions / 4 / table.memory.micro_batch
    assert slow - fast == pytest.approx(each * (moves + gathers * micro_batches))


# Bytes for each parameter that a device sends to another node: for every update, and for every
# micro-batch. Of 4 devices on 2 nodes a ring takes three quarters of all over the two cards of a
# node.
@pytest.mark.parametrize(
    ("sharding", "update", "micro_batch"),
    [
        ("ddp", 2 * 2 * 3 / 4 / 2, 0),
        ("fsdp", 0, (3 * 2 + 4) * 3 / 4 / 2),
    ],
)
def test_nodes_exchange_over_a_card_for_each_device(
    sharding: str, update: float, micro_batch: float
) -> None:
    config = make_config(
        *("recipe.micro_batch=4", "grid.num_generations=[16,64]", "launcher=slurm"),
        *("model=qwen-0.5b", "budget=1e20", f"hardware.sharding={sharding}"),
        *("hardware.devices_per_run=4", "hardware.nodes_per_run=2"),
        *("hardware.interconnect_bandwidth=1e18", "hardware.node_bandwidth=1e9"),
    )
    faster = replaced(config.hardware, node_bandwidth=2e9)
    slow, fast = (
        candidates_of(each)[0].phases.update for each in (config, replaced(config, hardware=faster))
    )
    table, parameters = candidates_of(config)[0], config.model.architecture.parameters
    micro_batches = table.completions / 4 / table.memory.micro_batch
    sent = parameters * (update + micro_batch * micro_batches)
    assert slow - fast == pytest.approx(sent / 2e9, rel=1e-5)


def test_checkpointing_recomputes_the_layers_and_not_the_head() -> None:
    with_it, without = (
        candidates_of(
            make_config("model=qwen-0.5b", f"hardware.gradient_checkpointing={on}", "budget=1e20")
        )[0].phases.training[0, 0]
        for on in ("true", "false")
    )
    # Of one pass of old log-probabilities and three of training a fourth is computed again at most.
    assert 1.1 < with_it / without < 1.25


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


@pytest.mark.parametrize("draws", [1, 2])
def test_what_is_spent_beside_the_device_counts_once_for_each_of_its_causes(draws: int) -> None:
    again = ("recipe.zero_variance=resample", "recipe.max_draws=2", f"recipe.planned_draws={draws}")
    updates = ("recipe.num_iterations=3", "grid.num_generations=[8]", "grid.problems_per_batch=[4]")
    plain = make_config(
        "model=qwen-0.5b", "generation=transformers", "budget=1e17", *updates, *again
    )

    def seconds(**overheads: Any) -> float:
        hardware = replaced(plain.hardware, **overheads)
        (table,) = candidates_of(replaced(plain, hardware=hardware))
        return float(table.phases.total[0, 0])

    none: dict[str, float] = dict.fromkeys(
        ("step_overhead_s", "token_overhead_s", "pass_overhead_s", "answer_overhead_s"), 0.0
    )
    least = seconds(**none)
    causes: dict[str, float] = {
        "step_overhead_s": 1,
        "token_overhead_s": draws * (float(longest_of(plain.task.lengths, np.array(32.0))) - 1),
        "answer_overhead_s": draws * 8 * 4,
    }
    for name, times in causes.items():
        assert seconds(**none | {name: 2.0}) - least == pytest.approx(2 * times), name


def test_a_ring_over_nodes_is_as_fast_as_its_slowest_link() -> None:
    shared = (
        *("model=qwen-0.5b", "hardware=h100", "budget=1e20", "hardware.sharding=fsdp"),
        *("hardware.devices_per_run=8", "launcher=slurm", "hardware.devices_per_node=8"),
    )
    one, fast, slow = (
        candidates_of(make_config(*shared, *more))[0].phases.update
        for more in (
            (),
            ("hardware.nodes_per_run=2", "hardware.node_bandwidth=4.5e11"),
            ("hardware.nodes_per_run=2",),
        )
    )
    # Four cards of 50 GB/s for every node, beside links of 450 GB/s.
    assert (fast == one).all()
    assert (slow > one).all()
