"""The plan as CSV, as a page, and as a document."""

import csv
import io
import json
import re
from html import unescape
from typing import Any

import pytest

from isosweep.errors import RecordError
from isosweep.plan.document import plan_document, plan_from_document
from isosweep.plan.output import plan_csv, plan_page
from isosweep.plan.study import Study, resolve
from tests.conftest import make_config

SWEEPS = {
    "axes": ("grid.axes={recipe.num_iterations:[1,2]}",),
    "vllm": ("model=qwen-1.5b", "budget=1e20", "generation=vllm"),
    "device_hours": ("budget_unit=device_hours", "budget=[0.02,0.04]"),
}


@pytest.fixture(params=list(SWEEPS.values()), ids=list(SWEEPS), scope="module")
def study(request: pytest.FixtureRequest) -> Study:
    return resolve(make_config(*request.param))


def written(study: Study) -> Any:
    """The plan document as it is read back from a file of plain JSON."""
    return json.loads(json.dumps(plan_document(study.plan), allow_nan=False))


def test_a_plan_is_read_as_it_was_written(study: Study) -> None:
    assert plan_from_document(written(study)) == study.plan


def test_csv_has_a_row_for_every_candidate_with_its_numbers(study: Study) -> None:
    plan = study.plan
    rows = list(csv.DictReader(io.StringIO(plan_csv(plan), newline="")))
    axes = sorted({name for cell in plan.cells for name in cell.axes})
    numbers = ("num_steps", "budget", "planned_compute", "planned_flops", "device_hours")
    assert {(c.run_id, *(getattr(c, n) for n in numbers)) for c in plan.cells} == {
        (row["run_id"], *(float(row[name]) for name in numbers))
        for row in rows
        if row["status"] == "planned"
    }
    assert sorted((r.rule, r.reason) for r in plan.rejected) == sorted(
        (row["rule"], row["reason"]) for row in rows if row["status"] == "rejected"
    )
    names = (*axes, "budget", "problems_per_batch", "num_generations", "seed")
    places = [[float(row[name]) for name in names] for row in rows]
    assert places == sorted(places)


def test_the_page_has_every_candidate_and_needs_no_network(study: Study) -> None:
    page = plan_page(study, "</script> & co", 2, ["can find: <little>"], "python -m isosweep")
    assert not re.search(r"https?:|\bsrc=|<link|@import|<script|</script", page)
    text = unescape(re.sub(r"<[^>]+>", " ", page))
    assert "</script> & co" in text
    assert "Can find: <little>" in text
    assert "time, 2 runs at once" in text
    seeds = len(study.config.grid.seeds)
    assert page.count("T = ") >= len(study.plan.cells) / seeds
    for rejection in study.plan.rejected:
        assert rejection.rule in text


def test_a_document_that_is_no_plan_is_refused_in_words(study: Study) -> None:
    with pytest.raises(RecordError, match="has format 1, and this isosweep reads format 2"):
        plan_from_document({"version": 1})
    for name in ("../../mine", "/home/mine", "a/../b", "a\nb", "."):
        document = written(study)
        document["runs"][0]["run_id"] = name
        with pytest.raises(RecordError, match=r"runs\.0\.run_id: .* is no name of a run; plan it"):
            plan_from_document(document)
    said = f"says plan another, and its runs are those of {study.plan.plan_id}"
    with pytest.raises(RecordError, match=said):
        plan_from_document(written(study) | {"plan_id": "another"})


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("run_id", "another", "of run another, which is not among the runs"),
        ("num_steps", 10**9, "a cell of 1000000000 steps at budget"),
        ("budget", 7.0, "at budget 7.0 is of run"),
    ],
)
def test_cells_that_contradict_their_runs_are_refused(
    study: Study, field: str, value: object, rule: str
) -> None:
    document = written(study)
    document["cells"][0][field] = value
    with pytest.raises(RecordError, match=rf"^plan\.json: .*{rule}"):
        plan_from_document(document)
