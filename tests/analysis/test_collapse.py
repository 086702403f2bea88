"""A run has collapsed where two records say so."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import Curve, collapse, read_cells, with_witnesses
from isosweep.analysis.ladder import with_ladder
from isosweep.analysis.records import Ending, make_curve
from isosweep.compute import Compute
from isosweep.store.records import Record
from tests.analysis.sweeps import made_curve, make_plan

BEFORE = [0.1, 0.3, 0.5, 0.6]


@pytest.mark.parametrize(
    ("after", "diverged_by", "first"),
    [
        ([0.15], None, None),
        ([0.15, 0.14], None, 4),
        ([0.15, 0.58], None, None),
        # Training's own reward has said so already.
        ([0.15], "collapse", 4),
    ],
)
def test_one_bad_record_is_no_collapse(
    after: list[float], diverged_by: str | None, first: int | None
) -> None:
    curve = replace(curve_of(BEFORE + after, 0, 8), diverged_by=diverged_by)
    assert collapse(curve) == first


def test_a_fall_within_the_errors_of_two_evaluations_is_no_collapse() -> None:
    """Both the best record and the one below it err, each by sqrt(0.25 / 4096) here."""
    error = np.sqrt(2 * 0.25 / 4096)
    for fall, first in ((5 * error, None), (7 * error, 2)):
        assert collapse(curve_of([0.5, 0.51, 0.51 - fall, 0.51 - fall], 0, 8)) == first


def curve_of(rewards: list[float], seed: int, n: int) -> Curve:
    (run,) = make_plan(generations=(n,), seeds=(seed,)).runs
    return made_curve(
        1e6 * np.arange(len(rewards), dtype=np.float64), np.array(rewards), run=run, problems=512
    )


def test_a_last_record_is_believed_where_another_run_of_the_same_n_fell_too() -> None:
    fallen, kept = [*BEFORE, 0.15], [*BEFORE, 0.59]
    alone = [curve_of(fallen, 0, 8), curve_of(kept, 1, 8), curve_of(fallen, 0, 16)]
    assert [c.collapsed_at for c in with_witnesses(alone)] == [None, None, None]
    both = [*alone, curve_of(fallen, 2, 8)]
    assert [c.collapsed_at for c in with_witnesses(both)] == [4, None, None, 4]


def test_a_run_that_fell_counts_as_fallen_at_every_budget_past_its_last_record() -> None:
    """A search trains it no further; those that lasted would stand for all, between budgets too."""
    fallen, kept = (
        curve_of([*BEFORE, *end], seed, 8) for seed, end in enumerate(([0.15, 0.14], []))
    )
    plan = make_plan(seeds=range(2), budgets=(2e6, 8e6, 3.2e7))
    of_runs = [replace(c, collapsed_at=4) if c is fallen else c for c in (fallen, kept)]
    runs = tuple(curve.run for curve in of_runs)
    ids = {run.run_id for run in runs}
    cells = tuple(cell for cell in plan.cells if cell.run_id in ids)
    read = with_ladder(replace(plan, runs=runs, cells=cells), of_runs, 5, 1.0)
    found = [r for r in read_cells(read, of_runs) if r.cell.run_id == runs[0].run_id]
    late = {r.cell.budget: (r.reading, r.fallen) for r in found if r.cell.budget > 5e6}
    assert len(late) > 4
    assert set(late.values()) == {("collapsed", 0.14)}
    before = [r for r in found if r.cell.budget < 2.9e6]
    assert before
    assert all(r.fallen is None for r in before)


def test_a_fall_of_rewards_alone_is_a_collapse_and_no_error() -> None:
    """Errors that nobody told are read off the curve, of which a fall is a part."""
    run = make_plan(seeds=range(4)).runs[0]
    rewards = [*(0.3 + 0.03 * k + 0.002 * (-1) ** k for k in range(12)), 0.2, 0.2]
    records = [
        Record(
            step=step,
            mean_reward=reward,
            unix_time=0.0,
            compute=Compute(generations=step, rollouts=step, training_flops=1e6 * step),
        )
        for step, reward in enumerate(rewards)
    ]
    curve = make_curve(run, records, "flops", Ending(status="finished"))
    assert collapse(curve) == 12
