"""What goes by how far a run is: records, its end, its rate, and what is decided of a step."""

from itertools import pairwise
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.training.protocols import Decision
from isosweep.training.schedule import Schedule, share_of_rate


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


def test_the_rate_rises_from_the_first_update_on_and_then_stays() -> None:
    assert [share_of_rate(done, 4) for done in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    assert [share_of_rate(done, 1) for done in range(2)] == [1, 1]
    assert share_of_rate(0, 0) == 1


class Strict:
    """Checkpoints after every step, and takes that back and ends training at the third."""

    def __init__(self) -> None:
        self.seen: list[dict[str, float]] = []

    def step_ended(self, step: int, seconds: float) -> Decision:
        return Decision(save=True)

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        self.seen.append(values)
        return Decision(stop=True) if step == 3 else None


@pytest.mark.train
def test_the_metrics_of_a_step_can_end_training_and_take_its_checkpoint_back() -> None:
    from transformers import TrainerControl, TrainerState

    from isosweep.training.trl_callback import StepCallback

    observer: Any = Strict()
    callback = StepCallback(observer, lambda: None)
    control = TrainerControl()
    for step in (2, 3):
        state = TrainerState(global_step=step)
        callback.on_step_end(None, state, control)
        assert (control.should_save, control.should_training_stop) == (True, False)
        logs = {"loss": 0.5, "sampling/sampling_logp_difference/mean": 0.01, "other": 1.0}
        callback.on_log(None, state, control, logs=logs)
        assert control.should_save is (step == 2)
        assert control.should_training_stop is (step == 3)
    assert observer.seen == [{"loss": 0.5, "logp_difference": 0.01}] * 2
