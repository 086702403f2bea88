"""What the terminal shows of a plan."""

import io

import pytest
from rich.console import Console

from isosweep.modes.display import show_plan
from isosweep.plan.standing import PlanStanding
from tests.conftest import make_config, plan_of


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("budget=1e11",), None),
        (
            ("budget=1e11", "grid.seeds=[0]", "analysis.readings_per_decade=0"),
            "takes at least 3 budgets with 3 or more n (here 1) and 2 seeds (here 1), "
            "e.g. budget=logspace:1e+10:1e+11:3 grid.seeds=[0,1]",
        ),
        (("grid.seeds=[3]",), "takes at least 2 seeds (here 1), e.g. grid.seeds=[0,1]"),
        (("grid.num_generations=[2,4]",), "takes at least 1 budget with 3 or more n (here 0);"),
        ((), None),
    ],
)
def test_a_plan_that_can_come_to_no_verdict_is_told_so(
    overrides: tuple[str, ...], said: str | None
) -> None:
    config = make_config(*overrides)
    plan = plan_of(config)
    text = io.StringIO()
    nothing = PlanStanding(runs={}, left=1.0)
    show_plan(plan, config, nothing, None, Console(file=text, width=200))
    assert ("a verdict on saturation" in text.getvalue()) == (said is not None)
    assert said is None or said in text.getvalue()
