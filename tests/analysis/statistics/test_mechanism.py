"""Problems gained and lost, counted by hand."""

import numpy as np
import pytest

from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.statistics.frontier import fit_frontier
from isosweep.analysis.statistics.mechanism import problem_changes
from isosweep.compute import Compute
from isosweep.store.records import Record
from tests.analysis.sweeps import BUDGETS, make_plan

K = 8
PLAN = make_plan(generations=(2,), seeds=(0, 1), budgets=BUDGETS[:1])


def record(step: int, compute: float, successes: tuple[int, ...]) -> Record:
    return Record(
        step=step,
        compute=Compute(generations=step, training_flops=compute),
        successes=successes,
        samples_per_problem=K,
        completion_tokens=1.0,
        unix_time=0.0,
    )


def test_problems_are_counted_as_one_would_by_hand() -> None:
    base = (0, 4, 8, 4, 8)
    # Learned, lost, kept, barely moved, kept; the second seed differs in the fourth.
    ends = ((8, 0, 8, 5, 8), (8, 0, 8, 4, 8))
    records = {
        run.run_id: (record(0, 0.0, base), record(250, BUDGETS[0], end))
        for run, end in zip(PLAN.runs, ends, strict=True)
    }
    data = simulated_sweep(PLAN, records)
    (change,) = problem_changes(data, fit_frontier(data.readings, None, None, 0.9))
    assert (change.num_generations, change.num_seeds) == (2, 2)
    assert (change.none, change.all) == (1 / 5, 3 / 5)
    assert (change.better, change.worse) == (1 / 5, 1 / 5)
    assert change.gained == pytest.approx((1 + 1 / 16) / 5)
    assert change.lost == pytest.approx(0.5 / 5)
    rewards = [curve.reward for curve in data.curves]
    moved = np.mean([reward[-1] - reward[0] for reward in rewards])
    assert change.gained - change.lost == pytest.approx(float(moved))


def test_chance_alone_puts_about_two_per_cent_on_either_side() -> None:
    plan = make_plan(generations=(2,), seeds=(0, 1, 2, 3), budgets=(8e6,))
    still = delayed_worlds(1e30, 2, 64)["quiet"]
    made = simulate_records(still, plan, 0, num_problems=2000, samples_per_problem=64)
    data = simulated_sweep(plan, made)
    (change,) = problem_changes(data, fit_frontier(data.readings, None, None, 0.9))
    assert 0.01 < change.better < 0.04
    assert 0.01 < change.worse < 0.04


def test_a_sweep_without_records_has_no_changes() -> None:
    data = simulated_sweep(PLAN, {run.run_id: () for run in PLAN.runs})
    assert problem_changes(data, fit_frontier(data.readings, None, None, 0.9)) == ()
