"""The shipped table of what sweeps find, and what is read between its entries."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.simulation import findable as module
from isosweep.analysis.simulation.findable import (
    GRID,
    TABLE,
    Design,
    below_the_table,
    design_of,
    findable,
    nearest_in_the_table,
    read_budgets,
    sweeps_of_an_entry,
)
from isosweep.analysis.simulation.sweep import read_plan
from tests.conftest import make_config, plan_of

LEAST = Design(**{name: values[0] for name, values in GRID.items()})
MOST = Design(**{name: values[-1] for name, values in GRID.items()})
UNCACHED = module._tables.__wrapped__


def test_the_shipped_table_has_every_entry_and_counts_no_more_than_its_sweeps() -> None:
    document = json.loads(TABLE.read_text())
    assert document["designs"] == {name: list(values) for name, values in GRID.items()}
    assert document["analysis"] == module.JUDGED_BY
    designs = math.prod(len(values) for values in GRID.values())
    for counts in document["counts"].values():
        assert len(counts) == designs * 4
        for sweeps, surely, probably, falsely in np.reshape(counts, (-1, 4)).tolist():
            assert sweeps >= 8
            assert surely <= probably <= sweeps - falsely
    assert sweeps_of_an_entry() >= 16
    # More of all decides more.
    assert findable(MOST).ends.surely > findable(LEAST).ends.surely + 0.3
    assert findable(MOST).goes_on.surely > findable(LEAST).goes_on.surely + 0.1


def table_of(rule: Callable[[dict[str, float]], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the table one in which that share of 16 sweeps is decided surely, and as many are."""
    counts: list[int] = []
    shape = [len(values) for values in GRID.values()]
    for place in np.ndindex(*shape):
        design = {name: GRID[name][k] for name, k in zip(GRID, place, strict=True)}
        right = round(16 * rule(design))
        counts += [16, right, right, 0]
    document = {"counts": {"ends": counts, "goes_on": counts}}
    monkeypatch.setattr(module, "_document", lambda: document)
    monkeypatch.setattr(module, "_tables", UNCACHED)


def surely(design: Design) -> float:
    found = findable(design)
    assert found.ends == found.goes_on
    assert found.ends.surely == found.ends.probably
    return found.ends.surely


def test_shares_are_log_linear_in_runs_and_problems_and_linear_in_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table_of(lambda at: GRID["runs_of_each_n"].index(at["runs_of_each_n"]) / 2, monkeypatch)
    at = {runs: surely(replace(LEAST, runs_of_each_n=runs)) for runs in (2, 8**0.5, 4, 8)}
    assert at == pytest.approx({2: 0.0, 8**0.5: 0.125, 4: 0.25, 8: 0.5})
    table_of(lambda at: GRID["problems"].index(at["problems"]) / 2, monkeypatch)
    halfway = (GRID["problems"][0] * GRID["problems"][1]) ** 0.5
    assert surely(replace(LEAST, problems=halfway)) == pytest.approx(0.25)
    table_of(lambda at: at["decades"] - 2, monkeypatch)
    assert surely(replace(LEAST, decades=2.25)) == pytest.approx(0.25)


def test_outside_the_table_its_edge_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    table_of(lambda at: GRID["problems"].index(at["problems"]) / 2, monkeypatch)
    assert findable(replace(MOST, problems=1e6)) == findable(MOST)
    assert findable(replace(LEAST, problems=1, runs_of_each_n=1)) == findable(LEAST)
    assert below_the_table(replace(LEAST, problems=1)) == ("problems",)
    assert nearest_in_the_table(replace(MOST, decades=5, below=1)) == {"below": 2, "decades": 3}
    assert nearest_in_the_table(replace(MOST, decades=3.2, problems=1e6)) == {}
    # More than the table has, or a narrower grid, is no less.
    assert below_the_table(replace(MOST, problems=1e6, below=1)) == ()


def test_what_chance_made_of_more_data_is_evened_out(monkeypatch: pytest.MonkeyPatch) -> None:
    falls = dict(zip(GRID["problems"], (0.5, 0.25, 1.0), strict=True))
    table_of(lambda at: falls[at["problems"]], monkeypatch)
    shares = [surely(replace(LEAST, problems=problems)) for problems in falls]
    assert shares == pytest.approx([6 / 16, 6 / 16, 1.0])


@pytest.mark.parametrize(
    "overrides",
    [
        ("budget=3e11",),
        (),
        ("budget=[1e10,3e11]", "analysis.decades=1"),
        ("budget=1e10", "grid.min_steps=2", "grid.tolerance=0.1"),
        ("analysis.readings_per_decade=0",),
    ],
)
def test_budgets_that_are_read_are_those_of_the_ladder(overrides: tuple[str, ...]) -> None:
    config = make_config(*overrides)
    plan = plan_of(config)
    cells: dict[float, set[int]] = {}
    for cell in read_plan(plan, config.analysis).cells:
        cells.setdefault(cell.budget, set()).add(cell.num_generations)
    expected = sorted(budget for budget, n in cells.items() if len(n) >= 3)
    assert read_budgets(plan, config.analysis) == pytest.approx(expected)


def test_what_counts_of_a_plan() -> None:
    grid = (
        "grid.seeds=[0,1,2]",
        "grid.problems_per_batch=[4,8]",
        "grid.num_generations=[2,4,8,32]",
    )
    config = make_config("budget=3e11", *grid)
    design = design_of(plan_of(config), config.analysis, 100, 8)
    assert (design.runs_of_each_n, design.problems) == (6, 100)
    assert (design.below, design.headroom) == (2, 2)
    assert design.decades == pytest.approx(2.0)
