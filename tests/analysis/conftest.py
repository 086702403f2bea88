"""Sweeps analysed once for all tests that only read them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.load import load_sweep
from isosweep.analysis.report import Analysis, analyse
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.store.paths import SweepPaths
from tests.analysis.sweeps import REWARD, SMALL, make_plan, write_sweep

CONFIG = AnalysisConfig()


@dataclass(frozen=True, kw_only=True)
class Analysed:
    """A sweep on disk and what it shows."""

    paths: SweepPaths
    data: SweepData
    findings: Findings


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A sweep on disk and its report, without files of figures."""

    paths: SweepPaths
    analysis: Analysis


@pytest.fixture
def small(tmp_path: Path) -> SweepPaths:
    """A sweep that is analysed in a second, for a test to change."""
    return write_sweep(tmp_path, REWARD, plan=SMALL)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """Five n, three B, three seeds, five budgets."""
    plan = make_plan(batches=(2, 4, 8))
    paths = write_sweep(tmp_path_factory.mktemp("full"), REWARD, plan=plan)
    data = load_sweep(paths)
    return Analysed(paths=paths, data=data, findings=find(data, CONFIG))


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Four n, two B, three seeds, five budgets: saturated. Its model is called like a script."""
    plan = make_plan(generations=(2, 4, 8, 16), batches=(4, 8))
    where = tmp_path_factory.mktemp("reported")
    paths = write_sweep(where, REWARD, plan=plan, model="<script>alert(1)</script>")
    return Reported(paths=paths, analysis=analyse(paths, replaced(CONFIG, formats=[])))
