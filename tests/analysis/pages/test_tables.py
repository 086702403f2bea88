"""Tables that only the page has."""

from dataclasses import replace

from isosweep.analysis.pages.tables import missing_runs
from isosweep.store.warnings import HealthWarning
from tests.analysis.conftest import Analysed


def test_reasons_and_warnings_have_a_column_where_there_are_any(full: Analysed) -> None:
    first, *others = full.data.curves
    low = HealthWarning(step=3, rule="entropy_collapse", message="")
    plain = replace(full.data, curves=(replace(first, status="failed"), *others))
    warned = replace(plain, curves=(replace(plain.curves[0], warnings=(low,)), *others))
    (row,) = missing_runs(plain).rows
    assert dict(zip(missing_runs(plain).head, row, strict=True))["status"] == "failed"
    assert not {"reason", "warnings"} & set(missing_runs(plain).head)
    table = missing_runs(warned)
    assert table.rows[0][table.head.index("warnings")] == "entropy_collapse (step 3)"
    assert table.head.index("warnings") in table.left
