"""The tiny sweep through a real Slurm."""

import subprocess
from pathlib import Path

import pytest

from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state
from tests.conftest import SMALL, isosweep
from tests.runs import reproducible

# In every run test_search.py compares the records of Slurm's jobs with those of local runs.
pytestmark = [pytest.mark.slurm, pytest.mark.train, pytest.mark.long]


@pytest.mark.usefixtures("slurm_environment")
def test_a_sweep_on_slurm_gives_the_records_of_a_local_one(tmp_path: Path) -> None:
    settings = ("budget=1e10", *SMALL, "tracking=none")
    slurm, local = tmp_path / "slurm", tmp_path / "local"
    slurm.mkdir()
    local.mkdir()
    isosweep(*settings, "launcher=slurm", "launcher.slurm.cpus_per_task=1", cwd=slurm)
    isosweep(*settings, cwd=local)
    runs = sorted((slurm / "sweeps" / "runs").iterdir())
    assert len(runs) == 2
    jobs = set()
    for run in map(RunPaths, runs):
        state = read_state(run)
        assert state is not None
        assert state.status == "finished"
        jobs.add(state.job_id)
        reference = RunPaths(local / "sweeps" / "runs" / run.run_id)
        assert reproducible(run) == reproducible(reference)
    assert None not in jobs
    assert len(jobs) == 2
    command = ["sacct", "--noheader", "--parsable2", "--format=JobID", "--allocations"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert jobs <= set(listed)
