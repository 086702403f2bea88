"""What a run asks of its host: memory to load, and bytes moved at every update."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from isosweep.config.hardware import Sharding
from isosweep.config.sweep import SweepConfig
from isosweep.costs import host
from isosweep.costs.host import PROCESS_BYTES, host_traffic
from isosweep.launchers.sbatch import shape_of
from tests.conftest import candidates_of, make_config, plan_of


@cache
def qwen() -> SweepConfig:
    return make_config("model=qwen-7b", "hardware=h100", "hardware.devices_per_run=8")


@pytest.mark.parametrize(
    ("sharding", "models", "with_reference"), [("fsdp", 1, 2), ("zero2", 8, 16), ("zero3", 8, 16)]
)
def test_ranks_load_as_the_libraries_let_them(
    sharding: Sharding, models: int, with_reference: int
) -> None:
    arch, recipe = qwen().model.architecture, qwen().recipe
    hardware = replace(qwen().hardware, sharding=sharding)
    penalised = replace(recipe, beta=0.1)
    assert host_bytes(arch, recipe, hardware).loading == models * 4 * arch.parameters
    assert host_bytes(arch, penalised, hardware).loading == with_reference * 4 * arch.parameters
    assert host_bytes(arch, recipe, hardware).processes == 8 * PROCESS_BYTES


def host_bytes(*given: Any, background: bool = False) -> host.HostBytes:
    return host.host_bytes(*given, background=background)


def test_a_checkpoint_in_the_background_is_written_from_a_copy() -> None:
    arch, recipe, plain = qwen().model.architecture, qwen().recipe, qwen().hardware
    fsdp = replace(plain, sharding="fsdp")
    assert host_bytes(arch, recipe, plain).staged == 0
    assert host_bytes(arch, recipe, plain, background=True).staged == 12 * arch.parameters
    assert host_bytes(arch, recipe, fsdp, background=True).staged == 0


def test_what_is_offloaded_lies_on_the_host_and_crosses_over() -> None:
    arch, recipe, plain = qwen().model.architecture, qwen().recipe, qwen().hardware
    size = arch.parameters
    assert host_bytes(arch, recipe, plain).offloaded == host_traffic(arch, recipe, plain) == 0
    zero = replace(plain, sharding="zero2", offload_optimizer=True)
    # Float32 weights and states of 12 bytes and bfloat16 gradients; gradients down, weights up.
    assert host_bytes(arch, recipe, zero).offloaded == 14 * size
    assert host_traffic(arch, recipe, zero) == 4 * size
    fsdp = replace(plain, sharding="fsdp", offload_optimizer=True)
    assert host_bytes(arch, recipe, fsdp).offloaded == 16 * size
    assert host_traffic(arch, recipe, fsdp) == 12 * size
    paged = replace(plain, optimizer="paged_adamw")
    assert host_bytes(arch, recipe, paged).offloaded == 8 * 8 * size
    assert host_traffic(arch, recipe, paged) == 16 * size


def test_host_memory_is_that_of_one_node() -> None:
    arch, recipe = qwen().model.architecture, qwen().recipe
    one = replace(qwen().hardware, sharding="fsdp", offload_optimizer=True)
    two = replace(one, devices_per_run=16)
    copies = replace(two, sharding="hsdp")
    whole, half, copied = (host_bytes(arch, recipe, each) for each in (one, two, copies))
    assert whole.processes == half.processes == copied.processes
    # The first rank of each node reads the weights.
    assert whole.loading == half.loading == copied.loading
    assert whole.offloaded == 2 * half.offloaded == copied.offloaded
    # Each device moves its own part: half as much of what twice as many share.
    assert host_traffic(arch, recipe, two) == host_traffic(arch, recipe, copies)


def test_a_job_asks_for_the_memory_of_one_of_its_nodes() -> None:
    shared = ("model=qwen-7b", "hardware=h100", "hardware.sharding=fsdp", "launcher=slurm")
    asked = []
    for devices in (8, 16):
        config = make_config(*shared, "budget=1e21", f"hardware.devices_per_run={devices}")
        asked.append(shape_of(config, plan_of(config).runs[0]).memory_mb)
    assert asked[0] == asked[1]


def test_weights_that_sleep_are_on_the_host_once_an_engine() -> None:
    shared = ("model=qwen-7b", "hardware=h100", "hardware.sharding=fsdp", "launcher=slurm")
    asked = []
    for size in (1, 4):
        config = make_config(
            *(*shared, "budget=1e21", "hardware.devices_per_run=8", "generation.sleep=true"),
            f"generation.tensor_parallel={size}",
        )
        asked.append(shape_of(config, plan_of(config).runs[0]).memory_mb / 1024)
    weights = 2 * config.model.architecture.parameters / 1e9
    assert asked[0] - asked[1] == pytest.approx(1.5 * 6 * weights, abs=1)


def test_an_update_waits_for_what_crosses_over() -> None:
    plain, paged = (
        candidates_of(
            make_config("model=qwen-1.5b", "hardware=h100", "budget=1e20", f"hardware.{setting}")
        )[0]
        for setting in ("optimizer=adamw", "optimizer=paged_adamw")
    )
    arch = make_config("model=qwen-1.5b").model.architecture
    crossing = 16 * arch.parameters / 6.4e10
    # States that are on the host are not read and written in the device's memory.
    saved = 2 * 8 * arch.parameters / 3.35e12
    assert paged.phases.update - plain.phases.update == pytest.approx(crossing - saved)
