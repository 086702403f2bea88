"""A generator beside its trainer: the time of a step, and the memory."""

import numpy as np
import pytest

from isosweep.plan.candidates import Candidates
from tests.conftest import candidates_of, make_config

LAG = ("recipe.rollout_lag=2",)
TWO = ("model=qwen-0.5b", "hardware=h100", "budget=1e18", "hardware.devices_per_run=2")
BESIDE = (*TWO, *LAG, "generation.overlap=true")


def table_of(*overrides: str) -> Candidates:
    (table,) = candidates_of(make_config(*overrides))
    return table


def test_generation_and_scoring_go_on_beside_training() -> None:
    table, alone = table_of(*BESIDE), table_of(*TWO[:3], *LAG)
    beside, phases = table.phases.beside, table.phases
    assert beside is not None
    training = phases.training + phases.update + phases.overhead
    longer = np.maximum(phases.generation + beside.scoring, training)
    np.testing.assert_allclose(phases.total, longer + beside.transfer)
    # The run on the one device that trains, which samples and scores as well.
    assert alone.phases.beside is None
    assert np.all(phases.total < alone.phases.total)
    np.testing.assert_allclose(phases.generation, alone.phases.generation)
    np.testing.assert_allclose(
        phases.training + phases.overhead + beside.scoring,
        alone.phases.training + alone.phases.overhead,
    )


@pytest.mark.parametrize("generation", ["transformers", "vllm"])
def test_each_kind_of_device_has_its_own_memory(generation: str) -> None:
    model = ("model=qwen-1.5b", "hardware.memory_gb=40", f"generation={generation}")
    beside = table_of(*BESIDE, *model).memory
    shared = table_of(*TWO[1:3], *LAG, *model).memory
    # The trainer's states and an engine do not fit one device together.
    assert beside.micro_batch.max() > 0
    assert np.all(beside.peak[beside.micro_batch > 0] <= 0.9 * 40e9)
    assert np.all(beside.needed <= shared.needed)
    assert np.all(beside.concurrency >= shared.concurrency)
    if beside.engine is not None:
        assert np.all(beside.engine.share[beside.micro_batch > 0] > 0.5)


def test_weights_go_through_the_hosts_memory() -> None:
    def transfer(*overrides: str) -> float:
        beside = table_of(*BESIDE, *overrides).phases.beside
        assert beside is not None
        return beside.transfer

    parameters = make_config(*TWO).model.architecture.parameters
    assert transfer() == pytest.approx(2 * 4 * parameters / 6.4e10)
    half = "hardware.weights_dtype=bfloat16"
    assert transfer(half) == pytest.approx(transfer() / 2)
