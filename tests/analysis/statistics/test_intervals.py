"""Central intervals of draws, and runs by pair."""

import numpy as np
import pytest

from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.intervals import Interval, central_ends
from tests.analysis.sweeps import make_plan


def test_a_central_interval_leaves_as_much_on_either_side() -> None:
    draws = np.arange(101.0)
    interval = Interval.central(draws, 0.9)
    assert (interval.median, interval.low, interval.high) == pytest.approx((50, 5, 95))
    assert central_ends(draws, 0.9) == (interval.low, interval.high)


def test_runs_are_grouped_by_pair_ascending() -> None:
    runs = make_plan(generations=(8, 2), batches=(4, 2), seeds=(0, 1)).runs
    groups = by_pair(runs, lambda run: run)
    assert list(groups) == [Pair(2, 2), Pair(2, 4), Pair(8, 2), Pair(8, 4)]
    assert all([run.seed for run in group] == [0, 1] for group in groups.values())
