"""A table's file and its part of the page show the same rows."""

import csv
import json
from dataclasses import replace
from pathlib import Path

from isosweep.analysis.load import load_sweep
from isosweep.analysis.pages.tables import MISSING, page_tables
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.tables import all_tables, choices
from tests.analysis.conftest import CONFIG, Analysed, Reported
from tests.analysis.sweeps import REWARD, make_plan, write_sweep

HEADERS = {
    "frontier": "budget,n,B,T,seed,run_id,planned_compute,measured_compute,reward,reading",
    "choices": "budget,n,B,batches_tried,T,seeds,fallen,measured,standard_error,expected,low,high,"
    "loss,loss_upper,probability_best,may_be_best",
    "optima": "budget,n,B,T,n_star,n_star_low,n_star_high,open_below,open_above,candidates,"
    "measured,expected,low,high,n_d,n_d_low,n_d_high,n_d_open_below,n_d_open_above",
    "fits": "run_id,n,B,seed,records,base_reward,asymptote,asymptote_standard_error,midpoint,"
    "midpoint_standard_error,exponent,exponent_standard_error,reduced_chi2,share_risen,"
    "status",
}


def test_columns_of_the_files_stay_as_they_are(reported: Reported) -> None:
    """Programs read them by name and by order."""
    read = {name: reported.paths.table(name).read_text().split("\n", 1)[0] for name in HEADERS}
    assert read == HEADERS


def test_the_files_have_what_was_found(reported: Reported) -> None:
    paths = reported.paths
    document, findings = json.loads(paths.answer.read_text()), reported.analysis.findings

    def table(name: str) -> list[dict[str, str]]:
        with paths.table(name).open(newline="") as file:
            return list(csv.DictReader(file))

    every = [(at, choice) for at in document["generations"] for choice in at["choices"]]
    for row, (at, choice) in zip(table("choices"), every, strict=True):
        assert float(row["budget"]) == at["budget"]
        assert int(row["n"]) == choice["cell"]["num_generations"]
        assert int(row["T"]) == choice["cell"]["num_steps"]
        assert float(row["expected"]) == choice["expected"]
        assert [float(row["low"]), float(row["high"])] == choice["interval"]
        assert float(row["loss_upper"]) == choice["loss_upper"]
        assert row["may_be_best"] == ("yes" if choice["indistinguishable"] else "no")
    for row, at in zip(table("optima"), document["optima"], strict=True):
        assert row["n_d_open_above"] == ("yes" if at["n_d"]["open_above"] else "no")
        assert row["candidates"] == " ".join(map(str, at["candidates"]))
    for row, fit in zip(table("fits"), findings.fits, strict=True):
        assert row["run_id"] == fit.run_id
        assert row["run_id"] == f"run-n{row['n']}-B{row['B']}-s{row['seed']}"
        assert row["asymptote"] == ("" if fit.asymptote is None else repr(fit.asymptote.value))


def test_the_page_has_a_cell_for_every_heading_and_the_rows_of_the_file(full: Analysed) -> None:
    tables = all_tables(full.data, full.findings)
    pages = page_tables(full.data, full.findings)
    # No run of this sweep fell.
    assert [name for name in tables if not tables[name].rows] == ["survival"]
    # Every cell is in its file alone.
    assert {*pages} == {*tables} - {"frontier"}
    for name, page in pages.items():
        assert all(page.head)
        assert {len(row) for row in page.rows} <= {len(page.head)}
        place = page.head.index("n")
        assert [str(row["n"]) for row in tables[name].rows] == [row[place] for row in page.rows]


def test_the_page_says_which_measured_rewards_lie_between_records(full: Analysed) -> None:
    exact = page_tables(full.data, full.findings)["choices"]
    place = exact.head.index("measured")
    assert not any("≈" in row[place] for row in exact.rows)
    first, *others = full.data.readings
    data = replace(full.data, readings=(replace(first, reading="interpolated"), *others))
    marked = [row for row in page_tables(data, full.findings)["choices"].rows if "≈" in row[place]]
    assert [row[1] for row in marked] == [str(first.cell.num_generations)]


def test_the_page_shows_n_with_their_intervals_and_open_ends(reported: Reported) -> None:
    analysis = reported.analysis
    page = page_tables(analysis.data, analysis.findings)["optima"]
    found = [(str(at), str(at.n_d)) for at in analysis.answer.optima]
    assert [(row[4], row[-1]) for row in page.rows] == found


def test_the_only_n_that_was_read_at_a_budget_has_no_chance_to_be_the_best(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8), seeds=(0, 1))
    last = plan.budgets[-1]
    cells = tuple(cell for cell in plan.cells if cell.budget < last or cell.num_generations == 4)
    data = load_sweep(write_sweep(tmp_path, REWARD, plan=replace(plan, cells=cells)))
    findings = find(data, CONFIG)
    assert findings.frontier.budgets[-1].best.expected is not None
    assert findings.frontier.budgets[-1].best.probability_best is None
    *_, row = csv.DictReader(choices(findings).to_csv().splitlines())
    assert (float(row["budget"]), row["n"], row["probability_best"]) == (last, "4", "")
    page = page_tables(data, findings)["choices"]
    assert page.rows[-1][page.head.index("P(best)")] == MISSING
