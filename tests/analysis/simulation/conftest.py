"""A plan as the presets are made for: nine budgets over three decades, n from 8 to 2048."""

import pytest

from isosweep.analysis.simulation.sweep import wide_config
from isosweep.plan.cells import Plan
from isosweep.plan.study import resolve


def nominal_plan(*overrides: str) -> Plan:
    nominal = ("budget=logspace:1e18:1e21:9", "grid=fix_B", "grid.seeds=[0,1,2,3]")
    return resolve(wide_config(*nominal, *overrides)).plan


@pytest.fixture(scope="session")
def nominal() -> Plan:
    return nominal_plan()
