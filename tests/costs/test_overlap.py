"""A generator beside its trainer: the time of a step against drawn generations, and the memory."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.config.task import Lengths
from isosweep.costs.overlap import paced
from isosweep.costs.padding import longest_spread
from isosweep.plan.candidates import Candidates
from tests.conftest import candidates_of, make_config
from tests.costs.test_padding import exponential

LAG = ("recipe.rollout_lag=2",)
TWO = ("model=qwen-0.5b", "hardware=h100", "budget=1e18", "hardware.devices_per_run=2")
BESIDE = (*TWO, *LAG, "generation.overlap=true")


def table_of(*overrides: str) -> Candidates:
    (table,) = candidates_of(make_config(*overrides))
    return table


@pytest.mark.parametrize("learning", [0.5, 0.9, 1.0, 1.1, 2.0])
@pytest.mark.parametrize("spread", [0.0, 0.05, 0.3])
def test_a_step_takes_the_mean_of_the_longer_of_both(learning: float, spread: float) -> None:
    drawn = np.random.default_rng(0).normal(1.0, spread, 400_000)
    (step,) = paced(np.array([1.0]), np.array([learning]), np.array([spread]))
    assert step == pytest.approx(np.maximum(drawn, learning).mean(), rel=2e-3)
    assert max(1.0, learning) - 1e-12 <= step <= 1.0 + learning


@pytest.mark.parametrize(("mean", "longest"), [(300, 2048), (1500, 16384), (3500, 4096)])
@pytest.mark.parametrize("rollouts", [8, 64, 512])
def test_the_longest_answer_varies_as_in_drawn_generations(
    mean: float, longest: float, rollouts: int
) -> None:
    rng = np.random.default_rng(0)
    lengths = exponential(rng, mean, longest, (4000, rollouts))
    lengths = np.where(rng.random(lengths.shape) < 1e-3, longest, lengths)
    named = Lengths(prompt=1.0, completion=mean, longest=longest)
    found = longest_spread(named, np.array([float(rollouts)]))[0]
    assert found == pytest.approx(lengths.max(1).std(), rel=0.1, abs=0.002 * longest)


def test_generation_and_scoring_go_on_beside_training() -> None:
    table, alone = table_of(*BESIDE), table_of(*TWO[:3], *LAG)
    beside, phases = table.phases.beside, table.phases
    assert beside is not None
    training = phases.training + phases.update + phases.overhead
    longer = np.maximum(phases.generation + beside.scoring, training)
    assert np.all(longer + beside.transfer <= phases.total + 1e-9)
    assert np.all(phases.total <= longer + beside.spread + beside.transfer)
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
    # FSDP's devices write a part each.
    split = ("hardware.devices_per_run=3", "hardware.sharding=fsdp")
    assert transfer(*split) == pytest.approx(0.75 * transfer())


def test_a_cpu_samples_in_a_process_beside_the_trainer() -> None:
    config = make_config(*LAG, "generation.overlap=true")
    assert (config.devices_taken, config.run_hardware.devices_per_run) == (2, 1)
    assert config.devices_taken == 2
    assert replace(config, generation=make_config().generation).devices_taken == 1
