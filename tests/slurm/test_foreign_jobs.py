"""No job of somebody else is touched, whatever Slurm is made to say.

The jobs are those of `tests.trivial`, which keep their runs' files and train nothing.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from isosweep.plan.tally import Standing
from tests.runs import wait_for
from tests.slurm.cluster import SlurmCluster
from tests.slurm.faults import as_second_user, ended, wait_for_nodes
from tests.slurm.sweeps import HELD, TRIVIAL, seeds, slurm_sweep

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def small_cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster whose arrays have four tasks at most; skipped where the shared one cannot start."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as run_dir,
        SlurmCluster(Path(run_dir), max_array_size=4) as cluster,
    ):
        yield cluster


def forget_all(cluster: SlurmCluster) -> None:
    """The controller loses its state: it counts jobs from the first again."""
    with ended(cluster, "slurmctld"):
        shutil.rmtree(cluster.run_dir / "slurmctld")
        (cluster.run_dir / "slurmctld").mkdir()
    wait_for_nodes(cluster)


def test_another_users_array_with_a_reused_id_survives_a_cancel(
    small_cluster: SlurmCluster, tmp_path: Path
) -> None:
    with slurm_sweep(small_cluster, tmp_path, *TRIVIAL, seeds(3)) as sweep:
        assert sweep.command("launch", HELD).returncode == 0
        arrays = sorted({sweep.jobs(run)[0].partition("_")[0] for run in sweep.runs})
        # Six runs, in arrays of four tasks.
        assert len(arrays) == 2
        forget_all(small_cluster)
        home = tmp_path / "home"
        become, environment = as_second_user(small_cluster, home)
        # Held, since tasks that begin take further ids before the second array has its own.
        words = ("--parsable", "--hold", "--array=0-3", "--mem=10", "--output=/dev/null")
        theirs = []
        for _ in arrays:
            command = [*become, "sbatch", *words, "--wrap=sleep 600"]
            done = subprocess.run(
                command, env=environment, cwd=home, check=True, text=True, capture_output=True
            )
            theirs.append(done.stdout.strip())
        assert theirs == arrays
        small_cluster.run("scontrol", "release", ",".join(theirs))

        def alive() -> set[str]:
            asked = ("squeue", "-h", "-r", "-o", "%i %T %u", "-j", ",".join(theirs))
            return set(small_cluster.run(*asked).splitlines())

        whole = {f"{array}_{task} RUNNING nobody" for array in theirs for task in range(4)}
        wait_for(lambda: alive() == whole, 60, 0.2)
        cancelled = sweep.command("cancel")
        assert alive() == whole
        assert cancelled.returncode == 0, cancelled.stdout
        assert "6 cancelled" in cancelled.stdout
        assert sweep.standings() == {Standing.CANCELLED}
        again = "launcher.slurm.additional=null"
        assert sweep.ended(sweep.drive("resume", again)) == 0, sweep.output
        sweep.assert_recorded_once()
        assert alive() == whole
        small_cluster.run("scancel", *theirs)


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
        here = [sys.executable, "-m", "isosweep", f"sweep={sweep.root}"]
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
