"""What a run asks of its host: memory to load, and bytes moved at every update."""

from functools import cache

import pytest

from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.costs.host import PROCESS_BYTES, host_bytes
from isosweep.launchers.sbatch import shape_of
from tests.conftest import make_config, plan_of


@cache
def qwen() -> SweepConfig:
    return make_config("model=qwen-7b", "hardware=h100", "hardware.devices_per_run=8")


def test_the_first_rank_of_fsdp_reads_the_weights() -> None:
    arch, recipe = qwen().model.architecture, qwen().recipe
    hardware = replaced(qwen().hardware, sharding="fsdp")
    penalised = replaced(recipe, beta=0.1)
    assert host_bytes(arch, recipe, hardware).loading == 4 * arch.parameters
    assert host_bytes(arch, penalised, hardware).loading == 2 * 4 * arch.parameters
    assert host_bytes(arch, recipe, hardware).processes == 8 * PROCESS_BYTES


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
