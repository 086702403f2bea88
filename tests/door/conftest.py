"""The directory that the examples of docs/python.md are run in."""

import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make studies` puts into sweeps/studies, unpacked in a directory of its own."""
    directory = tmp_path_factory.mktemp("studies")
    with tarfile.open(ROOT / "docs" / "studies" / "few_problems.tar.xz") as archive:
        archive.extractall(directory / "sweeps" / "studies", filter="data")
    return directory
