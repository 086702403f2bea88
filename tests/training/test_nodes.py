"""A run of two nodes with a process each, on this machine: they meet, and end as one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state
from isosweep.store.submissions import Submission, read_submission, submit
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import log_lines, reproducible, wait_for
from tests.training.builders import prepared, spec_of, trained

pytestmark = pytest.mark.train
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")


def of_two() -> RunSpec:
    return spec_of(*TWO, "task.num_eval_problems=8", micro=8)


def submitted(root: Path, *milestones: float) -> Submission:
    """A submission of a run that goes to a scheduler of the user's."""
    if not (root / "runs").exists():
        prepared(of_two(), root)
    run = RunPaths(root / "runs" / of_two().run_id)
    document = TrainRun("", milestones, "flops", make_config().health).to_json()
    del document["run_dir"]
    made = submit(run, "command", document, "sweeps/s", "b1")
    assert made is not None
    return made


def node(number: int, submission: Submission, of: int = 2) -> subprocess.Popen[bytes]:
    """The worker that a job starts on one of its nodes."""
    place = {"ISOSWEEP_NODE": str(number), "ISOSWEEP_NODES": str(of)}
    words = ["-P", "-m", "isosweep.training", str(submission.path)]
    return subprocess.Popen([sys.executable, *words], env={**os.environ, **place})


@contextmanager
def both(submission: Submission) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The workers of both nodes; what is left of them is killed."""
    workers = [node(0, submission), node(1, submission)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def worked_on(submission: Submission) -> list[int]:
    with both(submission) as workers:
        return [worker.wait(180) for worker in workers]


def end_of(submission: Submission) -> tuple[str, str]:
    end = read_submission(submission.run, submission.number).end
    assert end is not None
    return end.outcome, end.reason


def trains(run: RunPaths, steps: int = 3) -> bool:
    return len(log_lines(run.metrics)) >= steps


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The same run on one node of two processes, left alone."""
    return trained(of_two(), tmp_path_factory.mktemp("straight"), (1e9, 2e9))


def test_two_nodes_train_as_one_with_two_processes_and_are_extended(
    straight: RunPaths, tmp_path: Path
) -> None:
    first = submitted(tmp_path, 1e9)
    assert worked_on(first) == [0, 0]
    assert end_of(first) == ("finished", "")
    second = submitted(tmp_path, 1e9, 2e9)
    assert worked_on(second) == [0, 0]
    assert reproducible(first.run) == reproducible(straight)
    state = read_state(first.run)
    assert state is not None
    assert (state.status, state.attempt, state.warnings) == ("finished", 2, ())


def test_a_signal_to_either_node_leads_to_one_checkpoint(
    straight: RunPaths, tmp_path: Path
) -> None:
    submission = submitted(tmp_path, 1e9, 2e9)
    with both(submission) as workers:
        wait_for(lambda: trains(submission.run), 90)
        workers[1].send_signal(signal.SIGTERM)
        assert [worker.wait(60) for worker in workers] == [0, 0]
    assert end_of(submission) == ("interrupted", "stopped by SIGTERM")
    # It goes on in one node.
    again = submitted(tmp_path, 1e9, 2e9)
    assert node(0, again, of=1).wait(180) == 0
    assert reproducible(submission.run) == reproducible(straight)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_node_that_is_killed_ends_the_other(gone: int, tmp_path: Path) -> None:
    submission = submitted(tmp_path, 1e12)
    with both(submission) as workers:
        wait_for(lambda: trains(submission.run), 90)
        workers[gone].kill()
        assert workers[1 - gone].wait(60) == gone
    if gone == 1:
        outcome, reason = end_of(submission)
        assert outcome == "failed"
        assert reason.startswith("ChildProcessError: ")
    else:
        # Nobody is there to say that it is over.
        assert read_submission(submission.run, 1).end is None
