"""What a job executes, from its submission's file to its end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.files import read_json, write_json
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths
from isosweep.store.state import claim_attempt, read_state
from isosweep.store.submissions import (
    LauncherName,
    Submission,
    close,
    newest_submission,
    request_cancel,
    submit,
)
from isosweep.training.__main__ import main
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import wait_for
from tests.training.test_interruption import in_a_process

pytestmark = pytest.mark.train


def spec() -> RunSpec:
    config = make_config("task.num_eval_problems=4", "evaluation.samples_per_problem=1")
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=16)


def submitted(
    root: Path, budget: float = 1e9, launcher: LauncherName = "local", **changed: object
) -> Submission:
    run = RunPaths(root / spec().run_id)
    if not run.root.exists():
        run.root.mkdir(parents=True)
        write_json(run.spec, {"spec": spec().to_json()})
    saving = CheckpointConfig(share=1.0, min_interval_s=0.0)
    document = TrainRun("", (budget,), "flops", make_config().health, saving).to_json() | changed
    del document["run_dir"]
    made = submit(run, launcher, document, "sweeps/s", "b1")
    assert made is not None
    return made


def file_of(submission: Submission) -> str:
    return str(submission.run.submission(submission.number))


def ended(submission: Submission) -> tuple[str, str]:
    state = newest_submission(submission.run)
    assert state is not None
    assert state.end is not None
    return state.end.outcome, state.end.reason


def execute(*argv: str) -> int:
    """The exit status of a worker, in a fork."""
    import isosweep.training.assembly  # noqa: F401  # forks have it imported

    _, status = os.waitpid(in_a_process(lambda: os._exit(main(list(argv)))), 0)
    return os.waitstatus_to_exitcode(status)


def test_a_submission_is_worked_on_and_ended(tmp_path: Path) -> None:
    submission = submitted(tmp_path)
    assert execute(file_of(submission)) == 0
    assert ended(submission) == ("finished", "")
    state = read_state(submission.run)
    assert state is not None
    assert (state.status, state.attempt, state.submission) == ("finished", 1, 1)
    job = newest_submission(submission.run)
    assert job is not None
    assert job.job is not None
    assert job.job.process is not None
    assert job.job.process.pid == state.pid
    # Whoever starts it again finds nothing to do.
    assert execute(str(submission.run.root)) == 0
    assert len(list(submission.run.attempts.iterdir())) == 1
