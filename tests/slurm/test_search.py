"""A search whose runs are Slurm jobs: its driver is killed, and another goes on."""

import signal
from pathlib import Path

import pytest

from tests.conftest import SMALL, isosweep
from tests.slurm.cluster import SlurmCluster
from tests.slurm.sweeps import BUDGET, seeds, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.train]


def test_a_search_on_slurm_whose_driver_was_killed_trains_what_a_grid_trains(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    search = ("search=frontier", "launcher.max_parallel=2")
    with slurm_sweep(slurm_cluster, tmp_path / "slurm", *search, seeds(1)) as sweep:
        driver = sweep.drive()
        sweep.wait_for(lambda: sweep.runs and sweep.jobs(sweep.runs[0]))
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        sweep.drivers.clear()
        assert "search: 2 of 2 runs were chosen" in sweep.command("status").stdout
        assert sweep.ended(sweep.drive("resume")) == 0, sweep.output
        assert "every run of the plan has been trained as far as it goes" in sweep.output
        # From one budget to the next a run goes on in another job.
        assert [len(sweep.jobs(run)) for run in sweep.runs] == [2] * 2
        scripts = (sweep.root / "batches").glob("*/*.sbatch")
        assert all("%1" not in script.read_text() for script in scripts)
        local = tmp_path / "local"
        local.mkdir()
        isosweep(BUDGET, *SMALL, seeds(1), "tracking=none", cwd=local)
        sweep.assert_equal_to(local)
