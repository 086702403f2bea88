"""G generators beside R trainers: the records of R processes that sample and train in turn."""

import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state
from tests.runs import reproducible, wait_for
from tests.training import sharded
from tests.training.builders import (
    broken_off,
    exit_status,
    in_a_process,
    metrics,
    prepared,
    spec_of,
    trained,
)
from tests.training.test_overlap import SMALL, gone, work_of

pytestmark = [pytest.mark.train, pytest.mark.timeout(1200)]
BUDGETS = (1e9, 2e9)
Numbers = list[dict[str, Any]]


def lagging(trainers: int, *overrides: str) -> RunSpec:
    """A run of so many processes that sample and train in turn."""
    devices = f"hardware.devices_per_run={trainers}"
    link = ("hardware.interconnect_bandwidth=1e10",) * (trainers > 1)
    return spec_of("recipe.rollout_lag=1", devices, *link, *SMALL, *overrides, micro=8)


def beside(spec: RunSpec, generators: int) -> RunSpec:
    """The same run, with so many processes that sample for it."""
    split = replace(spec.generation, overlap=True, overlap_devices=generators)
    return replace(spec, generation=split)


def numbers(run: RunPaths) -> tuple[Numbers, Numbers]:
    """All that does not measure time."""
    assert len(metrics(run)) > 2
    return reproducible(run), metrics(run)


@pytest.fixture(scope="module")
def two_in_turn(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return trained(lagging(2), tmp_path_factory.mktemp("two"), BUDGETS)


@pytest.mark.slow
def test_two_generators_beside_two_trainers(two_in_turn: RunPaths, tmp_path: Path) -> None:
    run = trained(beside(lagging(2), 2), tmp_path, BUDGETS)
    assert run.run_id == two_in_turn.run_id
    assert numbers(run) == numbers(two_in_turn)


@pytest.mark.long
def test_trainers_that_are_killed_go_on(two_in_turn: RunPaths, tmp_path: Path) -> None:
    run = broken_off(beside(lagging(2), 2), tmp_path, BUDGETS, signal.SIGKILL)
    state = read_state(run)
    assert state is not None
    assert (state.status, state.attempt) == ("finished", 2)
    assert reproducible(run) == reproducible(two_in_turn)


@pytest.mark.long
def test_two_generators_beside_trainers_that_share_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sharded.let_in(monkeypatch)
    spec = replace(lagging(2), sharding="fsdp")
    alone = trained(spec, tmp_path / "alone", BUDGETS)
    run = trained(beside(spec, 2), tmp_path / "beside", BUDGETS)
    assert numbers(run) == numbers(alone)


@pytest.mark.long
@pytest.mark.parametrize(("trainers", "generators"), [(1, 2), (2, 1)])
def test_other_numbers_of_generators(trainers: int, generators: int, tmp_path: Path) -> None:
    spec = beside(lagging(trainers), generators)
    run = trained(spec, tmp_path, BUDGETS)
    alone = trained(lagging(trainers), tmp_path / "alone", BUDGETS)
    assert padding_apart(run) == padding_apart(alone)


@pytest.mark.long
def test_a_generator_beside_trainers_of_adapters(tmp_path: Path) -> None:
    spec = lagging(2, "recipe.lora_rank=4", "recipe.beta=0.04")
    run = trained(beside(spec, 1), tmp_path / "beside", BUDGETS)
    assert padding_apart(run) == padding_apart(trained(spec, tmp_path / "alone", BUDGETS))


def padding_apart(run: RunPaths) -> tuple[Numbers, Numbers]:
    """What each process pads follows from which rollouts it scores."""
    records, logged = numbers(run)
    for record in records:
        del record["compute"]["scoring_hardware_flops"]
    return records, logged


@pytest.mark.long
def test_one_of_two_generators_is_killed(two_in_turn: RunPaths, tmp_path: Path) -> None:
    spec = beside(lagging(2), 2)
    log = tmp_path / "log"
    run = prepared(spec, tmp_path)

    def attempt() -> None:
        sys.stderr = log.open("w", buffering=1)
        os.dup2(sys.stderr.fileno(), 2)
        work_of(run, BUDGETS[1])()

    process = in_a_process(attempt)
    try:
        wait_for(lambda: len(generators_of(run)) == 2 and len(metrics(run)) > 1, seconds=300)
        victim = generators_of(run)[-1]
        os.kill(victim, signal.SIGKILL)
        wait_for(partial(gone, victim))
    finally:
        assert exit_status(process) == 0
    assert "the generator ended with status -9 at step" in log.read_text()
    assert reproducible(run) == reproducible(two_in_turn)


def generators_of(run: RunPaths) -> list[int]:
    """The processes that sample for a run, as this machine lists them."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode()
        except OSError:
            continue
        if "isosweep.training.generator" in words and str(run.root) in words:
            found.append(int(place.parent.name))
    return sorted(found)
