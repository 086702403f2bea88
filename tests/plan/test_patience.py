"""How long a run may make no progress: longer where its steps are planned to take long."""

from isosweep.plan.cells import predicted
from isosweep.plan.patience import LEAST_S, TIMES, stuck_after
from isosweep.plan.study import resolve
from tests.conftest import make_config


def test_patience_is_many_planned_steps_and_half_an_hour_at_least() -> None:
    assert set(stuck_after(resolve(make_config())).values()) == {LEAST_S}
    slow = resolve(make_config("hardware.peak_flops=1e6", "task.num_eval_problems=1"))
    patience = stuck_after(slow)
    for run in slow.plan.runs:
        step = predicted(run.seconds) / run.num_steps
        assert patience[run.run_id] > 0.9 * TIMES * step
