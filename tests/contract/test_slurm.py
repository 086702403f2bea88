"""Runs as jobs of a real Slurm: whatever happens to a job, the records are those of a local run."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.surface import (
    TWO_RUNS,
    Run,
    isosweep,
    jobs_of,
    records_of,
    runs_of,
    start,
    status_of,
    wait_for,
    wait_until_training,
)

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.train,
    pytest.mark.slow,
    pytest.mark.usefixtures("slurm_environment"),
]
SLURM = (
    *(*TWO_RUNS, "launcher=slurm", "launcher.slurm.cpus_per_task=1", "launcher.slurm.mem_gb=1"),
    *("checkpoint.min_interval_s=1", "checkpoint.share=0.5"),
)


def slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def theirs() -> Iterator[str]:
    """A job of somebody else's."""
    job = slurm("sbatch", "--parsable", "--mem=10", "-o", "/dev/null", "--wrap=sleep 900").strip()
    yield job
    slurm("scancel", job)


def test_an_array_that_is_requeued_warned_and_cancelled_changes_no_record(
    theirs: str, straight: Path, tmp_path: Path
) -> None:
    driver = start(tmp_path, *SLURM)
    wait_until_training(tmp_path)
    wait_for(lambda: len(runs_of(tmp_path)) == 2 and all(run.trained for run in runs_of(tmp_path)))
    jobs = jobs_of(tmp_path)
    # Both are tasks of one array.
    assert len({job.partition("_")[0] for job in jobs}) == 1
    assert {job.partition("_")[2] for job in jobs} == {"0", "1"}
    # As an administrator, or a job of more priority, takes a node back.
    slurm("scontrol", "requeue", jobs[0])
    wait_for(lambda: runs_of(tmp_path)[0].attempts == 2)
    # As Slurm does ahead of a time limit.
    slurm("scancel", "--signal=USR2", jobs[0])
    cancelled = isosweep("mode=cancel", cwd=tmp_path)
    assert "cancelled" in cancelled.stdout
    driver.wait(timeout=300)
    wait_for(lambda: len(slurm("squeue", "-h", "-r").splitlines()) == 1)
    standings = {run["standing"] for run in status_of(tmp_path)["runs"]}
    assert standings <= {"cancelled", "done"}
    isosweep("mode=resume", cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    wait_for(lambda: slurm("squeue", "-h", "-o", "%A %T").split() == [theirs, "RUNNING"])


def warned(run: Run) -> bool:
    """Whether the worker, which is stopped, was sent SIGUSR2, or the job has gone on since."""
    process = Path(f"/proc/{run.state['pid']}/status")
    found = re.search(r"ShdPnd:\s*(\w+)", process.read_text() if process.exists() else "")
    sent = found is not None and int(found[1], 16) >> (signal.SIGUSR2 - 1) & 1
    return bool(sent) or run.attempts > 1 or run.state["status"] != "running"


def test_a_time_limit_and_a_preemption_change_no_record(straight: Path, tmp_path: Path) -> None:
    # Each run on a node of its own, in a partition that jobs of `high` preempt.
    own = ("timeout_min=2", "partition=short", "additional={exclusive:null}")
    driver = start(tmp_path, *SLURM, *(f"launcher.slurm.{option}" for option in own))
    wait_for(lambda: len(runs_of(tmp_path)) == 2 and all(run.trained for run in runs_of(tmp_path)))
    limited, preempted = runs_of(tmp_path)
    # Neither is over before Slurm's signal comes.
    for run in (limited, preempted):
        os.kill(run.state["pid"], signal.SIGSTOP)
    node = slurm("squeue", "-h", "-o", "%N", "-j", jobs_of(tmp_path)[1]).strip()
    wanted = ("--partition=high", "--exclusive", f"--nodelist={node}", "--output=/dev/null")
    high = slurm("sbatch", "--parsable", *wanted, "--wrap=sleep 600").strip()
    for run in (preempted, limited):
        wait_for(lambda run=run: warned(run))  # type: ignore[misc]
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.state["pid"], signal.SIGCONT)
    wait_for(lambda: min(preempted.attempts, limited.attempts) > 1)
    slurm("scancel", high)
    assert driver.wait(timeout=300) == 0, driver.written
    assert records_of(tmp_path) == records_of(straight)
    for run in (limited, preempted):
        # A busy machine may meet the limit more than once.
        assert run.jobs == 1
        assert run.attempts > 1
        # It had time for a checkpoint: no step is trained twice.
        assert run.trained == sorted(set(run.trained))


def test_what_a_user_exports_for_slurm_changes_no_job_and_no_number(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SBATCH_JOB_NAME": "another",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ARRAY_INX": "0-7",
        # What a site sets, which is heeded.
        "SBATCH_PARTITION": "short",
        "SBATCH_REQUEUE": "0",
        "SQUEUE_PARTITION": "high",
        "SLURM_NTASKS": "3",
        "RANK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    driver = start(tmp_path, *SLURM)
    wait_until_training(tmp_path)
    time.sleep(1)
    shown = slurm("squeue", "-h", "-r", "-p", "short", "-o", "%j %l").splitlines()
    assert shown
    assert all(line.startswith("isosweep-") and line.endswith(" 2:00") for line in shown)
    assert "partition=short comes from SBATCH_PARTITION" in driver.written
    assert driver.wait(timeout=300) == 0, driver.written
    assert records_of(tmp_path) == records_of(straight)
    assert [run.jobs for run in runs_of(tmp_path)] == [1, 1]
