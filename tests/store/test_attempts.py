"""Ownership of a run: who is alive, and that only the newest attempt writes."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store.attempts import (
    Attempt,
    OvertakenError,
    Process,
    Status,
    begin,
    claim,
    create_attempt,
    newest,
    read,
)
from isosweep.store.paths import RunPaths
from tests.runs import wait_for


def submitted(root: Path) -> Attempt:
    root.mkdir(exist_ok=True)
    attempt = create_attempt(RunPaths(root), "slurm", "a-sweep", {"unit": "flops"}, "a-batch", 3)
    assert attempt is not None
    return attempt


def test_an_attempt_is_queued_then_runs_and_is_read_as_written(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert newest(run) is None
    attempt = submitted(tmp_path)
    assert newest(run) == attempt
    assert (attempt.number, attempt.status, attempt.begun) == (1, Status.QUEUED, False)
    own = begin(attempt, "17_3")
    assert newest(run) == own
    assert (own.number, own.status, own.job_id) == (1, Status.RUNNING, "17_3")
    assert own.worker == Process.this()
    ended = replace(own, status=Status.DIVERGED, warnings=("collapse",), diverged_by="collapse")
    ended.write(sync=False)
    assert newest(run) == ended


def test_nobody_submits_a_run_whose_attempt_is_live(tmp_path: Path) -> None:
    attempt = submitted(tmp_path)
    assert create_attempt(attempt.run, "local", "another", {}, "b") is None
    spent = Compute(generations=3, rollouts=24)
    failed = replace(begin(attempt, None), status=Status.FAILED, step=3, compute=spent, reward=0.5)
    failed.write()
    following = submitted(tmp_path)
    # It begins with what the one before had done.
    assert (following.number, following.step, following.compute) == (2, 3, spent)
    assert (following.reward, following.worker) == (0.5, None)


def test_a_job_that_starts_again_makes_the_next_attempt_of_its_submission(tmp_path: Path) -> None:
    first = begin(submitted(tmp_path), "17_3")
    again = begin(read(first.run, 1), "17_3")
    assert (again.number, again.batch, again.index, again.job) == (2, "a-batch", 3, first.job)
    with pytest.raises(OvertakenError, match="attempt 2 owns the run"):
        first.check()
    again.check()


def test_attempts_made_at_once_get_different_numbers_and_one_is_submitted(tmp_path: Path) -> None:
    run, other = RunPaths(tmp_path), RunPaths(tmp_path / "other")
    other.root.mkdir()
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: claim(run), range(32)))
        made = pool.map(lambda _: create_attempt(other, "local", "s", {}, "b"), range(32))
        assert [each.number for each in made if each is not None] == [1]
    assert sorted(attempt.number for attempt in claimed) == list(range(1, 33))


def test_requests_and_ends_count_once_and_an_end_only_of_what_is_live(tmp_path: Path) -> None:
    attempt = submitted(tmp_path)
    attempt.request_cancel("ada")
    attempt.request_cancel("bob")
    assert read(attempt.run, 1).cancel == "ada"
    attempt.end(Status.LOST, "its job is gone")
    attempt.end(Status.CANCELLED, "later")
    ended = read(attempt.run, 1)
    assert (ended.status, ended.reason) == (Status.LOST, "its job is gone")
    replace(attempt, status=Status.FINISHED).write()
    assert read(attempt.run, 1).status is Status.FINISHED


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


def test_a_live_attempt_that_was_copied_is_over_and_one_that_was_moved_is_not(
    tmp_path: Path,
) -> None:
    attempt = submitted(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    copied = newest(RunPaths(tmp_path / "copy"))
    assert copied is not None
    assert copied.status is Status.INTERRUPTED
    assert copied.reason == f"its job belongs to {tmp_path / 'run'}, of which this is a copy"
    moved = newest(RunPaths((tmp_path / "run").rename(tmp_path / "moved")))
    assert moved is not None
    assert moved.live
    assert attempt.live


@pytest.mark.parametrize(
    "spoil", [{"status": "foo"}, {"updated": "today"}, {"step": None}, {"job_id": "--name=theirs"}]
)
def test_what_is_no_attempt_is_refused_with_a_remedy(spoil: dict[str, Any], tmp_path: Path) -> None:
    attempt = submitted(tmp_path)
    write_json(attempt.path, (read_json(attempt.path) or {}) | spoil)
    with pytest.raises(RecordError, match="remove it: the run then goes on"):
        read(attempt.run, 1)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00\xff", "[" * 100_000])
def test_a_run_whose_attempt_is_garbage_has_failed_and_gets_another(
    text: str, tmp_path: Path
) -> None:
    path = submitted(tmp_path).path
    path.write_text(text, encoding="latin-1")
    failed = newest(RunPaths(tmp_path))
    assert failed is not None
    assert (failed.status, failed.number) == (Status.FAILED, 1)
    assert failed.reason.startswith(f"{path}: not the state of a run")
    # The next attempt has a file of its own, and what was there is left.
    assert submitted(tmp_path).number == 2
    assert path.read_text(encoding="latin-1") == text


def test_what_else_lies_among_attempts_is_none(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.attempt(1).mkdir(parents=True)
    (run.attempts / "notes.json").write_text("{}")
    with pytest.raises(RecordError, match=r"attempts/1\.json: .*a directory where a file belongs"):
        read(run, 1)
    assert claim(run).number == 2
