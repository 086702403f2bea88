"""Sweeps that are killed or stopped end as one that was left alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.store.paths import complete_checkpoints
from isosweep.store.state import read_state
from tests.conftest import SMALL, isosweep
from tests.modes.sweeps import QUIET, assert_same_records, wait_until_some_run_trains

# Each ends a sweep from outside and trains it again.
pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_a_killed_worker_is_retried_and_changes_no_record(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    state = read_state(run)
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    assert process.wait(timeout=300) == 0, _output(tmp_path)
    assert_same_records(tmp_path, straight)
    after = read_state(run)
    assert after is not None
    assert after.attempt > state.attempt


def test_a_killed_sweep_is_finished_by_resume(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    process.kill()
    process.wait()
    state = read_state(run)
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    (sweep,) = (path.parent for path in tmp_path.glob("sweeps/*/plan.json"))
    isosweep("mode=resume", f"sweep_dir={sweep}", cwd=tmp_path)
    assert_same_records(tmp_path, straight)


def test_ctrl_c_leaves_checkpoints_and_resume_trains_nothing_twice(
    straight: Path, tmp_path: Path
) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130, _output(tmp_path)
    assert "mode=resume" in _output(tmp_path)
    state = read_state(run)
    assert state is not None
    assert (state.status, state.reason) == ("interrupted", "stopped by SIGTERM")
    assert complete_checkpoints(run.attempt_checkpoints(1)).keys() == {state.step}
    (sweep,) = (path.parent for path in tmp_path.glob("sweeps/*/plan.json"))
    isosweep("mode=resume", f"sweep_dir={sweep}", cwd=tmp_path)
    assert_same_records(tmp_path, straight)
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))


def _start(cwd: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "isosweep", "budget=[6.4e9,1.28e10]", *SMALL, *QUIET]
    with (cwd.parent / f"{cwd.name}.log").open("w") as log:
        return subprocess.Popen(
            command,
            cwd=cwd,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A shell that started the tests in the background has switched SIGINT off.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def _output(cwd: Path) -> str:
    return (cwd.parent / f"{cwd.name}.log").read_text()
