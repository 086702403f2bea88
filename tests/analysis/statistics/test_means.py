"""What seeds say of the noise where they are few, and where only some go on to larger budgets."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from tests.analysis.statistics.planted import means_of, read
from tests.analysis.sweeps import BUDGETS, make_plan, peaked

# Of the first seed, less at larger budgets and more at smaller ones than 12% of 0.5.
OFF = dict(zip(BUDGETS, np.linspace(0.03, 0.09, len(BUDGETS)), strict=True))


def off(readings: list[CellReading]) -> list[CellReading]:
    """The readings, with the first seed's too low."""
    return [
        replace(r, reward=(r.reward or 0.0) - (OFF[r.cell.budget] if r.cell.seed == 0 else 0.0))
        for r in readings
    ]


def of_differences(readings: list[CellReading]) -> tuple[FloatArray, FloatArray]:
    """What neighbouring n differ by at the last budget, and the errors of that."""
    means = means_of(readings)
    here = np.flatnonzero(means.budget == len(means.budgets) - 1)
    apart = np.eye(len(here))[1:] - np.eye(len(here))[:-1]
    noise = apart @ means.noise[np.ix_(here, here)] @ apart.T
    return apart @ means.reward[here], np.sqrt(np.diag(noise))


def test_a_seed_that_is_off_in_all_n_leaves_differences_of_n_as_sure_as_they_are() -> None:
    plan = make_plan(seeds=range(2))
    wider = []
    for seed in range(20):
        clean = read(plan, peaked(lambda C: 8.0), noise=0.001, luck=0.004, seed=seed)
        (before, sure), (after, unsure) = of_differences(clean), of_differences(off(clean))
        assert after == pytest.approx(before, abs=1e-9)
        wider.append(unsure / sure)
    assert 0.8 < np.median(wider) < 1.3
