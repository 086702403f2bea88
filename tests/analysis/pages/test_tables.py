"""Tables that only the page has."""

from dataclasses import replace

from isosweep.analysis.pages.tables import all_fallen, missing_runs
from isosweep.store.warnings import HealthWarning
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


def test_reasons_and_warnings_have_a_column_where_there_are_any(full: Analysed) -> None:
    first, *others = full.data.curves
    low = HealthWarning.without_value(3, "entropy_collapse", "")
    plain = replace(full.data, curves=(replace(first, status="failed"), *others))
    warned = replace(plain, curves=(replace(plain.curves[0], warnings=(low,)), *others))
    (row,) = missing_runs(plain).rows
    assert dict(zip(missing_runs(plain).head, row, strict=True))["status"] == "failed"
    assert not {"reason", "warnings"} & set(missing_runs(plain).head)
    table = missing_runs(warned)
    assert table.rows[0][table.head.index("warnings")] == "entropy_collapse (step 3)"
    assert table.head.index("warnings") in table.left
