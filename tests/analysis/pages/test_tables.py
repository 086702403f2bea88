"""Tables that only the page has."""

from dataclasses import replace

from isosweep.analysis.pages.tables import all_fallen
from tests.analysis.conftest import Analysed


def test_an_n_all_of_whose_runs_fell_is_named_with_the_budgets_it_has_no_row_at(
    full: Analysed,
) -> None:
    first, second, *_ = full.data.generations
    last = full.data.plan.budgets[-1]
    spared = next(c.run.run_id for c in full.data.curves if c.run.num_generations == second)
    readings = tuple(
        replace(r, reward=None, fallen=0.1)
        if r.cell.num_generations in (first, second)
        and r.cell.budget == last
        and r.cell.run_id != spared
        else r
        for r in full.data.readings
    )
    assert all_fallen(full.data) == {}
    assert all_fallen(replace(full.data, readings=readings)) == {first: [last]}
