"""A scheduler that refuses, is away or holds jobs back: every run has one job, and says how it is.

The jobs are those of `tests.trivial`, which keep their runs' files and train nothing.
"""

import os
import shutil
import time
from pathlib import Path

import pytest

from isosweep.plan.tally import Standing
from tests.slurm.cluster import SlurmCluster
from tests.slurm.faults import ended
from tests.slurm.sweeps import HELD, TRIVIAL, seeds, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def in_queue(cluster: SlurmCluster) -> str:
    return cluster.run("squeue", "-h", "-r", "-o", "%i %T %r")


def test_what_a_controller_that_is_down_refuses_is_submitted_when_it_is_back(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1)) as sweep:
        with ended(slurm_cluster, "slurmctld"):
            driver = sweep.drive()
            sweep.wait_for(lambda: "Unable to contact slurm controller" in sweep.output)
        assert sweep.ended(driver) == 0, sweep.output
        sweep.assert_one_job_each()


def test_a_bad_partition_is_refused_in_slurms_words_and_another_one_resumes(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1)) as sweep:
        assert sweep.ended(sweep.drive("run", "launcher.slurm.partition=nix")) == 1
        assert "invalid partition specified: nix" in sweep.output
        assert "Traceback" not in sweep.output
        assert sweep.standings() == {Standing.FAILED}
        again = ("launcher.slurm.partition=high", "retry_failed=true")
        assert sweep.ended(sweep.drive("resume", *again)) == 0, sweep.output
        sweep.assert_recorded_once()


def test_a_job_whose_submission_got_no_answer_is_found_again(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1), run_s=8.0) as sweep:
        # It passes the script on, and loses the answer.
        sbatch, calls = tmp_path / "bin" / "sbatch", tmp_path / "calls"
        sbatch.parent.mkdir()
        words = (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        )
        shell = f'echo $@ >>{calls}; {shutil.which("sbatch")} "$@" >/dev/null; echo "{words}" >&2'
        sbatch.write_text(f"#!/bin/sh\n{shell}; exit 1\n")
        sbatch.chmod(0o755)
        sweep.environment["PATH"] = f"{sbatch.parent}:{os.environ['PATH']}"
        assert sweep.ended(sweep.drive()) == 0, sweep.output
        sweep.assert_one_job_each()
        assert len(calls.read_text().splitlines()) == 1


def test_jobs_that_were_launched_and_held_are_adopted_by_the_next_driver(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1), run_s=2.0) as sweep:
        launched = sweep.command("launch", HELD)
        assert launched.returncode == 0, launched.stdout + launched.stderr
        shown = sweep.command("status")
        assert "JobHeldUser" in shown.stdout
        assert sweep.standings() == {Standing.QUEUED}
        first = sweep.drive("resume")
        # The one that launched was the first.
        sweep.wait_for((sweep.root / "drivers" / "2.json").exists)
        second = sweep.drive("resume")
        assert sweep.ended(second) == 0, sweep.output
        assert f"process {first.pid} of" in sweep.output
        time.sleep(2 * sweep.poll_s)
        assert {row.split()[1] for row in in_queue(slurm_cluster).splitlines()} == {"PENDING"}
        for run in sweep.runs:
            slurm_cluster.run("scontrol", "release", sweep.jobs(run)[-1])
        assert sweep.ended(first) == 0, sweep.output
        sweep.assert_one_job_each()
