"""The report holds what the records say, whatever they say, and loads nothing from elsewhere."""

import csv
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.answer import read_answer
from isosweep.analysis.figures.all import draw_figures
from isosweep.analysis.load import load_sweep
from isosweep.analysis.report import Analysis, analyse
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.errors import RecordError
from isosweep.metrics import MetricName
from isosweep.plan.cells import Rejection
from isosweep.store.paths import SweepPaths
from isosweep.words.answer import sure
from isosweep.words.verdict import finding, measure, reason
from tests.analysis.conftest import Reported
from tests.analysis.sweeps import (
    BASE,
    BUDGETS,
    REWARD,
    make_plan,
    paths_in,
    raw_rewards,
    rewrite,
    write_plan,
    write_run,
)

NO_FIGURES = AnalysisConfig(formats=[])


def checked(analysis: Analysis, paths: SweepPaths) -> Analysis:
    """The analysis, if its files are what they should be."""
    answer = json.loads(paths.answer.read_text(), parse_constant=pytest.fail)
    assert answer == json.loads(json.dumps(analysis.answer.document()))
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in analysis.figures)
    assert set(analysis.figures) == set(paths.figures.iterdir())
    page = html.unescape(analysis.report.read_text())
    read = read_answer(paths.answer)
    assert read is not None
    certain = sure(read, read.use) if read.use else ""
    for line in (reason(read), finding(read), measure(read), certain):
        assert line in " ".join(page.split())
    return analysis


def run(paths: SweepPaths) -> Analysis:
    """Analyse without figures."""
    return checked(analyse(paths, NO_FIGURES), paths)


def test_figures_are_written_in_the_formats_asked_for_and_those_of_before_removed(
    small: SweepPaths,
) -> None:
    for asked in (AnalysisConfig(formats=["svg"]), NO_FIGURES):
        analysis = checked(analyse(small, asked), small)
        names = {path.stem for path in analysis.figures}
        assert bool(asked.formats) == (names >= {"reward", "best_n", "slices"})
        assert {path.suffix for path in analysis.figures} == {f".{kind}" for kind in asked.formats}
        numbers = small.answer.read_text()
        page = analysis.report.read_text()
        assert all(f'id="figure-{name}"' in page for name in names | {"reward"})
    assert small.answer.read_text() == numbers


def test_numbers_equal_those_recomputed_from_the_files(reported: Reported) -> None:
    paths, analysis = reported.paths, reported.analysis
    plan = load_sweep(paths).plan
    means: dict[tuple[str, str], list[float]] = {}
    with paths.frontier.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(plan.cells)
    for row in rows:
        rewards = raw_rewards(paths.runs / row["run_id"] / "records" / "1.jsonl")
        assert row["reading"] == "exact"
        assert float(row["reward"]) == rewards[int(row["T"])]
        assert float(row["measured_compute"]) == pytest.approx(float(row["planned_compute"]))
        if float(row["budget"]) == BUDGETS[-1]:
            means.setdefault((row["n"], row["B"]), []).append(float(row["reward"]))
    chosen, reward = analysis.answer.use, analysis.answer.reward
    assert chosen is not None
    assert reward is not None
    values = means[str(chosen.num_generations), str(chosen.problems_per_batch)]
    best = sum(values) / len(values)
    assert chosen.measured == pytest.approx(best, abs=1e-12)
    # Chosen by the surface, which trusts the luckiest cell less than its mean does.
    assert best > max(sum(values) / len(values) for values in means.values()) - 0.003
    assert reward.before == pytest.approx(BASE, abs=1e-3)
    assert f"{best:.4f}" in analysis.report.read_text()
    assert analysis.answer.verdict == "saturated"


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
    answer = analysis.answer
    assert (answer.verdict, answer.use, answer.reward) == ("not identified", None, None)
    assert (answer.reason.kind, answer.spent.compute) == ("no record", 0)
    assert "not begun" in analysis.report.read_text()


def test_a_missing_plan_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"plan\.json"):
        analyse(paths_in(tmp_path), NO_FIGURES)


@pytest.mark.parametrize("num_budgets", [1, 5])
def test_one_run_of_a_sweep_is_enough_for_a_report(tmp_path: Path, num_budgets: int) -> None:
    plan = make_plan(budgets=BUDGETS[:num_budgets])
    paths = paths_in(tmp_path)
    write_plan(paths, plan)
    write_run(paths, plan.runs[3], plan.budgets, REWARD, np.random.default_rng(0), 0.0)
    analysis = run(paths)
    assert analysis.answer.verdict == "not identified"
    assert "slices (it takes two n measured at one budget" in analysis.report.read_text()


def test_names_are_escaped(reported: Reported) -> None:
    page = checked(reported.analysis, reported.paths).report.read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_runs_without_metrics_of_their_steps_are_not_called_healthy(reported: Reported) -> None:
    page = reported.analysis.report.read_text()
    assert "health not known in" in page
    assert "no health warnings" not in page
    assert "rule of health" not in page


def test_the_page_loads_nothing_from_elsewhere(reported: Reported) -> None:
    page = reported.analysis.report.read_text()
    assert not re.findall(r"""(?:src|href)\s*=(?!\s*["']?#)""", page)
    assert not re.findall(r"@import|url\((?!#)", page)
    assert "http" not in page
    assert "<script" not in page


@pytest.mark.parametrize("metric", ["best", "worst"])
def test_another_metric_scores_problems_by_all_their_samples(
    metric: MetricName, reported: Reported
) -> None:
    paths = replace(reported.paths, view=metric)
    for curve in load_sweep(paths, AnalysisConfig(metric=metric)).curves:
        log = paths.run(curve.run.run_id).records / "1.jsonl"
        lines = log.read_text().splitlines()
        records = [r for r in map(json.loads, lines) if r["kind"] == "record"]
        read = [record for record in records if record["step"] not in curve.broken]
        for record, reward in zip(read, curve.reward, strict=True):
            k = record["samples_per_problem"]
            right = [s > 0 if metric == "best" else s == k for s in record["successes"]]
            assert reward == sum(right) / len(right)
    if metric == "best":
        other = analyse(paths, replaced(NO_FIGURES, metric=metric))
        assert other.answer.reward != reported.analysis.answer.reward
        assert "best@k" in other.report.read_text().partition("</title>")[0]


def test_a_report_says_which_set_it_is_of_and_lists_all(
    small: SweepPaths, reported: Reported
) -> None:
    assert "Evaluation sets" not in reported.analysis.report.read_text()
    main = load_sweep(small)

    def halved(line: dict[str, Any]) -> dict[str, Any]:
        """With a set that has the main evaluation's own numbers, of half the problems."""
        own = {name: line[name] for name in ("samples_per_problem", "completion_tokens")}
        return line | {"sets": {"easy": own | {"successes": line["successes"][::2]}}}

    rewrite(small, halved)
    asked = replaced(NO_FIGURES, evaluation_set="easy")
    view = replace(small, view=asked.view({}))
    easy = checked(analyse(view, asked), view)
    assert easy.answer.evaluation_set == "easy"
    assert easy.answer.settings["evaluation_set"] == "easy"
    page = easy.report.read_text()
    assert "scored on easy" in page.partition("</title>")[0]
    drawn = draw_figures(easy.data, easy.findings).drawn["reward"].drawn
    assert drawn.axes[0].get_ylabel() == "reward on the set easy (avg@k)"
    rows = re.findall(r'<td class="word">(held-out problems|easy)</td>.*?<td>(\d+)</td>', page)
    number = main.curves[0].successes.shape[1]
    assert rows == [("held-out problems", str(number)), ("easy", str(number // 2))]
    # The plain report is of the held-out problems, and lists the same.
    plain = run(small)
    assert plain.data.curves[0].reward.tolist() == main.curves[0].reward.tolist()
    assert "mode=analyse analysis.evaluation_set=easy" in plain.report.read_text()
