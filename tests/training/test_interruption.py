"""A run killed again and again gives the records of one that never was."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.plan.spec import RunSpec
from isosweep.store.checkpoints import fault
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import log_files, read_metrics, read_records
from isosweep.store.state import read_state
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import reproducible
from tests.training.builders import exit_status, in_a_process, prepared, spec_of

pytestmark = pytest.mark.train

KILLS = 20
# What a recipe can have of state beside weights and optimiser: retired problems, draws thrown
# away, several updates a generation.
SETTINGS = (
    *("recipe.zero_variance=resample", "recipe.max_draws=2", "recipe.retire_at=1"),
    *("recipe.retire_window=6", "recipe.mini_batches=2", "recipe.num_iterations=2"),
    *("task.num_train_problems=64", "task.num_eval_problems=16"),
    "evaluation.records_per_decade=20",
)
MILESTONES = (1e10, 2e10)


def small_run() -> RunSpec:
    return spec_of(*SETTINGS, micro=8)


def attempt(run: RunPaths, milestones: tuple[float, ...], interval_s: float = 0.0) -> int:
    """A process that trains the run."""
    saving = CheckpointConfig(share=1.0, min_interval_s=interval_s)
    return in_a_process(TrainRun(str(run.root), milestones, "flops", make_config().health, saving))


def finish(run: RunPaths, milestones: tuple[float, ...]) -> None:
    assert exit_status(attempt(run, milestones, 30.0)) == 0


def trained(run: RunPaths) -> int:
    """Lines of training metrics, of all attempts."""
    return sum(path.read_bytes().count(b"\n") for path in log_files(run.metrics).values())


def last_saved(run: RunPaths) -> int:
    """Step of the last complete checkpoint of any attempt."""
    saved = [max(complete_checkpoints(path), default=0) for path in run.checkpoints.glob("*")]
    return max(saved, default=0)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run to both budgets, never interrupted."""
    run = prepared(small_run(), tmp_path_factory.mktemp("straight"))
    finish(run, MILESTONES)
    return run


@pytest.mark.slow
def test_twenty_kills_change_no_record(straight: RunPaths, tmp_path: Path) -> None:
    run = prepared(small_run(), tmp_path)
    chance = random.Random(5)
    survived = 0
    last = read_records(straight.records).records[-1].step
    for number in range(KILLS):
        # All kills together fall short of the run's end, however fast the machine is. One in four
        # leaves a checkpoint of its own, however slow it is.
        saved = last_saved(run) if number % 4 == 0 else -1
        steps = chance.randint(0, last // (KILLS + 2))
        until = trained(run) + steps
        process = attempt(run, MILESTONES)
        deadline = time.monotonic() + 60
        while trained(run) < until or last_saved(run) <= saved:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # Somewhere within a step, a checkpoint, a record, or (without steps) the start.
        time.sleep(chance.uniform(0.0, 0.1 if steps else 1.0))
        os.kill(process, signal.SIGKILL)
        survived += exit_status(process) != -signal.SIGKILL
    finish(run, MILESTONES)
    assert survived == 0, "the run ended before all kills: they prove less"
    state = read_state(run)
    assert state is not None
    assert state.status == "finished"
    assert reproducible(run) == reproducible(straight)
    # Some attempts went on from checkpoints of others, and no step counts twice.
    counted = [line["step"] for line in read_metrics(run.metrics, run.records)]
    assert counted == list(range(1, state.step + 1))
    resumed = {line["attempt"] for line in read_metrics(run.metrics, run.records)}
    assert len(resumed) > 3
    # The last checkpoint is kept, and none of earlier attempts.
    (left,) = run.checkpoints.iterdir()
    assert left.name == str(state.attempt)
    ((step, checkpoint),) = complete_checkpoints(left).items()
    assert step == state.step
    assert fault(checkpoint) is None


@pytest.mark.slow
def test_a_run_extended_to_twice_its_budget_is_one_planned_for_it(
    straight: RunPaths, tmp_path: Path
) -> None:
    run = prepared(small_run(), tmp_path)
    finish(run, MILESTONES[:1])
    half = reproducible(run)
    assert half == reproducible(straight)[: len(half)]
    assert len(half) < len(reproducible(straight))
    finish(run, MILESTONES)
    assert reproducible(run) == reproducible(straight)
