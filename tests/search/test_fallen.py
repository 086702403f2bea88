"""Runs that diverge are counted as fallen, whatever their reward was, 0 throughout too."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import read_cells
from isosweep.search.candidates import standings
from isosweep.search.trials import Grid, Seen, Trained
from tests.search.sweeps import BUDGETS, GENERATIONS, PLAN, run_id, trained


@pytest.mark.parametrize("rule", ["non_finite", "collapse"])
def test_a_run_that_never_gained_falls_where_it_diverges(rule: str) -> None:
    name = run_id(64, 0)
    data = trained({run_id(n, 0): BUDGETS[2] for n in GENERATIONS})
    curves = tuple(
        replace(c, reward=np.zeros_like(c.reward), status="diverged", diverged_by=rule)
        if c.run.run_id == name
        else c
        for c in data.curves
    )
    found = replace(data, curves=curves, readings=read_cells(PLAN, curves))
    mine = [reading for reading in found.readings if reading.cell.run_id == name]
    assert [reading.reward for reading in mine] == [0.0, 0.0, 0.0, None, None]
    assert [reading.fallen for reading in mine] == [None, None, None, 0.0, 0.0]
    assert name in standings(PLAN, found, {}).closed


def test_a_trial_that_reports_no_number_falls_with_the_last_reward_it_had() -> None:
    grid = Grid(generations=(8, 16), batches=(1,), seeds=(0, 1), budgets=(1.0, 2.0, 4.0))
    first, second, *_ = sorted(grid.runs)
    runs = {
        first: Trained(rewards={0: 0.0}, status="diverged"),
        second: Trained(rewards={0: 0.0}, status="cancelled"),
    }
    data = Seen(grid=grid, runs=runs).data
    fallen = {
        name: [r.fallen for r in data.readings if r.cell.run_id == name] for name in (first, second)
    }
    assert fallen == {first: [None, 0.0, 0.0], second: [None, None, None]}
    assert first in standings(grid.plan, data, {}).closed
