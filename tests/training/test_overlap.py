"""A generator beside its trainer: the records of the lag alone, whatever ends either process."""

import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import log_files, read_records
from isosweep.store.state import read_state
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import reproducible, wait_for
from tests.training.builders import exit_status, in_a_process, metrics, prepared, spec_of

pytestmark = pytest.mark.train

HALF, WHOLE = 1e9, 2e9
SMALL = ("task.num_train_problems=64", "task.num_eval_problems=8", "recipe.learning_rate=1e-3")
# What the next generation can follow from besides the weights and the step.
FEATURES = {
    "draws": ("recipe.zero_variance=resample", "recipe.max_draws=2", "recipe.retire_at=1"),
    "groups": ("recipe.zero_variance=drop", "recipe.beta=0.04"),
    "adapters": ("recipe.lora_rank=4", "recipe.scale_advantages=true", "recipe.scale_rewards=none"),
}


def lagging(lag: int, *overrides: str) -> RunSpec:
    return spec_of(f"recipe.rollout_lag={lag}", *SMALL, *overrides, micro=8)


def beside(spec: RunSpec) -> RunSpec:
    """The same run, with a generator."""
    return replace(spec, generation=replace(spec.generation, overlap=True))


def work_of(run: RunPaths, budget: float, stuck_after_s: float | None = None) -> Callable[[], Any]:
    """An attempt at the run that saves often."""
    saving, health = CheckpointConfig(share=1.0, min_interval_s=0.0), make_config().health
    goal = (HALF, budget)
    return TrainRun(str(run.root), goal, "flops", health, saving, stuck_after_s=stuck_after_s)


def taken_to(run: RunPaths, budget: float = WHOLE) -> RunPaths:
    assert exit_status(in_a_process(work_of(run, budget))) == 0
    return run


def disturbed(
    work: Callable[[], Any], disturb: Callable[[int, int], object], log: Path | None = None
) -> int:
    """A process at `work`; `disturb` is told of each step whose generation was asked for, and of
    the process that makes it. Its words go to `log`."""

    def attempt() -> None:
        from isosweep.training.beside import Beside

        begin = Beside.begin

        def begun(self: Beside, request: dict[str, Any]) -> None:
            begin(self, request)
            if "count" in request:
                disturb(request["step"], self._processes[-1].pid)

        Beside.begin = begun  # type: ignore[method-assign]
        if log is not None:
            sys.stderr = log.open("w", buffering=1)
        work()

    return in_a_process(attempt)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The run of lag 1 in one process."""
    return taken_to(prepared(lagging(1), tmp_path_factory.mktemp("straight")))


def test_records_and_metrics_are_those_of_a_lag_of_one(straight: RunPaths, tmp_path: Path) -> None:
    run = taken_to(prepared(beside(lagging(1)), tmp_path))
    assert run.run_id == straight.run_id
    assert reproducible(run) == reproducible(straight)
    assert metrics(run) == metrics(straight)
    assert len(metrics(run)) > 4
    # Both processes count: wall time times two, and each phase where it ran.
    spent, alone = (read_records(each.records).records[-1].compute for each in (run, straight))
    assert min(spent.generation_seconds, spent.training_seconds) > 0
    phases = ("generation", "reward", "scoring", "training")
    assert sum(getattr(spent, f"{phase}_seconds") for phase in phases) <= spent.device_seconds
    assert spent.rollouts == alone.rollouts


@pytest.mark.slow
def test_records_are_those_of_a_lag_of_three(tmp_path: Path) -> None:
    alone = taken_to(prepared(lagging(3), tmp_path / "alone"))
    run = taken_to(prepared(beside(lagging(3)), tmp_path / "beside"))
    assert reproducible(run) == reproducible(alone)
    assert metrics(run) == metrics(alone)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", FEATURES.values(), ids=FEATURES)
def test_whatever_a_generation_follows_from_goes_with_it(
    overrides: tuple[str, ...], tmp_path: Path
) -> None:
    spec = lagging(1, *overrides)
    alone = taken_to(prepared(spec, tmp_path / "alone"))
    run = taken_to(taken_to(prepared(beside(spec), tmp_path / "beside"), HALF))
    assert reproducible(run) == reproducible(alone)
    assert metrics(run) == metrics(alone)


@pytest.mark.parametrize("first", [False, True])
def test_a_run_begun_with_or_without_goes_on_the_other_way(
    first: bool, straight: RunPaths, tmp_path: Path
) -> None:
    from isosweep.files import write_json

    ways = [beside(lagging(1)), lagging(1)] if first else [lagging(1), beside(lagging(1))]
    run = prepared(ways[0], tmp_path)
    taken_to(run, HALF)
    write_json(run.spec, {"spec": ways[1].to_json()})
    assert reproducible(taken_to(run)) == reproducible(straight)


def test_a_generator_that_is_killed_is_started_again(straight: RunPaths, tmp_path: Path) -> None:
    run, log = prepared(beside(lagging(1)), tmp_path), tmp_path / "log"

    def kill(step: int, generator: int) -> None:
        # At once, and amid a generation.
        if step in (1, 4):
            time.sleep(0.03 * (step == 4))
            os.kill(generator, signal.SIGKILL)

    assert exit_status(disturbed(work_of(run, WHOLE), kill, log)) == 0
    assert reproducible(run) == reproducible(straight)
    assert log.read_text().count("the generator ended with status -9 at step") == 2


@pytest.mark.slow
def test_a_generator_that_always_ends_is_a_failure_to_try_again(
    straight: RunPaths, tmp_path: Path
) -> None:
    run = prepared(beside(lagging(1)), tmp_path)

    def work() -> None:
        from isosweep.training.beside import Beside

        start = Beside._start

        def started(self: Beside) -> None:
            start(self)
            os.kill(self._processes[0].pid, signal.SIGKILL)

        Beside._start = started  # type: ignore[method-assign]
        work_of(run, WHOLE)()

    assert exit_status(in_a_process(work)) == 1
    state = read_state(run)
    assert state is not None
    reason = "GeneratorError: the generator ended with status -9 at step 0, after 3 new starts"
    assert (state.status, state.reason) == ("failed", reason)
    assert reproducible(taken_to(run)) == reproducible(straight)


def test_a_generator_that_stands_still_ends_the_attempt_in_time(
    straight: RunPaths, tmp_path: Path
) -> None:
    run = prepared(beside(lagging(1)), tmp_path)

    def stop(step: int, generator: int) -> None:
        if step == 2:
            os.kill(generator, signal.SIGSTOP)

    assert exit_status(disturbed(work_of(run, WHOLE, stuck_after_s=4.0), stop)) == 1
    state = read_state(run)
    assert state is not None
    reason = "GeneratorError: the generator has given no answers of step 2 for 2 s"
    assert (state.status, state.reason) == ("failed", reason)
    assert reproducible(taken_to(run)) == reproducible(straight)


def test_what_a_generator_meets_is_the_reason_of_the_failure(tmp_path: Path) -> None:
    run = prepared(beside(lagging(1)), tmp_path)

    def work() -> None:
        from isosweep.training.channel import SharedWeights

        put = SharedWeights.put

        def other(self: SharedWeights) -> None:
            put(self)
            self.layout = "another model"

        SharedWeights.put = other  # type: ignore[method-assign]
        work_of(run, WHOLE)()

    assert exit_status(in_a_process(work)) == 1
    state = read_state(run)
    assert state is not None
    assert state.reason == (
        "GeneratorError: the generator failed: ValueError: the generator's model has other weights "
        "than the trainer's"
    )


def test_seconds_of_a_phase_count_the_devices_that_it_ran_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from isosweep.training import ledger

    spec = beside(lagging(1))
    spec = replace(spec, generation=replace(spec.generation, overlap_devices=3))
    # Of the generator's block, and of the trainer's, which waits from 1 to 4 for the generator.
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
    assert (spent.training_seconds, spent.generation_seconds) == (2, 9)


def gone(process: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True


def test_a_generator_ends_with_its_trainer_even_amid_a_generation(tmp_path: Path) -> None:
    run, told = prepared(beside(lagging(1)), tmp_path), tmp_path / "generator"

    def note(step: int, generator: int) -> None:
        if step == 2:
            # It neither reads nor computes: only a signal ends it.
            os.kill(generator, signal.SIGSTOP)
            told.write_text(str(generator))

    process = disturbed(work_of(run, WHOLE), note)
    wait_for(lambda: told.exists() and told.read_text())
    os.kill(process, signal.SIGKILL)
    assert exit_status(process) == -signal.SIGKILL
    wait_for(partial(gone, int(told.read_text())), seconds=10)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_twenty_kills_of_either_process_change_no_record(tmp_path: Path) -> None:
    alone = taken_to(prepared(lagging(3), tmp_path / "alone"), 12 * WHOLE)
    run, told = prepared(beside(lagging(3)), tmp_path / "beside"), tmp_path / "generator"
    chance = random.Random(3)

    def steps() -> int:
        return sum(path.read_bytes().count(b"\n") for path in log_files(run.metrics).values())

    def asked_after(least: int) -> bool:
        return told.exists() and told.read_text() != "" and steps() >= least

    for number in range(20):
        told.unlink(missing_ok=True)
        process = disturbed(
            work_of(run, 12 * WHOLE), lambda step, generator: told.write_text(str(generator))
        )
        until = steps() + chance.randint(0, 3)
        wait_for(partial(asked_after, until))
        time.sleep(chance.uniform(0.0, 0.2))
        generator = int(told.read_text())
        if number % 2:
            # The trainer starts another, and is killed while that loads or computes.
            os.kill(generator, signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 5.0))
        os.kill(process, signal.SIGKILL)
        assert exit_status(process) == -signal.SIGKILL, "the run ended before all kills"
        wait_for(partial(gone, generator), seconds=10)
    taken_to(run, 12 * WHOLE)
    assert reproducible(run) == reproducible(alone)


@pytest.fixture
def ends() -> Iterator[tuple[Any, Any, list[bool]]]:
    """Both ends of a channel, and whether the other process is there."""
    from isosweep.training.channel import Channel

    (a, b), there = socket.socketpair(), [True]
    with a, b:
        yield Channel(a, lambda: there[0]), Channel(b), there


def test_a_message_has_its_values_and_its_tensors_in_order(
    ends: tuple[Any, Any, list[bool]],
) -> None:
    import torch

    here, over_there, _ = ends
    tensors = {"b": torch.arange(6).view(2, 3).T, "a": torch.tensor(0.1), "c": torch.zeros(0)}
    over_there.send({"loss": float("nan"), "rate": 0.1}, tensors)
    said, came = here.receive(1.0)
    assert said["loss"] != said["loss"]
    assert said["rate"] == 0.1
    assert list(came) == list(tensors)
    assert all(torch.equal(came[name], tensors[name]) for name in tensors)


def test_a_channel_says_that_nobody_is_there_or_nobody_answers(
    ends: tuple[Any, Any, list[bool]],
) -> None:
    here, over_there, there = ends
    with pytest.raises(TimeoutError):
        here.receive(0.0)
    over_there.send({"said": "before its end"})
    there[0] = False
    assert here.receive(1.0).said == {"said": "before its end"}
    # Its end of the socket may be held open by what it started.
    with pytest.raises(EOFError):
        here.receive(60.0)
    there[0] = True
    over_there.close()
    with pytest.raises(EOFError):
        here.receive(60.0)
    with pytest.raises(EOFError):
        here.send({})
