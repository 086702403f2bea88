"""`mode=cancel` says what is so: a run is cancelled once its job is gone."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.config.base import replaced
from isosweep.launchers.launcher import JobState
from isosweep.modes.cancel import cancel_runs
from isosweep.modes.observed import Jobs
from isosweep.modes.sweeps import StoredSweep
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Process, Status, create_attempt, newest
from isosweep.store.paths import RunPaths
from tests.modes.looked_after import (
    Scheduled,
    reported,
    submitted,
    sweep_in,
)
from tests.runs import wait_for

# Ends by SIGTERM, or only by SIGKILL, once it has said that it listens.
OBEDIENT = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + OBEDIENT


def patient(sweep: StoredSweep, grace_s: float) -> StoredSweep:
    launcher = replaced(sweep.config.launcher, stop_grace_s=grace_s)
    return replace(sweep, config=replaced(sweep.config, launcher=launcher))


def runs_of(sweep: StoredSweep) -> list[RunPaths]:
    return [sweep.paths.run(run.run_id) for run in sweep.plan.runs]


def standings(sweep: StoredSweep) -> list[Standing]:
    return [*sweep.standing().runs.values()]


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that listen; ended after the test."""
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for code in (OBEDIENT, DEAF)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_processes_of_this_machine_are_asked_and_then_killed(
    tmp_path: Path, processes: list["subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Inside an allocation, which stays.
    fakes = tmp_path / "bin"
    fakes.mkdir()
    (fakes / "scancel").write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/scancelled\n")
    (fakes / "scancel").chmod(0o755)
    monkeypatch.setenv("PATH", str(fakes), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    sweep = patient(sweep_in(tmp_path), 1.0)
    for run, planned, process in zip(runs_of(sweep), sweep.plan.runs, processes, strict=False):
        attempt = reported(submitted(run, "local"), Status.RUNNING, 0.5, planned)
        replace(attempt, worker=Process.of(process.pid), job_id=str(process.pid)).write()
    found = cancel_runs(sweep, [], Jobs(sweep.config))
    assert [*found["cancelled"].values()] == ["running", "running"]
    wait_for(lambda: all(process.poll() is not None for process in processes))
    assert [process.returncode for process in processes] == [-15, -9]
    assert standings(sweep)[:2] == [Standing.CANCELLED] * 2
    assert not (tmp_path / "scancelled").exists()


def test_what_the_scheduler_does_not_confirm_is_said_and_ends_with_status_1(
    tmp_path: Path,
) -> None:
    sweep = patient(sweep_in(tmp_path), 0.2)
    run = runs_of(sweep)[0]
    submitted(run)
    jobs = Scheduled({run.run_id: JobState(status="unknown", reason="no answer")}, obeys=False)
    found = cancel_runs(sweep, [], jobs)
    assert found["cancelled"] == {}
    job = {"was": "pending", "job_id": None, "launcher": "slurm"}
    assert found["unconfirmed"] == {run.run_id: job}
    assert found["faults"] == ["Unable to contact slurm controller"]
    # The request stays; nobody says that the job is over.
    left = newest(run)
    assert left is not None
    assert left.cancel is not None
    assert left.live
    assert jobs.stopped == [(run.run_id, False), (run.run_id, True)]


def test_a_run_that_finished_meanwhile_is_not_called_cancelled(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run = runs_of(sweep)[0]
    attempt = submitted(run)

    class Finishing(Scheduled):
        def stop(self, attempts: object, *, kill: bool = False) -> None:
            attempt.end(Status.FINISHED, "")

    jobs = Finishing({run.run_id: JobState(status="running")})
    found = cancel_runs(sweep, [], jobs)
    assert (found["cancelled"], found["finished"]) == ({}, [run.run_id])


def test_a_run_that_another_sweep_has_submitted_goes_on(tmp_path: Path) -> None:
    sweep, other = sweep_in(tmp_path, "sweep=one"), sweep_in(tmp_path, "sweep=two")
    run = runs_of(sweep)[0]
    run.root.mkdir(parents=True)
    create_attempt(run, "slurm", str(other.paths.root), {}, "b")
    jobs = Scheduled({run.run_id: JobState(status="running")})
    found = cancel_runs(sweep, [], jobs)
    assert found["others"] == {run.run_id: str(other.paths.root)}
    assert (found["cancelled"], jobs.stopped) == ({}, [])
    assert [*cancel_runs(other, [], jobs)["cancelled"]] == [run.run_id]
