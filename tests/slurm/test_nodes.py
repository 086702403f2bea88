"""A run of two tasks, on one node or on two: whatever happens to one, its records are those of two
processes of one worker that was left alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.plan.tally import Standing
from isosweep.store.paths import RunPaths
from tests.conftest import SMALL, isosweep, shared_sweep
from tests.runs import wait_for
from tests.slurm.cluster import SlurmCluster
from tests.slurm.faults import (
    ended,
    node_lost,
    nodes_of,
    wait_for_nodes,
)
from tests.slurm.sweeps import BUDGET, SlurmSweep, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.train]

# One run, and its devices.
ONE = ("grid.num_generations=[4]", "hardware.devices_per_run=2")
LINKS = ("hardware.interconnect_bandwidth=1e10", "hardware.node_bandwidth=1e9")
ON_TWO = (*ONE, *LINKS, "hardware.nodes_per_run=2", "launcher.slurm.mem_gb=2")
# Slurm notices that a node is away after SlurmdTimeout, and starts its job again 10 s later. Where
# srun has ended the job before, its worker is silent for two minutes until it is tried again.
FAULT_S = 300.0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run on one node of two processes, and nothing happened."""

    def make(cwd: Path) -> None:
        isosweep(BUDGET, *SMALL, *ONE, *LINKS, "tracking=none", cwd=cwd)

    return shared_sweep(tmp_path_factory, "undisturbed-ranks", make)


def begun(sweep: SlurmSweep, attempts: int) -> RunPaths:
    """The sweep's run, once an attempt at it has trained some steps, not before so many were
    made."""

    def so() -> bool:
        made = sweep.attempts(sweep.runs[0]) if sweep.runs else 0
        if made < attempts:
            return False
        lines = sweep.runs[0].metrics / f"{made}.jsonl"
        return lines.exists() and len(lines.read_text().splitlines()) >= 3

    sweep.wait_for(so, FAULT_S)
    (run,) = sweep.runs
    return run


def test_two_nodes_train_one_run_and_a_larger_budget_extends_it(
    slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *ON_TWO, step_s=0.1) as sweep:
        driver = sweep.drive("run", "budget=[6.4e9]")
        sweep.wait_for_jobs()
        (run,) = sweep.runs
        assert len(set(nodes_of(slurm_cluster, sweep.jobs(run)[-1]))) == 2
        assert sweep.ended(driver) == 0, sweep.output
        larger = replace(sweep, name="larger", drivers=[])
        assert larger.ended(larger.drive()) == 0, larger.output
        sweep.assert_equal_to(undisturbed)
        assert (len(sweep.jobs(run)), sweep.attempts(run)) == (2, 2)
        names = {path.name[-10:] for path in run.attempt_logs(1).iterdir()}
        assert names == {f"_{rank}_log.{end}" for rank in (0, 1) for end in ("err", "out")}
        for rank in (0, 1):
            assert f"(rank {rank}) <==" in sweep.command("status", "runs=seed:0", "lines=1").stdout


def test_a_requeue_a_cancel_and_a_warning_reach_both_nodes(
    slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *ON_TWO, step_s=0.5) as sweep:
        driver = sweep.drive()
        run = begun(sweep, 1)
        slurm_cluster.run("scontrol", "requeue", sweep.jobs(run)[-1])
        begun(sweep, 2)
        # As before a time limit, to the step.
        slurm_cluster.run("scancel", "--signal=USR2", sweep.jobs(run)[-1])
        begun(sweep, 3)
        assert len(sweep.jobs(run)) == 1
        cancelled = sweep.command("cancel")
        assert cancelled.returncode == 0, cancelled.stdout
        assert sweep.ended(driver) == 1
        assert sweep.standings() == {Standing.CANCELLED}
        wait_for(lambda: not slurm_cluster.run("squeue", "-h"), 60, 0.2)
        assert sweep.ended(sweep.drive("resume")) == 0, sweep.output
        sweep.assert_equal_to(undisturbed)
        assert (len(sweep.jobs(run)), sweep.attempts(run)) == (2, 4)


@pytest.mark.parametrize("node", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_node_that_dies_changes_no_record(
    node: int, slurm_cluster: SlurmCluster, tmp_path: Path, undisturbed: Path
) -> None:
    with slurm_sweep(slurm_cluster, tmp_path, *ON_TWO, step_s=0.5) as sweep:
        driver = sweep.drive()
        run = begun(sweep, 1)
        name = nodes_of(slurm_cluster, sweep.jobs(run)[-1])[node]
        with ended(slurm_cluster, f"slurmd-{name}", kill=True):
            node_lost(slurm_cluster, name)
            begun(sweep, 2)
        assert sweep.ended(driver) == 0, sweep.output
        sweep.assert_equal_to(undisturbed)
    wait_for_nodes(slurm_cluster)
