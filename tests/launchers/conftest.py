"""Fixtures for tests of what Slurm's commands answer."""

from pathlib import Path

import pytest

from isosweep.launchers.slurm import SlurmLauncher
from isosweep.plan.cells import PlannedRun
from tests.conftest import make_config, plan_of
from tests.launchers.slurm_fakes import SETTINGS, Fakes


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return Fakes(directory)


@pytest.fixture
def launcher(fakes: Fakes) -> SlurmLauncher:
    return SlurmLauncher(make_config(*SETTINGS))


@pytest.fixture(scope="module")
def run() -> PlannedRun:
    return plan_of(make_config(*SETTINGS)).runs[0]
