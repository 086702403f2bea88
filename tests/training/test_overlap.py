"""A generator beside its trainer: the records of the lag alone, whatever ends either process."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.machine import process_alive
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun
from tests.conftest import make_config
from tests.runs import reproducible, wait_for
from tests.training.builders import (
    OFTEN,
    exit_status,
    in_a_process,
    metrics,
    prepared,
    spec_of,
    state_of,
)

pytestmark = pytest.mark.train

HALF, WHOLE = 1e9, 2e9
SMALL = ("task.num_train_problems=64", "task.num_eval_problems=8", "recipe.learning_rate=1e-3")


def lagging(lag: int, *overrides: str) -> RunSpec:
    return spec_of(f"recipe.rollout_lag={lag}", *SMALL, *overrides, micro=8)


def beside(spec: RunSpec) -> RunSpec:
    """The same run, with a generator."""
    return replaced(spec, generation=replaced(spec.generation, overlap=True))


def work_of(run: RunPaths, budget: float, stuck_after_s: float | None = None) -> Callable[[], Any]:
    """An attempt at the run that saves often."""
    goal, health = (HALF, budget), make_config().health
    job = TrainRun(str(run.root), goal, "flops", health, OFTEN, stuck_after_s)
    return partial(train_unsubmitted, job)


def taken_to(run: RunPaths, budget: float = WHOLE) -> RunPaths:
    assert exit_status(in_a_process(work_of(run, budget))) == 0
    return run


def disturbed(work: Callable[[], Any], disturb: Callable[[int, int], object]) -> int:
    """A process at `work`; `disturb` is told of each step whose generation was asked for, and of
    the process that makes it."""

    def attempt() -> None:
        from isosweep.training.generator import Generator

        begin = Generator.begin

        def begun(self: Generator, count: int, state: dict[str, Any]) -> None:
            begin(self, count, state)
            assert self._process is not None
            disturb(self._trainer.steps_done, self._process.pid)

        Generator.begin = begun  # type: ignore[method-assign]
        work()

    return in_a_process(attempt)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The run of lag 1 in one process."""
    return taken_to(prepared(lagging(1), tmp_path_factory.mktemp("straight")))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_trainers_share_what_the_generator_samples(tmp_path: Path) -> None:
    link = "hardware.interconnect_bandwidth=1e10"
    spec = lagging(1, "hardware.devices_per_run=2", link, "recipe.lora_rank=4", "recipe.beta=0.04")
    alone = taken_to(prepared(spec, tmp_path / "alone"))
    run = taken_to(prepared(beside(spec), tmp_path / "beside"))
    assert metrics(run) == metrics(alone)
    records = reproducible(run), reproducible(alone)
    for record in (*records[0], *records[1]):
        # What each process pads follows from the rollouts that it scores.
        del record["compute"]["scoring_hardware_flops"]
    assert records[0] == records[1]
    assert len(records[0]) > 2


def test_whatever_ends_a_generator_the_run_goes_on(straight: RunPaths, tmp_path: Path) -> None:
    run = prepared(beside(lagging(1)), tmp_path)
    kill, stop = signal.SIGKILL, signal.SIGSTOP
    # Killed at once, and amid a generation; and one that stands still.
    for at, later, sent, reason in (
        (1, 0.0, kill, "the generator ended with status -9 at step"),
        (3, 0.03, kill, "the generator ended with status -9 at step"),
        (4, 0.0, stop, "the generator has given no answers of step 4 for 2 s"),
    ):

        def disturb(step: int, generator: int, at: int = at, later: float = later) -> None:
            if step == at:
                time.sleep(later)
                os.kill(generator, sent)  # noqa: B023

        work = work_of(run, WHOLE, stuck_after_s=4.0 if sent is stop else None)
        assert exit_status(disturbed(work, disturb)) == 1
        assert state_of(run).status == "failed"
        assert f"GeneratorError: {reason}" in (state_of(run).reason or "")
    # It ends with its trainer, too.
    told = tmp_path / "generator"

    def note(step: int, generator: int) -> None:
        if step >= 4:
            told.write_text(str(generator))
            time.sleep(60)

    process = disturbed(work_of(run, WHOLE), note)
    wait_for(lambda: told.exists() and told.read_text(), 600)
    os.kill(process, signal.SIGKILL)
    assert exit_status(process) == -signal.SIGKILL
    wait_for(lambda: not process_alive(int(told.read_text())), seconds=10)
    assert reproducible(taken_to(run)) == reproducible(straight)
    assert metrics(run) == metrics(straight)
    assert len(metrics(run)) > 4
    spent = read_records(run.records).records[-1].compute
    assert min(spent.generation_seconds, spent.training_seconds) > 0


def test_what_a_generator_meets_is_the_reason_of_the_failure(tmp_path: Path) -> None:
    run = prepared(beside(lagging(1)), tmp_path)

    def work() -> None:
        from isosweep.training import lag

        lag.sampling_state = lambda trainer: {"stream": {}}
        work_of(run, WHOLE)()

    assert exit_status(in_a_process(work)) == 1
    assert state_of(run).reason == "GeneratorError: the generator failed: KeyError: 'epoch'"


def test_seconds_of_a_phase_count_the_devices_that_it_ran_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from isosweep.training import ledger

    spec = replaced(beside(lagging(1)), devices=3)
    # Of the generator's block, and of the trainers', which wait from 1 to 4 for the generator.
    clock = iter((0.0, 3.0, 0.0, 1.0, 4.0, 5.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    trainer, generator = ledger.Ledger(spec), ledger.Ledger(spec, generates=True)
    trainer.took("device", 5.0)
    with generator.timing("generation"):
        pass
    with trainer.timing("training"), trainer.timing(None):
        trainer.restore_sampling(generator.of_sampling())
    spent = trainer.spent
    assert spent.device_seconds == 20
    assert (spent.training_seconds, spent.generation_seconds) == (6, 3)
