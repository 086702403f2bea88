"""Runs are read at smaller budgets than those of the plan, and nothing more is trained."""

from pathlib import Path

import pytest

from isosweep.analysis.ladder import with_ladder
from isosweep.analysis.load import load_sweep, load_view
from isosweep.analysis.rungs import _rungs
from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import (
    BUDGETS,
    SMALL,
    make_plan,
    paths_in,
    peaked,
    write_plan,
    write_sweep,
)


def test_rungs_keep_their_distance_from_the_budgets() -> None:
    assert _rungs([1e20], 2, 1.0) == pytest.approx([1e19, 10**19.5])
    # Between budgets that lie far apart, and not beside them.
    assert _rungs([1e18, 1e20], 2, 0.0) == pytest.approx([10**18.5, 1e19, 10**19.5])
    assert _rungs([1e18, 2e18, 4e18], 4, 0.0) == []
    assert _rungs([1e20, 1e18, 4e18], 4, 0.5) == pytest.approx(
        [10**17.5, 10**17.75, 2e18, *(4e18 * 25 ** (k / 6) for k in range(1, 6))]
    )
    assert _rungs([1e18], 0, 2.0) == []


def test_so_many_pairs_are_read_less_often() -> None:
    def rungs(batches: int) -> int:
        plan = make_plan(batches=range(1, batches + 1), budgets=(1e8,), seeds=(0,))
        world = delayed_worlds(1e7, 2, 32)["easy"]
        records = simulate_records(world, plan, 0, num_problems=16, samples_per_problem=2)
        data = simulated_sweep(plan, records)
        return len(with_ladder(plan, data.curves, 5, 1.0).budgets)

    assert [rungs(batches) for batches in (2, 40, 60)] == [6, 5, 3]


def test_a_rung_is_read_by_the_runs_that_have_records_around_it(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, peaked(lambda C: 8.0), plan=SMALL)
    config = AnalysisConfig(readings_per_decade=5, decades=0.2)
    data = load_view(paths, config)
    added = sorted(set(data.plan.budgets) - set(SMALL.budgets))
    # The records begin at half of the first budget, 0.3 decades below it.
    assert added
    assert all(BUDGETS[0] / 2 <= rung < BUDGETS[-1] for rung in added)
    read = [r for r in data.readings if r.cell.budget in added]
    assert {r.reading for r in read} <= {"interpolated", "exact"}
    assert {r.cell.run_id for r in read} == {run.run_id for run in SMALL.runs}
    own = {(r.cell.run_id, r.cell.budget): r.reward for r in load_sweep(paths).readings}
    assert own == {
        (r.cell.run_id, r.cell.budget): r.reward
        for r in data.readings
        if r.cell.budget not in added
    }


def test_runs_without_records_get_no_rungs(tmp_path: Path) -> None:
    write_plan(paths_in(tmp_path), SMALL)
    data = load_view(paths_in(tmp_path), AnalysisConfig(readings_per_decade=4))
    assert data.plan.budgets == SMALL.budgets
    assert data.plan.cells == SMALL.cells
