"""Fixtures for tests that need a real Slurm."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster, missing_parts


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A running cluster, shared by all tests of the session.

    Where parts are missing the tests are skipped, but fail if ISOSWEEP_REQUIRE, a comma-separated
    list, contains `slurm`.
    """
    if missing := missing_parts():
        reason = f"no Slurm can run on this machine, it lacks: {', '.join(missing)}"
        required = os.environ.get("ISOSWEEP_REQUIRE", "").split(",")
        if "slurm" in (each.strip() for each in required):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    # Not pytest's tmp_path, which is too long for unix sockets.
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as run_dir,
        SlurmCluster(Path(run_dir)) as cluster,
    ):
        yield cluster


@pytest.fixture
def slurm_environment(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Slurm's commands, in this process and its children, talk to the cluster."""
    for name, value in slurm_cluster.environment.items():
        monkeypatch.setenv(name, value)
