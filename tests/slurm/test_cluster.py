"""The test cluster is a real Slurm: nodes, scheduler, accounting, and a clean end."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import submitit

from tests.runs import wait_for
from tests.slurm import cluster as cluster_module
from tests.slurm import configuration
from tests.slurm.cluster import NODES, PARTITIONS, SlurmCluster, SlurmStartError

pytestmark = pytest.mark.slurm

# Many times what a tiny job needs.
TIMEOUT_S = 300.0


@pytest.fixture
def executor(slurm_environment: None, tmp_path: Path) -> submitit.SlurmExecutor:
    executor = submitit.SlurmExecutor(folder=tmp_path / "jobs")
    # submitit has a job signalled 90 s before its end: of two minutes, 30 s were left.
    executor.update_parameters(partition="main", time=10)
    return executor


@pytest.fixture
def run_dir(slurm_cluster: SlurmCluster) -> Iterator[Path]:
    """A second cluster's run directory; skipped where the first cannot start."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as path:
        yield Path(path)


def result(job: submitit.Job[str | None]) -> str | None:
    """The job's result, without submitit's wait between two looks at the job's state."""
    wait_for(job.paths.result_pickle.exists, TIMEOUT_S, 0.1)
    return job.result()


def processes_with(setting: str) -> list[str]:
    """Command lines of all processes that started with NAME=VALUE in their environment."""
    command_lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if setting.encode() in (process / "environ").read_bytes().split(b"\0"):
                command_lines.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return command_lines


def test_all_nodes_are_idle_in_every_partition(slurm_cluster: SlurmCluster) -> None:
    rows = slurm_cluster.run("sinfo", "-h", "-N", "-o", "%N %P %T %G").splitlines()
    names = [f"{name}{'*' if name == 'main' else ''}" for name in PARTITIONS]
    assert sorted(rows) == sorted(f"{node} {name} idle gpu:4" for node in NODES for name in names)


def test_jobs_see_the_gpus_that_they_were_given(slurm_cluster: SlurmCluster) -> None:
    shell = ("srun", "--gpus-per-node=3", "--mem=10", "printenv", "CUDA_VISIBLE_DEVICES")
    assert slurm_cluster.run(*shell) == "0,1,2"


def test_a_submitit_job_returns_its_result_and_is_accounted_as_completed(
    slurm_cluster: SlurmCluster, executor: submitit.SlurmExecutor
) -> None:
    job = executor.submit(os.getenv, "SLURMD_NODENAME")

    assert result(job) in NODES
    wait_for(
        lambda: (
            slurm_cluster.run("sacct", "-n", "-X", "-P", "-j", job.job_id, "-o", "state")
            == "COMPLETED"
        ),
        TIMEOUT_S,
        0.1,
    )
    assert job.state == "COMPLETED"


def test_two_jobs_with_exclusive_nodes_run_on_two_nodes_at_once(
    executor: submitit.SlurmExecutor, tmp_path: Path
) -> None:
    # Defined here so that it is pickled by value: the jobs need not find this module.
    def node_while_both_run(me: str, other: str) -> str | None:
        (tmp_path / me).touch()
        deadline = time.monotonic() + 240
        while not (tmp_path / other).exists():
            assert time.monotonic() < deadline, f"{other} does not run beside {me}"
            time.sleep(0.1)
        return os.environ["SLURMD_NODENAME"]

    executor.update_parameters(exclusive=True)
    jobs = [
        executor.submit(node_while_both_run, "first", "second"),
        executor.submit(node_while_both_run, "second", "first"),
    ]

    assert len({result(job) for job in jobs} & set(NODES)) == 2


def test_stop_ends_daemons_and_jobs_but_no_other_cluster(
    slurm_cluster: SlurmCluster, run_dir: Path
) -> None:
    second = SlurmCluster(run_dir)
    setting = f"SLURM_CONF={second.conf_path}"
    with second:
        stubborn = "trap '' TERM; sleep 1000 & sleep 1000"
        second.run("sbatch", f"--output={run_dir / 'stubborn'}", f"--wrap={stubborn}")
        wait_for(lambda: second.run("squeue", "-h", "-o", "%T") == "RUNNING", TIMEOUT_S, 0.1)
        assert processes_with(setting)

    assert processes_with(setting) == []
    assert slurm_cluster.run("sinfo", "-h", "-p", "main", "-o", "%D") == "4"


def test_a_failed_start_shows_the_daemons_words_and_leaves_nothing(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = configuration.SLURMDBD_CONF.replace("StorageUser=slurm", "NoSuchOption=1")
    monkeypatch.setattr(cluster_module, "SLURMDBD_CONF", broken)
    cluster = SlurmCluster(run_dir)

    with pytest.raises(SlurmStartError, match=r"slurmdbd exited(?s:.*)NoSuchOption"):
        cluster.start()

    assert processes_with(f"SLURM_CONF={cluster.conf_path}") == []
