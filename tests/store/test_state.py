"""Ownership of a run: who is alive, and that only the newest attempt writes."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store.paths import RunPaths
from isosweep.store.state import (
    SILENCE_S,
    OvertakenError,
    RunState,
    claim_attempt,
    known_state,
    mark,
    read_state,
    write_state,
)
from tests.runs import wait_for

RUNNING = RunState(
    status="running",
    attempt=1,
    host=socket.gethostname(),
    pid=os.getpid(),
    job_id=None,
    step=3,
    compute=Compute(generations=3, rollouts=24),
    reward=0.5,
    reason=None,
    updated=time.time(),
)


def test_a_state_is_read_as_written(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_state(run) is None
    write_state(run, RUNNING)
    assert read_state(run) == RUNNING
    warned = replace(RUNNING, status="diverged", warnings=("collapse",), diverged_by="collapse")
    write_state(run, warned)
    assert read_state(run) == warned


def test_a_state_from_before_there_were_warnings_is_read(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_state(run, RUNNING)
    document = json.loads(run.state.read_text())
    del document["warnings"], document["diverged_by"]
    run.state.write_text(json.dumps(document))
    assert read_state(run) == RUNNING


def test_an_owner_on_this_machine_is_alive_as_long_as_its_process() -> None:
    assert RUNNING.alive()
    # However long it has been silent.
    assert replace(RUNNING, updated=0.0).alive()
    assert not replace(RUNNING, status="finished").alive()
    process = subprocess.Popen([sys.executable, "-c", ""])
    # Unreaped, the process stays in the table as a zombie.
    wait_for(lambda: not replace(RUNNING, pid=process.pid).alive())
    process.wait()
    assert not replace(RUNNING, pid=process.pid).alive()


def test_an_owner_elsewhere_is_alive_until_it_falls_silent() -> None:
    elsewhere = replace(RUNNING, host="another-machine", pid=1)
    assert replace(elsewhere, updated=time.time() - SILENCE_S / 2).alive()
    assert not replace(elsewhere, updated=time.time() - SILENCE_S - 1).alive()


def test_attempts_claimed_at_once_get_different_numbers(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        attempts = list(pool.map(lambda _: claim_attempt(run, None), range(32)))
    assert sorted(attempt.number for attempt in attempts) == list(range(1, 33))


def test_an_overtaken_attempt_must_stop(tmp_path: Path) -> None:
    first = claim_attempt(RunPaths(tmp_path), None)
    first.check()
    claim_attempt(RunPaths(tmp_path), None).check()
    with pytest.raises(OvertakenError, match="attempt 2 owns the run"):
        first.check()


def test_a_run_is_marked_from_outside_without_losing_its_progress(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_state(run, RUNNING)
    mark(run, "failed", "lost")
    marked = read_state(run)
    assert marked is not None
    assert marked == replace(RUNNING, status="failed", reason="lost", updated=marked.updated)


@pytest.mark.parametrize("spoil", [{"status": "foo"}, {"unknown": 1}, {"compute": {"flops": 1}}])
def test_a_state_that_is_none_is_refused_with_a_remedy(
    spoil: dict[str, Any], tmp_path: Path
) -> None:
    run = RunPaths(tmp_path)
    write_state(run, RUNNING)
    document = read_json(run.state) or {}
    write_json(run.state, document | spoil)
    with pytest.raises(RecordError, match="remove it: the run then goes on"):
        read_state(run)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"version": 1}', "\x00\xff"])
def test_a_run_whose_state_is_garbage_has_failed_and_says_why(text: str, tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    claim_attempt(run, None)
    claim_attempt(run, None)
    run.state.write_text(text, encoding="latin-1")
    state = known_state(run)
    assert state is not None
    assert (state.status, state.attempt) == ("failed", 2)
    assert state.reason is not None
    assert state.reason.startswith(f"{run.state}: not the state of a run")
    assert not state.alive()


def test_a_stray_file_among_the_claims_is_no_attempt(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert claim_attempt(run, None).number == 1
    (run.attempts / "notes.json").write_text("{}")
    assert claim_attempt(run, None).number == 2
