"""The shipped table of what sweeps find, and what is read between its entries."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from isosweep.analysis.simulation import findable as module
from isosweep.analysis.simulation import presets, sweep
from isosweep.analysis.simulation.findable import (
    GRID,
    TABLE,
    Design,
    below_the_table,
    design_of,
    findable,
    make_table,
    nearest_in_the_table,
    read_budgets,
)
from isosweep.analysis.simulation.sweep import read_plan
from tests.conftest import make_config, plan_of

LEAST = Design(**{name: values[0] for name, values in GRID.items()})
UNCACHED = module._tables.__wrapped__
MOST = Design(**{name: values[-1] for name, values in GRID.items()})


def test_the_shipped_table_has_every_entry_and_counts_no_more_than_its_sweeps() -> None:
    document = json.loads(TABLE.read_text())
    designs = [tuple(entry["design"][name] for name in GRID) for entry in document["entries"]]
    assert designs == list(itertools.product(*GRID.values()))
    assert document["sweeps"] >= 16
    assert document["analysis"] == module.JUDGED_BY
    for entry in document["entries"]:
        assert 0 <= entry["ends"] <= entry["grew"] <= document["sweeps"]
        assert 0 <= entry["goes_on"] <= document["sweeps"]
    # An affordable sweep sees growth nearly always, and its end more often with more of all.
    assert findable(MOST).grew > 0.9
    assert findable(MOST).decided > findable(LEAST).decided + 0.3


def table_of(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"design": dict(zip(GRID, values, strict=True)), **dict.fromkeys(module._COUNTED, count)}
        for values in itertools.product(*GRID.values())
        for count in [rule(**dict(zip(GRID, values, strict=True)))]
    ]
    document = {"sweeps": 16, "entries": entries}
    monkeypatch.setattr(module, "_document", lambda: document)
    monkeypatch.setattr(module, "_tables", UNCACHED)


def test_shares_are_log_linear_in_runs_and_problems_and_linear_in_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table_of(lambda **at: 8 * GRID["runs_of_each_n"].index(at["runs_of_each_n"]), monkeypatch)
    at = {runs: findable(replace(LEAST, runs_of_each_n=runs)).ends for runs in (2, 8**0.5, 4, 8)}
    assert at == pytest.approx({2: 0.0, 8**0.5: 0.125, 4: 0.25, 8: 0.5})
    table_of(lambda problems, **_: 8 * GRID["problems"].index(problems), monkeypatch)
    halfway = (GRID["problems"][0] * GRID["problems"][1]) ** 0.5
    assert findable(replace(LEAST, problems=halfway)).grew == pytest.approx(0.25)
    table_of(lambda decades, **_: 16 * (decades - 2), monkeypatch)
    assert findable(replace(LEAST, decades=2.25)).goes_on == pytest.approx(0.25)


def test_outside_the_table_its_edge_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    table_of(lambda problems, **_: 8 * GRID["problems"].index(problems), monkeypatch)
    assert findable(replace(MOST, problems=1e6)) == findable(MOST)
    assert findable(replace(LEAST, problems=1, runs_of_each_n=1)) == findable(LEAST)
    assert below_the_table(replace(LEAST, problems=1)) == ("problems",)
    assert nearest_in_the_table(replace(MOST, decades=5, below=2)) == {"below": 3, "decades": 3}
    assert nearest_in_the_table(replace(MOST, decades=3.2, problems=1e6)) == {}
    # More than the table has, or a narrower grid, is no less.
    assert below_the_table(replace(MOST, problems=1e6, below=2)) == ()


def test_what_chance_made_of_more_data_is_evened_out(monkeypatch: pytest.MonkeyPatch) -> None:
    falls = dict(zip(GRID["headroom"], (8, 4, 16), strict=True))
    table_of(lambda headroom, **_: falls[headroom], monkeypatch)
    shares = [findable(replace(LEAST, headroom=doublings)).ends for doublings in falls]
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


def test_the_table_counts_verdicts_of_sweeps_of_each_design(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GRID", {name: values[:1] for name, values in GRID.items()})
    said = {
        "plateau": iter(["saturated", "grew", "fell", "growing"]),
        "slow_tail": iter(["growing", "grew", "saturated", "growing"]),
    }
    asked = []

    def verdict(world: Any, plan: Any, config: Any, **given: Any) -> str:
        asked.append((world.name, len(plan.runs), given["num_problems"], given["seed"]))
        # Growth ends one doubling below the largest n, three above the smallest.
        end = 2 ** float(world.target(1e21))
        if world.name == "plateau":
            assert {end / run.num_generations for run in plan.runs} == {8, 4, 2, 1, 0.5}
        return next(said[world.name])

    monkeypatch.setattr(sweep, "simulated_verdict", verdict)
    # Each world is simulated once, whatever is counted of it.
    (entry,) = make_table(4, lambda line: None)["entries"]
    assert (entry["ends"], entry["grew"], entry["goes_on"]) == (1, 3, 2)
    assert asked[0] == ("plateau", 2 * 5, 128, (0, 0))
    assert len(asked) == 8


def test_the_worlds_growth_ends_where_the_table_takes_it_to() -> None:
    assert presets.COURSES["plateau"][-1][1] / presets._DOUBLINGS == module.PLATEAU


def test_a_larger_n_shows_more_of_the_same_world() -> None:
    """Of six n and two seeds, with the largest two doublings above the end of growth, more sweeps
    say that it has ended than of five, and than of five with eight seeds at a quarter of the
    problems."""
    lab = Design(runs_of_each_n=2, problems=4096, below=3.3, headroom=1, decades=2)
    more = findable(replace(lab, headroom=2)).ends
    assert more > findable(lab).ends + 0.1
