"""What goes by how far a run is: its records, and its end."""

from itertools import pairwise

from isosweep.compute import Compute
from isosweep.training.schedule import Schedule


def spent(flops: float, rollouts: int = 0) -> Compute:
    """After so many generations that half of one is little."""
    return Compute(generations=10**6, training_flops=flops, rollouts=rollouts)


def test_a_record_is_due_at_every_grid_point_and_once() -> None:
    schedule = Schedule((1e12,), "flops", records_per_decade=2)
    assert schedule.record_due(spent(9e9), spent(1e10))
    assert not schedule.record_due(spent(1e10), spent(3e10))
    assert schedule.record_due(spent(3e10), spent(3.2e10))
    # However many points a step passes: it is one record.
    assert schedule.record_due(spent(1e8), spent(3.1e10))


def test_a_record_is_due_at_every_milestone_and_the_grid_does_not_know_them() -> None:
    few = Schedule((50.0,), "rollouts", records_per_decade=1)
    more = Schedule((50.0, 80.0), "rollouts", records_per_decade=1)
    steps = [spent(1.1e9 + at, rollouts=at) for at in range(0, 120, 10)]
    due = {
        schedule: [b.rollouts for a, b in pairwise(steps) if schedule.record_due(a, b)]
        for schedule in (few, more)
    }
    assert due == {few: [50], more: [50, 80]}
    assert few.is_over(spent(0, rollouts=50))
    assert not more.is_over(spent(0, rollouts=79))
