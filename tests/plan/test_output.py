"""The plan as CSV, as a page, and as a document."""

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from isosweep.errors import RecordError
from isosweep.plan.cells import Cell, Plan, plan_from_document
from isosweep.plan.output import PlanFacts, plan_csv, plan_page
from isosweep.plan.study import plan_document, resolve
from isosweep.words.numbers import predicted_time, price_parts
from tests.conftest import make_config, plan_of

FACTS = PlanFacts(
    model="tiny",
    task="sort",
    hardware="cpu",
    devices=16,
    nodes=2,
    device_hours=12.0,
    hours=2.0,
    at_once=6,
    lines=("can find: little",),
    command="python -m isosweep",
)
AXES = "grid.axes={recipe.num_iterations:[1,2]}"
SWEEPS = {
    "tiny": (),
    "axes": (AXES,),
    "vllm": ("model=qwen-1.5b", "budget=1e20", "generation=vllm"),
    "device_hours": ("budget_unit=device_hours", "budget=[0.02,0.04]"),
}
EVERY_SWEEP = pytest.mark.parametrize("overrides", SWEEPS.values(), ids=SWEEPS)


def written(*overrides: str) -> Any:
    """The plan document as it is read back from a file of plain JSON."""
    config = make_config(*overrides)
    return json.loads(json.dumps(plan_document(resolve(config)), allow_nan=False))


def rows_of(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plan_csv(plan), newline="")))


def embedded(page: str) -> Any:
    """The data of a page, read as a browser reads it: up to the first closing tag."""
    element = re.search(r'<script type="application/json" id="plan">(.*?)</script', page, re.DOTALL)
    assert element is not None
    return json.loads(element[1])


@EVERY_SWEEP
def test_csv_has_a_row_for_every_candidate_with_its_numbers(overrides: tuple[str, ...]) -> None:
    plan = plan_of(make_config(*overrides))
    rows = rows_of(plan)
    assert len(rows) == len(plan.cells) + len(plan.rejected)
    axes = sorted({name for cell in plan.cells for name in cell.axes})
    whole = ("num_generations", "problems_per_batch", "num_steps", "seed")
    real = ("budget", "planned_compute", "planned_flops", "device_hours")
    cells = {
        (*(getattr(c, name) for name in (*whole, *real)), c.run_id, *(str(c.axes[a]) for a in axes))
        for c in plan.cells
    }
    planned = [row for row in rows if row["status"] == "planned"]
    assert cells == {
        (
            *(int(row[name]) for name in whole),
            *(float(row[name]) for name in real),
            row["run_id"],
            *(row[axis] for axis in axes),
        )
        for row in planned
    }
    assert {row["rule"] + row["reason"] for row in planned} <= {""}
    rejected = [row for row in rows if row["status"] == "rejected"]
    assert sorted((r.rule, r.reason) for r in plan.rejected) == sorted(
        (row["rule"], row["reason"]) for row in rejected
    )
    assert {row["planned_compute"] + row["run_id"] for row in rejected} <= {""}


def test_csv_is_sorted_by_axes_budget_batch_generations_and_seed() -> None:
    plan = plan_of(make_config("grid.axes={recipe.num_iterations:[10,2],recipe.beta:[0.1,0]}"))
    axes = ("recipe.beta", "recipe.num_iterations")
    names = (*axes, "budget", "problems_per_batch", "num_generations", "seed")
    places = [[float(row[name]) for name in names] for row in rows_of(plan)]
    assert places == sorted(places)


@EVERY_SWEEP
def test_page_embeds_the_whole_plan(overrides: tuple[str, ...]) -> None:
    plan = plan_of(make_config(*overrides))
    page = plan_page(plan, "a plan", FACTS)
    data = embedded(page)
    assert plan_from_document({"version": 2, **data}) == plan
    assert data["title"] == "a plan"
    assert data["totals"]["sharing"] == plan.sharing
    assert data["totals"]["price"] == price_parts(12.0, plan.pricing)
    assert data["totals"]["time"] == predicted_time(2.0, plan.pricing)
    assert data["facts"]["command"] == "python -m isosweep"
    views = [(axes, budget) for axes in data["combinations"] for budget in data["budgets"]]
    assert all((cell.axes, cell.budget) in views for cell in plan.cells)
    assert all((rejection.axes, rejection.budget) in views for rejection in plan.rejected)


def test_page_needs_no_network_and_little_space() -> None:
    plan = plan_of(make_config())
    template = plan_page(replace(plan, cells=(), runs=(), rejected=()), "", FACTS)
    assert len(template.encode()) < 40_000
    assert not re.search(r"https?:|\bsrc=|<link|@import|\bfetch\(|\bimport\b", template)


def test_page_holds_names_that_look_like_markup_as_data() -> None:
    plan = plan_of(make_config())
    nasty = "</script><!--<script>&amp; PLAN_DATA \u2028 ü"
    cells = tuple(replace(cell, run_id=nasty, axes={"model": nasty}) for cell in plan.cells)
    page = plan_page(replace(plan, cells=cells), nasty, FACTS)
    data = embedded(page)
    assert data["title"] == nasty
    assert tuple(Cell(**cell) for cell in data["cells"]) == cells
    ordinary = plan_page(plan, "plan", FACTS)
    for mark in ("<script", "</script", "<!--"):
        assert page.count(mark) == ordinary.count(mark)


@pytest.mark.parametrize("name", ["../../mine", "/home/mine", "a/../b", "a\nb", "."])
def test_a_plan_whose_runs_would_lie_elsewhere_is_not_believed(name: str) -> None:
    document = written()
    del document["plan_id"]
    replaced = document["runs"][0]["run_id"]
    for each in (*document["runs"], *document["cells"]):
        each["run_id"] = name if each["run_id"] == replaced else each["run_id"]
    with pytest.raises(RecordError, match=r"has the run .* which is no name; plan it anew"):
        plan_from_document(document)


def test_a_plan_says_which_share_of_its_compute_evaluation_takes() -> None:
    document = written("grid.axes={task.num_eval_problems:[64,128]}")
    evaluation, runs = document["evaluation"], document["runs"]
    assert evaluation["problems"] == [64, 128]
    assert evaluation["records"] == sum(run["records"] for run in runs)
    assert evaluation["flops"] == pytest.approx(sum(run["evaluation_flops"] for run in runs))
    share = evaluation["flops"] / (evaluation["flops"] + sum(run["planned_flops"] for run in runs))
    assert evaluation["share_of_flops"] == pytest.approx(share)
    assert 0 < evaluation["share_of_time"] < 1
