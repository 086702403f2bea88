"""The sweep that tests of whole sweeps compare with."""

from pathlib import Path

import pytest

from tests.conftest import SMALL, isosweep, shared_sweep
from tests.modes.sweeps import QUIET


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted sweep to 1.28e10 FLOPs."""

    def make(cwd: Path) -> None:
        isosweep("budget=[6.4e9,1.28e10]", *SMALL, *QUIET, cwd=cwd)

    return shared_sweep(tmp_path_factory, "straight", make)
