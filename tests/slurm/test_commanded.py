"""A command of somebody's, whose job is requeued by Slurm, and whose processes are killed."""

import json
import sys
from pathlib import Path

import pytest

from isosweep.store.records import read_records
from tests.slurm.cluster import SlurmCluster
from tests.slurm.faults import job_processes, kill_processes
from tests.slurm.sweeps import slurm_sweep

pytestmark = pytest.mark.slurm

OWN = Path(__file__).parents[1] / "training" / "own_trainer.py"
WORDS = (
    f"{sys.executable} {OWN} --n {{n}} --batch {{B}} --steps {{T}} --seed {{seed}} --every 5 "
    "--out {directory} --pause 0.2"
)


def test_requeues_and_kills_change_no_record(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    settings = (
        "trainer=command",
        f"trainer.command='{WORDS}'",
        "trainer.checkpoints='ckpt-{step}/state.json'",
        "trainer.resume='--resume {resume_from}'",
        "trainer.poll_s=0.2",
        "budget_unit=rollouts",
        # 40 steps with n = 4, of 16 rollouts, and 80 with n = 2.
        "budget=640",
    )
    with slurm_sweep(slurm_cluster, tmp_path, *settings) as sweep:
        driver = sweep.drive()
        sweep.wait_until_begun(steps=6)
        requeued, killed = sweep.runs
        slurm_cluster.run("scontrol", "requeue", sweep.jobs(requeued)[-1])
        kill_processes(job_processes(slurm_cluster, sweep.job(killed), OWN.name))
        assert sweep.ended(driver) == 0, sweep.output
        sweep.assert_recorded_once()
        for run, again in ((requeued, 1), (killed, 2)):
            assert len(sweep.submissions(run)) == again
            assert sweep.attempts(run) == 2
            records = read_records(run.records).records
            steps = 80 if "-n2-" in run.run_id else 40
            assert [record.step for record in records] == [0, *range(5, steps + 1, 5)]
            first = json.loads((run.trained(2) / "log.jsonl").read_text().splitlines()[0])
            assert first["step"] > 1
