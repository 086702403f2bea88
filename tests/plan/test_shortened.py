"""A run as far as a milestone is the run that would be planned for that budget."""

import pytest

from isosweep.plan.shortened import up_to
from tests.conftest import SMALL, make_config, plan_of


def test_a_shortened_run_is_the_one_planned_for_the_smaller_budget() -> None:
    whole = plan_of(make_config(*SMALL, "budget=[6.4e9,1.28e10,2.56e10]"))
    alone = plan_of(make_config(*SMALL, "budget=[6.4e9,1.28e10]"))
    assert len(whole.runs) == len(alone.runs) == 2
    for run, planned in zip(whole.runs, alone.runs, strict=True):
        short = up_to(whole, run, 1.28e10)
        assert (short.run_id, short.milestones) == (planned.run_id, planned.milestones)
        assert (short.num_steps, short.planned_flops) == (planned.num_steps, planned.planned_flops)
        assert short.seconds == pytest.approx(planned.seconds)
        assert short.planned_hardware_flops == pytest.approx(planned.planned_hardware_flops)
        assert 0 < short.evaluation_seconds < run.evaluation_seconds
        assert up_to(whole, run, 2.56e10) is run
