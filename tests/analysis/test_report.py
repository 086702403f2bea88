"""The report holds what the records say, whatever they say, and loads nothing from elsewhere."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from isosweep.analysis.load import load_sweep
from isosweep.analysis.report import Analysis, analyse, fits_document, fits_schema
from isosweep.analysis.statistics.findings import find
from isosweep.compute import has_reached
from isosweep.config.analysis import AnalysisConfig, Metric
from isosweep.errors import RecordError
from isosweep.files import write_json
from isosweep.plan.cells import Rejection
from isosweep.store.paths import SweepPaths
from isosweep.store.records import AttemptStart, append_attempt, append_record
from tests.analysis.sweeps import (
    BASE,
    BUDGETS,
    make_plan,
    make_record,
    paths_in,
    peaked,
    raw_rewards,
    write_plan,
    write_run,
    write_sweep,
)

CONFIG = AnalysisConfig(name="default")
VALIDATOR = jsonschema.Draft202012Validator(fits_schema())
SMALL = make_plan(generations=(2, 4, 8), seeds=(0, 1), budgets=BUDGETS[:3])
REWARD = peaked(lambda C: min(8.0, 2 * C / BUDGETS[0]))


def run(paths: SweepPaths) -> Analysis:
    analysis = analyse(paths, CONFIG)
    document = json.loads(paths.fits.read_text(), parse_constant=pytest.fail)
    assert document["verdict"] == analysis.verdict
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in analysis.figures)
    assert set(analysis.figures) == set(paths.figures.iterdir())
    page = analysis.report.read_text().replace("&#x27;", "'")
    assert analysis.reason in page
    assert " ".join(analysis.summary) in page
    return analysis


def test_numbers_equal_those_recomputed_from_the_files(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16), batches=(4, 8))
    paths = write_sweep(tmp_path, REWARD, plan=plan)
    analysis = run(paths)
    means: dict[tuple[str, str], list[float]] = {}
    with paths.frontier.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(plan.cells)
    for row in rows:
        rewards = raw_rewards(paths.runs / row["run_id"] / "records.jsonl")
        assert row["reading"] == "exact"
        assert float(row["reward"]) == rewards[int(row["T"])]
        assert float(row["measured_compute"]) == pytest.approx(float(row["planned_compute"]))
        if float(row["budget"]) == BUDGETS[-1]:
            means.setdefault((row["n"], row["B"]), []).append(float(row["reward"]))
    chosen = analysis.frontier.budgets[-1].best.cell
    values = means[str(chosen.num_generations), str(chosen.problems_per_batch)]
    best = sum(values) / len(values)
    assert analysis.best_reward == pytest.approx(best, abs=1e-12)
    # Chosen by the surface, which trusts the luckiest cell less than its mean does.
    assert best > max(sum(values) / len(values) for values in means.values()) - 0.003
    assert analysis.base_reward == pytest.approx(BASE, abs=1e-3)
    assert f"{best:.4f}" in analysis.report.read_text()
    assert analysis.verdict == "saturated"


def test_an_empty_sweep_does_not_crash(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    rejection = Rejection(
        num_generations=64,
        problems_per_batch=4,
        num_steps=2,
        seed=0,
        budget=BUDGETS[-1],
        rule="grid.min_steps",
        reason="T = 2 is below 10",
        rules=("grid.min_steps",),
    )
    write_plan(paths, make_plan(rejected=[rejection]))
    analysis = run(paths)
    assert (analysis.verdict, analysis.best_reward) == ("not identified", None)
    assert analysis.base_reward is None
    assert "never started" in analysis.report.read_text()


def test_a_missing_plan_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"plan\.json"):
        analyse(paths_in(tmp_path), CONFIG)


@pytest.mark.parametrize("num_budgets", [1, 5])
def test_one_run_of_a_sweep_is_enough_for_a_report(tmp_path: Path, num_budgets: int) -> None:
    plan = make_plan(budgets=BUDGETS[:num_budgets])
    paths = paths_in(tmp_path)
    write_plan(paths, plan)
    write_run(paths, plan.runs[3], plan.budgets, REWARD, np.random.default_rng(0), 0.0)
    assert run(paths).verdict == "not identified"


def test_a_truncated_last_line_costs_that_line_only(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL)
    records = paths.run("run-n8-B4-s0").records
    records.write_bytes(records.read_bytes()[:-40])
    data = load_sweep(paths)
    missing = [r.cell for r in data.readings if r.reading == "missing"]
    assert [(c.run_id, c.budget) for c in missing] == [("run-n8-B4-s0", BUDGETS[2])]
    assert len(data.problems) == 1
    run(paths)


def test_a_failed_run_is_listed_with_its_reason(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL)
    write_json(
        paths.run("run-n8-B4-s0").state, {"status": "failed", "reason": "loss was <nan> & stopped"}
    )
    assert "loss was &lt;nan&gt; &amp; stopped" in run(paths).report.read_text()


def test_a_budget_between_two_records_is_interpolated_in_log_compute(tmp_path: Path) -> None:
    plan = make_plan(generations=(2,), seeds=(0,), budgets=(2e6,))
    paths = paths_in(tmp_path)
    write_plan(paths, plan)
    where = paths.run(plan.runs[0].run_id)
    where.root.mkdir(parents=True)
    append_attempt(where.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
    rng = np.random.default_rng(0)
    # 1e6 and 4e6 FLOPs: the budget lies half-way between them in log compute.
    for step, rollouts, reward in ((0, 0, 0.2), (1250, 10_000, 0.25), (5000, 40_000, 0.5)):
        append_record(where.records, 1, make_record(step, rollouts, reward, rng))
    (reading,) = load_sweep(paths).readings
    assert reading.reading == "interpolated"
    assert reading.reward == pytest.approx(0.375)
    assert has_reached(2e6, 4e6, 5000)


def test_names_are_escaped(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL, model="<script>alert(1)</script>")
    page = run(paths).report.read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = run(write_sweep(tmp_path, REWARD, plan=SMALL)).report.read_text()
    assert page.count(get_plotlyjs()) == 1
    own = page.replace(get_plotlyjs(), "")
    assert not re.findall(r"(?:src|href)\s*=", own)
    assert not re.findall(r"@import|url\(", own)
    assert "http" not in own.replace("http-equiv", "")


def test_analysing_twice_writes_the_same_numbers(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL)
    run(paths)
    first = paths.fits.read_text(), paths.frontier.read_text()
    run(paths)
    assert (paths.fits.read_text(), paths.frontier.read_text()) == first


@pytest.mark.parametrize("metric", ["best", "worst"])
def test_another_metric_scores_problems_by_all_their_samples(
    metric: Metric, tmp_path: Path
) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL)
    data = load_sweep(paths, metric=metric)
    for curve in data.curves:
        lines = (paths.run(curve.run.run_id).records).read_text().splitlines()
        records = [r for r in map(json.loads, lines) if r["kind"] == "record"]
        for record, reward in zip(records, curve.reward, strict=True):
            k = record["samples_per_problem"]
            right = [s > 0 if metric == "best" else s == k for s in record["successes"]]
            assert reward == sum(right) / len(right)
    plain = analyse(paths, CONFIG)
    other = analyse(paths, AnalysisConfig(name="default", metric=metric))
    assert other.base_reward != plain.base_reward
    assert f"{metric}@k" in other.report.read_text()


def test_the_tables_hold_what_fits_json_holds(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=make_plan(generations=(2, 4, 8), batches=(4, 8)))
    run(paths)
    document = json.loads(paths.fits.read_text())

    def table(name: str) -> list[dict[str, str]]:
        with paths.table(name).open(newline="") as file:
            return list(csv.DictReader(file))

    choices = [(at, choice) for at in document["frontier"]["budgets"] for choice in at["choices"]]
    for row, (at, choice) in zip(table("choices"), choices, strict=True):
        assert float(row["budget"]) == at["budget"]
        assert int(row["n"]) == choice["cell"]["num_generations"]
        assert int(row["T"]) == choice["cell"]["num_steps"]
        assert float(row["expected"]) == choice["expected"]
        assert [float(row["low"]), float(row["high"])] == choice["interval"]
        assert float(row["loss_upper"]) == choice["loss_upper"]
        assert row["may_be_best"] == ("yes" if choice["indistinguishable"] else "no")
    for row, fit in zip(table("fits"), document["fits"], strict=True):
        assert row["run_id"] == fit["run_id"]
        assert row["run_id"] == f"run-n{row['n']}-B{row['B']}-s{row['seed']}"
        known = fit["asymptote"]
        assert row["asymptote"] == ("" if known is None else repr(known["value"]))
    for row, found in zip(table("asymptotes"), document["asymptotes"], strict=True):
        assert (int(row["n"]), int(row["seeds"])) == (found["num_generations"], found["num_seeds"])
        assert row["asymptote"] == ("" if found["value"] is None else repr(found["value"]))
    for row, change in zip(table("problem_changes"), document["problem_changes"], strict=True):
        assert int(row["n"]) == change["num_generations"]
        assert float(row["better"]) == change["better"]
        assert float(row["lost"]) == change["lost"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fits: fits.pop("verdict"),
        lambda fits: fits.update(version=1),
        lambda fits: fits.update(extra=1),
        lambda fits: fits.update(verdict="certain"),
        lambda fits: fits["fits"][0].pop("share_risen"),
        lambda fits: fits["frontier"]["budgets"][0]["best"].update(interval=[0.1]),
        lambda fits: fits["saturation"]["optima"][0].update(best=2.5),
        lambda fits: fits["saturation"]["laws"]["probabilities"].pop("power"),
        lambda fits: fits["problem_changes"][0].update(better=1.2),
    ],
)
def test_a_spoilt_fits_document_does_not_validate(
    spoil: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    jsonschema.Draft202012Validator.check_schema(fits_schema())
    data = load_sweep(write_sweep(tmp_path, REWARD, plan=SMALL))
    document = fits_document(data, CONFIG, find(data, CONFIG), {"isosweep": "1", "python": "3"})
    assert VALIDATOR.is_valid(document)
    spoil(document)
    assert not VALIDATOR.is_valid(document)


def test_figures_of_an_earlier_analysis_do_not_stay(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=SMALL)
    run(paths)
    assert (paths.figures / "slices-dark.png").exists()
    for planned in SMALL.runs:
        if planned.num_generations != 4:
            paths.run(planned.run_id).records.unlink()
    analysis = run(paths)
    assert not (paths.figures / "slices-dark.png").exists()
    assert "slices (it takes two n measured at one budget)" in analysis.report.read_text()
