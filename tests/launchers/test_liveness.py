"""When a job counts as gone, case by case."""

import os
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from isosweep.launchers import liveness as module
from isosweep.launchers.launcher import JobState, Observed
from isosweep.launchers.liveness import Liveness, observe_process
from isosweep.store.attempts import Attempt, Process, Status, create_attempt
from tests.launchers.fake import one_run, report
from tests.runs import dead_pid

DAY_S = 86_400.0


def attempt_in(tmp_path: Path, silent_s: float | None) -> Attempt:
    """An attempt whose worker wrote so long ago, or has not begun (None)."""
    attempt = create_attempt(one_run(tmp_path), "slurm", "a-sweep", {}, "a-batch")
    assert attempt is not None
    if silent_s is not None:
        attempt = report(attempt, Status.RUNNING, 1.0)
        written = time.time() - silent_s
        os.utime(attempt.path, (written, written))
    return attempt


def judged(liveness: Liveness, attempt: Attempt, said: str, after_s: float = 0.0) -> JobState:
    with (
        mock.patch("time.monotonic", return_value=time.monotonic() + after_s),
        mock.patch.object(module, "file_system_time", return_value=time.time() + after_s),
    ):
        (seen,) = liveness.judge([attempt], [Observed(status=said, reason="so")])  # type: ignore[arg-type]
    return seen


@pytest.mark.parametrize(
    ("said", "silent_s", "at_once", "later"),
    [
        # What is said of the job, how long ago its worker wrote; what is concluded at once, and
        # where the same is said 70 s later.
        ("pending", None, "pending", "pending"),
        ("running", DAY_S, "running", "running"),
        ("unknown", DAY_S, "unknown", "unknown"),
        ("ended", 5, "gone", "gone"),
        ("restarting", DAY_S, "unknown", "gone"),
        ("missing", None, "unknown", "gone"),
        ("missing", 10, "unknown", "unknown"),
        ("missing", 100, "unknown", "gone"),
        ("missing", DAY_S, "unknown", "gone"),
        ("away", 300, "running", "running"),
        ("away", 560, "running", "gone"),
        ("away", DAY_S, "gone", "gone"),
    ],
)
def test_a_job_is_gone_by_what_is_said_of_it_and_its_workers_file(
    said: str, silent_s: float | None, at_once: str, later: str, tmp_path: Path
) -> None:
    attempt, liveness = attempt_in(tmp_path, silent_s), Liveness()
    assert judged(liveness, attempt, said).status == at_once
    assert judged(liveness, attempt, said, 70).status == later
    if said != "away":
        # Seen again meanwhile, it has to be missed for as long once more.
        assert judged(liveness, attempt, "running", 80).status == "running"
        assert judged(liveness, attempt, said, 90).status == at_once


def test_where_a_worker_may_have_spoken_last_two_answers_in_a_row_are_needed(
    tmp_path: Path,
) -> None:
    attempt, liveness = attempt_in(tmp_path, 5), Liveness(looks=2)
    conclusions = [
        judged(liveness, attempt, said).status for said in ("ended", "running", "ended", "ended")
    ]
    assert conclusions == ["unknown", "running", "unknown", "gone"]


def test_a_job_that_is_nowhere_may_be_about_to_be_started_while_its_submitter_lives(
    tmp_path: Path,
) -> None:
    attempt = attempt_in(tmp_path, None)
    for pid, status in ((os.getppid(), "pending"), (dead_pid(), "gone")):
        liveness, other = Liveness(), replace(attempt, by=Process.of(pid))
        judged(liveness, other, "missing")
        assert judged(liveness, other, "missing", 70).status == status


def test_a_process_is_asked_for_on_its_own_host_alone(tmp_path: Path) -> None:
    waiting = attempt_in(tmp_path, None)
    assert observe_process(waiting).status == "unknown"
    here = replace(waiting, launcher="local")
    assert observe_process(here).status == "pending"
    assert observe_process(replace(here, worker=Process.this())).status == "running"
    assert observe_process(replace(here, worker=Process.of(dead_pid()))).status == "ended"
    there = replace(Process.this(), host="another-host")
    seen = observe_process(replace(here, worker=there))
    assert (seen.status, seen.reason) == ("away", "no word from another-host")


def test_a_run_whose_file_cannot_be_seen_keeps_no_other_from_being_judged(tmp_path: Path) -> None:
    dead = attempt_in(tmp_path / "dead", DAY_S)
    away = attempt_in(tmp_path / "away", DAY_S)
    away.path.unlink()
    states = Liveness().judge([away, dead], [Observed(status="away"), Observed(status="ended")])
    assert [state.status for state in states] == ["unknown", "gone"]
