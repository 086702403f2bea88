"""Intervals of n* allow for the step of the axis that draws lie on."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.best_n import BestN, fit_frontier, interval_of_n
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import PER_DOUBLING, Surface
from tests.analysis.statistics.planted import CONFIG, known
from tests.analysis.sweeps import make_plan

GENERATIONS, BUDGETS = (2, 4, 8, 16), (1e6, 2e6, 4e6)
GRID = np.log2(GENERATIONS)


def sure_of(log2_n: FloatArray) -> tuple[BestN, ...]:
    """Optima of a surface all of whose draws have their best n at `log2_n`: (budgets,)."""
    plan = make_plan(GENERATIONS, budgets=BUDGETS)
    readings = [
        CellReading(cell=cell, reward=0.5, measured_compute=cell.budget, reading="exact")
        for cell in plan.cells
    ]
    axis = np.linspace(GRID[0], GRID[-1], 3 * PER_DOUBLING + 1)
    draws = -np.abs(axis - log2_n[:, None])[None, :, :, None]
    surface = Surface(
        budgets=BUDGETS,
        log2_n=axis,
        batches=(4,),
        draws=np.tile(draws, (50, 1, 1, 1)),
        supported=np.ones((len(BUDGETS), len(axis), 1), dtype=bool),
        measured=np.tile(np.isin(axis, GRID), (len(BUDGETS), 1)),
    )
    return fit_frontier(readings, None, surface, CONFIG).optima


def test_draws_that_all_agree_leave_half_a_step_on_both_sides() -> None:
    found = [known(at.n_star) for at in sure_of(np.array([2.0, 1.0, 4.0]))]
    half = 2 ** (1 / 16)
    # GRPO allows no n below 2; above the largest n nothing is known.
    ends = [end for at in found for end in (at.low, at.high)]
    assert ends == pytest.approx([4 / half, 4 * half, 2, 2 * half, 16 / half, 16])
    assert [at.open_below for at in found] == [False] * 3
    assert [at.open_above for at in found] == [False, False, True]


def test_an_interval_stays_inside_the_grid() -> None:
    found = interval_of_n(np.array([1.0, 4.0] * 50), GRID, 0.9)
    assert (found.low, found.high) == (2, 16)


def test_an_interval_has_as_much_of_the_draws_as_its_confidence() -> None:
    found = Interval.central(np.arange(101.0), 0.9)
    assert (found.median, found.low, found.high) == pytest.approx((50, 5, 95))
    assert [found.holds(value) for value in (4, 5, 95, 96)] == [False, True, True, False]
    assert replace(found, open_above=True).holds(1e9)
    assert str(replace(found, open_below=True)) == "50 (5 or less to 95)"
