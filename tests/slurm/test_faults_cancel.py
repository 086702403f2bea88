"""A cancel holds: nobody starts a cancelled run again, and what is not certain is not claimed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.plan.tally import Standing
from isosweep.store.state import view_run
from tests.runs import wait_for
from tests.slurm.cluster import SlurmCluster
from tests.slurm.faults import as_second_user, ended
from tests.slurm.sweeps import BUDGET, HELD, TRIVIAL, SlurmSweep, seeds, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def nothing_left(cluster: SlurmCluster) -> None:
    wait_for(lambda: not cluster.run("squeue", "-h"), 60, 0.2)


def test_a_cancel_holds_against_the_driver_that_follows(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(2), run_s=300.0) as sweep:
        driver = sweep.drive()
        sweep.wait_for_jobs()
        cancelled = sweep.command("cancel")
        assert cancelled.returncode == 0, cancelled.stdout
        assert "4 cancelled" in cancelled.stdout
        assert sweep.ended(driver) == 1
        nothing_left(slurm_cluster)
        assert sweep.standings() == {Standing.CANCELLED}
        assert [len(sweep.jobs(run)) for run in sweep.runs] == [1] * 4
        assert "Traceback" not in sweep.output
        sweep.environment["ISOSWEEP_TEST_RUN_S"] = "0"
        assert sweep.ended(sweep.drive("resume")) == 0, sweep.output
        sweep.assert_recorded_once()


def test_jobs_that_wait_are_cancelled_too(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1)) as sweep:
        assert sweep.command("launch", HELD).returncode == 0
        cancelled = sweep.command("cancel")
        assert cancelled.returncode == 0, cancelled.stdout
        assert "2 cancelled: 2 pending" in cancelled.stdout
        nothing_left(slurm_cluster)
        assert sweep.standings() == {Standing.CANCELLED}
        # Another partition takes them, by a setting of this command.
        again = ("launcher.slurm.partition=high", "launcher.slurm.additional=null")
        assert sweep.ended(sweep.drive("resume", *again)) == 0, sweep.output
        sweep.assert_recorded_once()
        assert [len(sweep.jobs(run)) for run in sweep.runs] == [2, 2]


@pytest.mark.long
def test_a_cancel_that_the_controller_has_not_heard_of_says_so_and_is_obeyed(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    overrides = (*TRIVIAL, seeds(1), "launcher.stop_grace_s=4")
    with slurm_sweep(slurm_cluster, tmp_path, *overrides, run_s=300.0) as sweep:
        assert sweep.command("launch", HELD).returncode == 0
        running, waiting = sweep.runs
        slurm_cluster.run("scontrol", "release", sweep.jobs(running)[-1])
        sweep.wait_for(lambda: view_run(running).state)
        with ended(slurm_cluster, "slurmctld"):
            cancelled = sweep.command("cancel")
            assert cancelled.returncode == 1
            # One by its worker's own word, which reads the request; the other has no worker yet.
            assert "1 cancelled: 1 running; 1 not confirmed" in cancelled.stdout
            assert "Unable to contact slurm controller" in cancelled.stdout
        # The controller learns what has ended meanwhile only when the node tells it again.
        done = sweep.jobs(running)[-1]
        shown = ("squeue", "-h", "-r", "-o", "%i")
        wait_for(lambda: done not in slurm_cluster.run(*shown).split(), 120, 0.5)
        slurm_cluster.run("scontrol", "release", sweep.jobs(waiting)[-1])
        nothing_left(slurm_cluster)
        wait_for(lambda: sweep.standings() == {Standing.CANCELLED}, 60, 0.5)
        assert not view_run(waiting).state


def test_cancelling_local_runs_leaves_the_allocation_that_they_run_in(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    sweep = SlurmSweep(slurm_cluster, tmp_path, (BUDGET, seeds(1)), step_s=0.5)
    command = [*sweep.words("run"), "launcher=local", "launcher.stop_grace_s=10"]
    shell = ("bash", "-c", '"$@"; echo left $?; sleep 600', "", *command)
    with (tmp_path / "driver.log").open("wb") as log:
        allocation = subprocess.Popen(
            ["salloc", "--ntasks=1", "--mem=100", *shell],
            cwd=tmp_path,
            env=sweep.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        sweep.wait_until_begun()
        (job,) = slurm_cluster.run("squeue", "-h", "-o", "%A").split()
        workers = [state.pid for run in sweep.runs if (state := view_run(run).state)]
        cancelled = sweep.command("cancel")
        assert cancelled.returncode == 0, cancelled.stdout + sweep.output
        wait_for(lambda: "left 1" in sweep.output, 60, 0.2)
        assert slurm_cluster.run("squeue", "-h", "-o", "%A %T") == f"{job} RUNNING"
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
        assert sweep.standings() == {Standing.CANCELLED}
    finally:
        os.killpg(allocation.pid, signal.SIGKILL)
        allocation.wait()
        sweep.close()


def test_a_second_user_sees_the_sweep_and_cannot_cancel_it(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *TRIVIAL, seeds(1), run_s=45.0) as sweep:
        home = tmp_path / "home"
        become, environment = as_second_user(slurm_cluster, home)
        environment = {**sweep.environment, "HOME": environment["HOME"]}

        def theirs(*words: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [*become, *words],
                env=environment,
                cwd=home,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )

        for _ in range(3):
            job = ("--wrap=sleep 900", "--mem=10", "--output=/dev/null", "--job-name=theirs")
            assert theirs("sbatch", *job).returncode == 0
        driver = sweep.drive()
        sweep.wait_for_jobs()
        here = [sys.executable, "-m", "isosweep", f"sweep_dir={sweep.root}"]
        # Jobs of a new cluster wait for its nodes.
        wait_for(lambda: "2 running" in theirs(*here, "mode=status").stdout, 120, 1.0)
        shown = theirs(*here, "mode=status")
        assert shown.returncode == 0, shown.stderr
        refused = theirs(*here, "mode=cancel")
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr
        assert sweep.ended(driver) == 0, sweep.output
        sweep.assert_one_job_each()
        assert len(slurm_cluster.run("squeue", "-h", "--name=theirs").splitlines()) == 3
        slurm_cluster.run("scancel", "--name=theirs")
