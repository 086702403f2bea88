"""The plan's table on the terminal: n down, budgets across, within the terminal's width."""

from isosweep.modes.show_plan import _ROWS, _plan_rows
from isosweep.plan.study import resolve
from tests.conftest import SMALL, make_config


def rows_of(*overrides: str) -> list[list[str]]:
    plan = resolve(make_config(*SMALL, *overrides)).plan
    rules = dict.fromkeys({rejection.rule for rejection in plan.rejected}, "a")
    return _plan_rows(plan, rules)


def test_a_row_is_a_pair_of_n_and_b_with_every_budget_beside_it() -> None:
    rows = rows_of(
        "grid.num_generations=[2,4]", "grid.problems_per_batch=[4,8]", "budget=[1e10,2e10]"
    )
    assert [row[:2] for row in rows] == [["2", "4"], ["2", "8"], ["4", "4"], ["4", "8"]]
    assert {len(row) for row in rows} == {4}
    steps, seconds = rows[0][2].split("  ")
    assert steps.isdigit()
    assert seconds.endswith(" s")


def test_many_pairs_are_a_row_for_each_n() -> None:
    batches = [2**k for k in range(1, _ROWS // 2)]
    rows = rows_of(
        "grid.num_generations=[2,4,8]",
        f"grid.problems_per_batch={batches}".replace(" ", ""),
        "budget=1e10",
        "grid.min_steps=1",
        "grid.tolerance=0.4",
    )
    assert [row[0] for row in rows] == ["2", "4", "8"]
    assert {row[1] for row in rows} == {f"{len(batches)} B"}
    assert "-" in rows[0][2]
