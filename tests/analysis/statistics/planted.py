"""Readings, curves and compared sweeps with planted rewards."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from isosweep.analysis.curves import CellReading, Reading, SweepData
from isosweep.analysis.statistics.noise import Means, gather_means
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.plan.cells import Cell, Plan
from tests.analysis.sweeps import RewardAt

CONFIG = AnalysisConfig()
# Of n*, which most planted courses are of.
BEST = replaced(CONFIG, quantity="best")

_Value = TypeVar("_Value")


def known(value: _Value | None) -> _Value:
    """The value, which is one."""
    assert value is not None
    return value


def means_of(readings: list[CellReading]) -> Means:
    return known(gather_means(readings))


def read(
    plan: Plan, reward: RewardAt, noise: float, seed: int = 0, luck: float = 0.0
) -> list[CellReading]:
    """Readings with noise of their own and luck that a run keeps at all its budgets."""
    rng = np.random.default_rng(seed)
    lucky = {run.run_id: luck * rng.standard_normal() for run in plan.runs}
    return [
        CellReading(
            cell=cell,
            reward=reward(cell.budget, cell.num_generations, cell.problems_per_batch)
            + lucky.get(cell.run_id, 0.0)
            + noise * rng.standard_normal(),
            measured_compute=cell.budget,
            reading="exact",
        )
        for cell in plan.cells
    ]


def sweep_of(plan: Plan, readings: list[CellReading]) -> SweepData:
    """A sweep of which nothing but its readings is known."""
    return SweepData(
        plan=plan,
        plan_document={},
        config_document={},
        curves=(),
        readings=tuple(readings),
        problems=(),
    )


def lacking(
    data: SweepData,
    which: Callable[[Cell], bool],
    fallen: float | None = None,
    reading: Reading = "missing",
) -> SweepData:
    """The sweep without the readings of these cells, whose runs had fallen to `fallen`."""
    readings = (
        replace(r, reward=None, reading=reading, fallen=fallen) if which(r.cell) else r
        for r in data.readings
    )
    return replace(data, readings=tuple(readings))
