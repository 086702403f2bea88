"""What is believed, against what an analysis of the same readings could say."""

from dataclasses import replace

from isosweep.analysis.curves import SweepData, read_cells
from isosweep.analysis.ladder import with_ladder
from isosweep.search.belief import SURE, VERDICTS, form_belief
from tests.search.sweeps import ANALYSIS, BUDGETS, PLAN, trained

# The largest n first: of the best one nothing is known at the largest budget.
MID_COURSE = {
    run.run_id: BUDGETS[-1] if run.num_generations >= 64 else BUDGETS[3] for run in PLAN.runs
}


def laddered(data: SweepData) -> SweepData:
    """Read between its budgets as well, where runs have come so far."""
    plan = with_ladder(data.plan, data.curves, 5, 0.0)
    return replace(data, plan=plan, readings=read_cells(plan, data.curves))


def test_between_budgets_a_run_that_has_not_come_so_far_can_still_be_read() -> None:
    data = laddered(trained(MID_COURSE, "constant"))
    rung = max(set(data.plan.budgets) - {BUDGETS[-1]})
    assert {c.num_generations for c in data.plan.cells if c.budget == rung} == {64, 128}
    belief = form_belief(data.plan, data.readings, ANALYSIS, 0)
    assert belief is not None
    assert belief.offered[belief.budgets.index(rung)].all()
    # Or n* would seem to jump to 64 at that rung, and to fall from it.
    assert belief.chances[VERDICTS.index("fell")] < SURE
