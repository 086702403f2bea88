"""Sweeps that are killed or stopped end as one that was left alone."""

import getpass
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from isosweep.files import read_lines
from isosweep.store.claims import highest
from isosweep.store.paths import complete_checkpoints
from isosweep.store.records import log_files
from isosweep.store.state import HEARTBEAT_S
from tests.commands import Command
from tests.conftest import SMALL, isosweep
from tests.modes.sweeps import (
    QUIET,
    assert_same_records,
    outcome,
    runs,
    state_of,
    wait_until_some_run_trains,
)
from tests.runs import wait_for

# Each ends a sweep from outside and trains it again.
pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_a_killed_worker_is_retried_and_changes_no_record(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    state = state_of(run)
    os.kill(state.pid, signal.SIGKILL)
    assert process.wait(timeout=300) == 0, process.written
    assert_same_records(tmp_path, straight)
    assert state_of(run).attempt > state.attempt


def test_sweeps_that_are_renamed_for_a_while_are_waited_for(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    gone = (tmp_path / "sweeps").rename(tmp_path / "gone")
    wait_for(lambda: "No such file" in process.written)
    time.sleep(2 * HEARTBEAT_S)
    assert not (tmp_path / "sweeps").exists()
    gone.rename(tmp_path / "sweeps")
    assert process.wait(timeout=300) == 0, process.written
    assert process.written.count("No such file") == process.written.count("works again") == 1
    assert_same_records(tmp_path, straight)
    assert state_of(run).attempt == 1


def test_a_killed_sweep_is_finished_by_resume(straight: Path, tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    process.kill()
    process.wait(timeout=60)
    os.kill(state_of(run).pid, signal.SIGKILL)
    isosweep("mode=resume", cwd=tmp_path)
    assert_same_records(tmp_path, straight)


def test_ctrl_c_leaves_checkpoints_and_resume_trains_nothing_twice(
    straight: Path, tmp_path: Path
) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130, process.written
    assert "mode=resume" in process.written
    state = state_of(run)
    assert (state.status, state.reason) == ("interrupted", "stopped by SIGTERM")
    assert complete_checkpoints(run.attempt_checkpoints(1)).keys() == {state.step}
    isosweep("mode=resume", cwd=tmp_path)
    assert_same_records(tmp_path, straight)
    logs = log_files(run.metrics).values()
    lines = [line for log in logs for _, line in read_lines(log) if line]
    steps = [line["step"] for line in lines if "step" in line]
    assert steps == list(range(1, len(steps) + 1))


def test_a_second_ctrl_c_ends_the_runs_at_once(tmp_path: Path) -> None:
    process = _start(tmp_path)
    run = wait_until_some_run_trains(tmp_path)
    # Stopped, it writes no checkpoint.
    state = state_of(run)
    os.kill(state.pid, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: "stopping" in process.written)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130, process.written
    assert "ended at once" in process.written
    assert "Traceback" not in process.written
    assert state.process.alive() is False
    assert outcome(run) == "interrupted"


def test_one_driver_at_a_time_follows_a_sweep(straight: Path, tmp_path: Path) -> None:
    first = _start(tmp_path)
    state = state_of(wait_until_some_run_trains(tmp_path))
    # A run of a few seconds may be over before another driver has started.
    os.kill(state.pid, signal.SIGSTOP)
    second = _start(tmp_path, name="second")
    assert second.wait(timeout=300) == 0, second.written
    who = f"is driven by {getpass.getuser()} (process {first.pid} of {socket.gethostname()}, since"
    assert who in second.written
    assert "sweep:" not in second.written.partition(who)[2]
    os.kill(state.pid, signal.SIGCONT)
    first.kill()
    first.wait(timeout=60)
    isosweep("mode=resume", cwd=tmp_path)
    assert_same_records(tmp_path, straight)
    for run in runs(tmp_path):
        # Whoever follows: one job a run.
        assert highest(run.submissions) == 1


def _start(cwd: Path, *more: str, name: str = "") -> Command:
    settings = ("budget=[6.4e9,1.28e10]", *SMALL, *QUIET, *more)
    return Command(*settings, cwd=cwd, output=cwd.parent / f"{cwd.name}{name}")
