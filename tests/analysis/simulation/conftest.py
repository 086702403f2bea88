"""A plan as the presets are made for: nine budgets over three decades, n from 8 to 2048."""

import pytest

from isosweep.plan.cells import Plan
from tests.conftest import make_config, plan_of


def nominal_plan(*overrides: str) -> Plan:
    return plan_of(
        make_config(
            "model=qwen-0.5b",
            "budget=logspace:1e18:1e21:9",
            "grid=fix_B",
            "grid.seeds=[0,1,2,3]",
            "grid.tolerance=0.05",
            "grid.max_epochs=1e6",
            "grid.max_steps=1e9",
            "grid.max_completions_per_step=65536",
            *overrides,
        )
    )


@pytest.fixture(scope="session")
def nominal() -> Plan:
    return nominal_plan()


@pytest.fixture(scope="session")
def fixed_batch() -> Plan:
    sizes = [8 * 2**k for k in range(9)]
    return nominal_plan(
        "grid=fix_batch", f"grid.problems_per_batch={sizes}", "grid.completions_per_step=[16384]"
    )
