"""Whatever happens to a job that trains, its records are those of a run that was left alone."""

import signal
from functools import partial
from pathlib import Path

import pytest

from isosweep.plan.tally import Standing
from isosweep.store.paths import RunPaths
from isosweep.store.state import view_run
from tests.conftest import SMALL, isosweep, shared_sweep
from tests.slurm.cluster import NODES, SlurmCluster
from tests.slurm.faults import (
    ended,
    job_processes,
    kill_processes,
    node_down,
    node_of,
    preempting,
    step_daemons,
)
from tests.slurm.sweeps import BUDGET, SlurmSweep, seeds, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.long, pytest.mark.train]

WORKER = "isosweep.training"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run of these tests, on this machine, and nothing happened."""

    def make(cwd: Path) -> None:
        isosweep(BUDGET, *SMALL, seeds(3), "tracking=none", cwd=cwd)

    return shared_sweep(tmp_path_factory, "undisturbed", make)


def begun_again(sweep: SlurmSweep, run: RunPaths, attempts: int = 2) -> None:
    """Return once the run's job has been started again, and its worker trains."""

    def so() -> bool:
        state = view_run(run).state
        return state is not None and state.attempt >= attempts and state.activity != "starting"

    sweep.wait_for(so)


def off_its_node(sweep: SlurmSweep, run: RunPaths) -> bool:
    """Whether Slurm has taken the run's job off its node."""
    return node_of(sweep.cluster, sweep.jobs(run)[-1]) == ""


def test_signals_requeues_and_kills_change_no_record(
    slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, seeds(3), step_s=0.3) as sweep:
        driver = sweep.drive()
        sweep.wait_until_begun()
        warned, requeued, killed, cancelled, stepless, left = sweep.runs
        job = {run.run_id: sweep.job(run) for run in sweep.runs}
        # As before a time limit, to the step; an administrator's requeue; an out-of-memory
        # killer; somebody's scancel; the daemon over the step.
        slurm_cluster.run("scancel", "--signal=USR2", sweep.jobs(warned)[-1])
        slurm_cluster.run("scontrol", "requeue", sweep.jobs(requeued)[-1])
        kill_processes(job_processes(slurm_cluster, job[killed.run_id], WORKER))
        slurm_cluster.run("scancel", sweep.jobs(cancelled)[-1])
        kill_processes(step_daemons(slurm_cluster, job[stepless.run_id]))
        assert sweep.ended(driver) == 1
        assert "CANCELLED" in sweep.output
        assert sweep.statuses()[cancelled.run_id][0] is Standing.CANCELLED
        jobs = {run.run_id: len(sweep.jobs(run)) for run in sweep.runs}
        expected = {warned: 1, requeued: 1, killed: 2, cancelled: 1, left: 1}
        assert {run: jobs[run.run_id] for run in expected} == expected
        assert jobs[stepless.run_id] <= 2
        attempts = {run: sweep.attempts(run) for run in (warned, requeued, killed, left)}
        assert attempts == {warned: 2, requeued: 2, killed: 2, left: 1}
        assert sweep.ended(sweep.drive("resume")) == 0, sweep.output
        assert len(sweep.jobs(cancelled)) == 2
        sweep.assert_equal_to(undisturbed)


def test_preemption_and_lost_nodes_change_no_record(
    slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    alone = "launcher.slurm.additional={exclusive:null}"
    with slurm_sweep(slurm_cluster, tmp_path, seeds(2), alone, step_s=1.0) as sweep:
        driver = sweep.drive()
        sweep.wait_until_begun()
        nodes = {node_of(slurm_cluster, sweep.jobs(run)[-1]): run for run in sweep.runs}
        assert nodes.keys() == set(NODES)
        with (
            preempting(slurm_cluster, "n1"),
            node_down(slurm_cluster, "n2"),
            ended(slurm_cluster, "slurmd-n3", kill=True),
        ):
            for node in ("n1", "n2", "n3"):
                sweep.wait_for(partial(off_its_node, sweep, nodes[node]))
        for node in ("n1", "n2", "n3"):
            begun_again(sweep, nodes[node])
        assert sweep.ended(driver) == 0, sweep.output
        sweep.assert_equal_to(undisturbed)
        assert [len(sweep.jobs(run)) for run in sweep.runs] == [1, 1, 1, 1]
        preempted = view_run(nodes["n1"]).state
        assert preempted is not None
        assert preempted.attempt == 2
        assert sweep.attempts(nodes["n4"]) == 1


def test_a_run_longer_than_its_partition_allows_chains_while_controller_and_driver_go(
    slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    short = ("launcher.slurm.partition=short", "launcher.slurm.timeout_min=2")
    with slurm_sweep(slurm_cluster, tmp_path, seeds(1), *short, step_s=0.9) as sweep:
        driver = sweep.drive()
        sweep.wait_until_begun()
        with ended(slurm_cluster, "slurmctld"):
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            shown = sweep.command("status")
            assert shown.returncode == 0, shown.stdout
            assert "Unable to contact slurm controller" in shown.stdout
        sweep.drivers.clear()
        assert sweep.ended(sweep.drive("resume")) == 0, sweep.output
        sweep.assert_equal_to(undisturbed)
        assert [len(sweep.jobs(run)) for run in sweep.runs] == [1, 1]
        # The longer of them takes longer than from its start to Slurm's signal.
        assert max(sweep.attempts(run) for run in sweep.runs) > 1
