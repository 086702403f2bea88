"""Ownership of a run: who is alive, and that only the newest attempt writes."""

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
    OvertakenError,
    RunState,
    claim_attempt,
    known_state,
    read_state,
)
from isosweep.store.submissions import Process
from tests.runs import wait_for

RUNNING = RunState(
    status="running",
    attempt=1,
    host=socket.gethostname(),
    pid=os.getpid(),
    step=3,
    compute=Compute(generations=3, rollouts=24),
    reward=0.5,
    reason=None,
    updated=time.time(),
)


def written(root: Path, state: RunState = RUNNING) -> RunPaths:
    """A run whose only attempt last wrote `state`."""
    attempt = claim_attempt(RunPaths(root))
    attempt.write(state)
    return attempt.run


@pytest.mark.parametrize("sync", [True, False])
def test_a_state_is_read_as_written(sync: bool, tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_state(run) is None
    attempt = claim_attempt(run, 3)
    claimed = read_state(run)
    assert claimed is not None
    assert (claimed.status, claimed.attempt, claimed.submission) == ("running", 1, 3)
    assert (claimed.activity, claimed.process.alive()) == ("starting", True)
    warned = replace(RUNNING, status="diverged", warnings=("collapse",), diverged_by="collapse")
    attempt.write(warned, sync=sync)
    assert read_state(run) == warned


def test_an_attempt_begins_with_what_the_one_before_had_done(tmp_path: Path) -> None:
    run = written(tmp_path)
    claim_attempt(run)
    state, before = read_state(run), read_state(run, before=2)
    assert state is not None
    assert (state.attempt, state.step, state.compute) == (2, 3, RUNNING.compute)
    assert before == RUNNING
    assert read_state(run, before=1) is None


def test_a_process_is_alive_until_it_has_ended_and_is_no_other_of_its_number() -> None:
    this = Process.this()
    assert this.alive()
    assert replace(this, host="another-machine").alive() is None
    assert replace(this, start=(this.start or 0) + 1).alive() is False
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child = Process.of(process.pid)
    assert child.alive()
    process.kill()
    # Unreaped, the process stays in the table as a zombie.
    wait_for(lambda: child.alive() is False)
    process.wait()
    assert child.alive() is False


def test_attempts_claimed_at_once_get_different_numbers(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        attempts = list(pool.map(lambda _: claim_attempt(run), range(32)))
    assert sorted(attempt.number for attempt in attempts) == list(range(1, 33))


def test_an_overtaken_attempt_must_stop(tmp_path: Path) -> None:
    first = claim_attempt(RunPaths(tmp_path))
    first.check()
    claim_attempt(RunPaths(tmp_path)).check()
    with pytest.raises(OvertakenError, match="attempt 2 owns the run"):
        first.check()


@pytest.mark.parametrize(
    "spoil",
    [
        *({"status": "foo"}, {"version": 99}),
        *({"compute": {"rollouts": "x"}}, {"updated": "today"}),
    ],
)
def test_a_state_that_is_none_is_refused_with_a_remedy(
    spoil: dict[str, Any], tmp_path: Path
) -> None:
    run = written(tmp_path)
    document = read_json(run.attempt(1)) or {}
    write_json(run.attempt(1), document | spoil)
    with pytest.raises(RecordError, match="remove it: the run then goes on"):
        read_state(run)


GARBAGE = ["", "{", "[]", '"x"', '{"version": 1}', "\x00\xff", "[" * 100_000, "7"]


@pytest.mark.parametrize("text", GARBAGE)
def test_a_run_whose_state_is_garbage_has_failed_and_says_why(text: str, tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    path = claim_attempt(run).run.attempt(1)
    path.write_text(text, encoding="latin-1")
    state = known_state(run)
    assert state is not None
    assert (state.status, state.attempt) == ("failed", 1)
    assert state.reason is not None
    assert state.reason.startswith(f"{path}: not the state of a run")
    # The next attempt has a file of its own, and what was there is left.
    assert claim_attempt(run).number == state.attempt + 1
    assert path.read_text(encoding="latin-1") == text
    now = read_state(run)
    assert now is not None
    assert now.status == "running"


def test_a_directory_in_the_place_of_a_state_is_named(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.attempt(1).mkdir(parents=True)
    with pytest.raises(RecordError, match=r"attempts/1\.json: .*a directory where a file belongs"):
        read_state(run)
    assert claim_attempt(run).number == 2


def test_a_stray_file_among_the_claims_is_no_attempt(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert claim_attempt(run).number == 1
    (run.attempts / "notes.json").write_text("{}")
    assert claim_attempt(run).number == 2
