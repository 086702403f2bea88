"""The directory that the examples of docs/python.md are run in, and the columns of frames."""

import tarfile
from pathlib import Path

import pytest

from isosweep.analysis.tables import CELLS, CHOICES, FRONTIER
from isosweep.door.columns import BEST_N, COMPARED, PLAN, RECORDS, RUNS, SWEEPS

# By the call that makes the frame.
FRAMES = {
    "isosweep.sweeps()": SWEEPS,
    "sweep.plan": PLAN,
    "sweep.runs": RUNS,
    "sweep.records": RECORDS,
    "sweep.cells": CELLS,
    "sweep.choices": CHOICES,
    "sweep.frontier": FRONTIER,
    "sweep.verdict.n_star.by_budget": BEST_N,
    "isosweep.compare().frontier": COMPARED,
}
# Of those, the ones that every sweep has, by attribute.
COLUMNS = {
    name.removeprefix("sweep."): columns
    for name, columns in FRAMES.items()
    if name.count(".") == 1 and "(" not in name
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make studies` puts into sweeps/studies, unpacked in a directory of its own."""
    directory = tmp_path_factory.mktemp("studies")
    with tarfile.open(ROOT / "docs" / "studies" / "few_problems.tar.xz") as archive:
        archive.extractall(directory / "sweeps" / "studies", filter="data")
    return directory
