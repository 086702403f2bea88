"""Runs are read at smaller budgets than those of the plan, and nothing more is trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.load import load_sweep
from isosweep.analysis.readings import read_runs, rungs_of
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import BUDGETS, SMALL, made_curve, make_plan, peaked, write_sweep


def test_rungs_keep_their_distance_from_the_budgets() -> None:
    def rungs(budgets: tuple[float, ...], per_decade: int, decades: float) -> list[float]:
        plan = replace(make_plan(budgets=(1e20,)), budgets=budgets)
        return rungs_of(plan, per_decade, decades)

    assert rungs((1e20,), 2, 1.0) == pytest.approx([1e19, 10**19.5])
    # Between budgets that lie far apart, and not beside them.
    assert rungs((1e18, 1e20), 2, 0.0) == pytest.approx([10**18.5, 1e19, 10**19.5])
    assert rungs((1e18, 2e18, 4e18), 4, 0.0) == []
    assert rungs((1e20, 1e18, 4e18), 4, 0.5) == pytest.approx(
        [10**17.5, 10**17.75, 2e18, *(4e18 * 25 ** (k / 6) for k in range(1, 6))]
    )
    assert rungs((1e18,), 0, 2.0) == []


def test_so_many_pairs_are_read_less_often() -> None:
    for batches, rungs in ((2, 5), (40, 4), (60, 2)):
        plan = make_plan(batches=range(1, batches + 1), budgets=(1e8,), seeds=(0,))
        assert len(rungs_of(plan, 5, 1.0)) == rungs


def test_a_rung_is_read_by_the_runs_that_have_records_around_it(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, peaked(lambda C: 8.0), plan=SMALL)
    data = load_sweep(paths, AnalysisConfig(readings_per_decade=5, decades=0.2))
    added = sorted(set(data.plan.budgets) - set(SMALL.budgets))
    # The records begin at half of the first budget, 0.3 decades below it.
    assert added
    assert all(BUDGETS[0] / 2 <= rung < BUDGETS[-1] for rung in added)
    assert [r.cell for r in data.readings] == list(data.plan.cells)
    read = [r for r in data.readings if r.cell.budget in added]
    assert {r.reading for r in read} <= {"interpolated", "exact"}
    assert {r.cell.run_id for r in read} == {run.run_id for run in SMALL.runs}
    assert load_sweep(paths).readings == data.readings[: len(SMALL.cells)]


def test_a_run_that_fell_counts_as_fallen_at_every_budget_past_its_last_record() -> None:
    """A search trains it no further; those that lasted would stand for all, between budgets too."""
    plan = make_plan(generations=(8,), seeds=range(3), budgets=(2e6, 8e6, 3.2e7))
    rewards = np.array([0.1, 0.3, 0.5, 0.6, 0.15, 0.14])
    curves = [
        made_curve(1e6 * np.arange(size, dtype=float), rewards[:size], run=run, problems=512)
        for run, size in zip(plan.runs, (6, 4, 0), strict=True)
    ]
    curves[0] = replace(curves[0], collapsed_at=4)
    read, readings = read_runs(plan, curves, 5, 1.0)
    fell = [r for r in readings if r.cell.run_id == plan.runs[0].run_id]
    late = {r.cell.budget: (r.reading, r.fallen) for r in fell if r.cell.budget > 5e6}
    assert len(late) > 4
    assert set(late.values()) == {("collapsed", 0.14)}
    before = [r for r in fell if r.cell.budget < 2.9e6]
    assert before
    assert all(r.fallen is None for r in before)
    # Where a run is planned to end it is read last.
    first = plan.runs[0].run_id
    kept = tuple(cell for cell in plan.cells if cell.run_id != first or cell.budget < 3e7)
    _, readings = read_runs(replace(plan, cells=kept), curves, 5, 1.0)
    assert max(r.cell.budget for r in readings if r.cell.run_id == first) == 8e6
    # Without records there are no rungs.
    assert {c.budget for c in read.cells if c.run_id == plan.runs[2].run_id} == {*plan.budgets}
