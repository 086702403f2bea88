"""Readings, curves and compared sweeps with planted rewards."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.curves import CellReading, Curve, Reading, SweepData
from isosweep.analysis.statistics.means import Means, gather_means
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Cell, Plan, PlannedRun
from tests.analysis.sweeps import RewardAt, make_plan

CONFIG = AnalysisConfig(name="default")
# Of n*, which most planted courses are of.
BEST = replace(CONFIG, quantity="best")
RUN = make_plan(generations=(8,), seeds=(0,)).runs[0]

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


def curve_of(
    compute: FloatArray,
    reward: FloatArray | None = None,
    successes: IntArray | None = None,
    *,
    samples: int = 8,
    steps: IntArray | None = None,
    run: PlannedRun = RUN,
) -> Curve:
    """A finished run's records, with the rewards of its successes where no others are given."""
    at = np.arange(len(compute)) if steps is None else steps
    counts = np.zeros((len(compute), 0), dtype=np.int64) if successes is None else successes
    return Curve(
        run=run,
        steps=at,
        generations=at,
        compute=compute,
        flops=compute,
        reward=counts.mean(axis=1) / samples if reward is None else reward,
        successes=counts,
        samples_per_problem=samples,
        status="finished",
        status_reason=None,
    )
