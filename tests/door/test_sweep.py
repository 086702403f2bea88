"""Frames, verdicts and figures of a sweep are what its files and its report have."""

import csv
import io
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import isosweep
from isosweep.analysis.answer import read_answer
from isosweep.analysis.figures.all import draw_figures
from isosweep.analysis.report import analyse
from isosweep.analysis.tables import optima
from isosweep.door.sweep import Sweep, Verdict
from isosweep.errors import RecordError, SettingError
from isosweep.files import read_json, write_json
from isosweep.store.paths import SweepPaths
from isosweep.store.records import (
    Evaluation,
    append_record,
    read_records,
)
from tests.analysis.sweeps import (
    REWARD,
    make_plan,
    paths_in,
    raw_rewards,
    records_file,
    write_end,
    write_plan,
    write_sweep,
)
from tests.conftest import make_config

# What is analysed in a second, and has a verdict.
PLAN = make_plan(generations=(2, 4, 8), batches=(4,), seeds=(0, 1))
ENDS, OPEN = ("median", "low", "high"), ("open_below", "open_above")


def configured(paths: SweepPaths) -> Path:
    """The sweep with the settings that one has that was launched; its directory."""
    settings = make_config("analysis.readings_per_decade=0")
    write_json(paths.config, settings.model_dump() | {"budget": list(settings.budgets)})
    return paths.root


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> SweepPaths:
    """A sweep on disk, with one run that failed."""
    paths = write_sweep(tmp_path_factory.mktemp("made"), REWARD, plan=PLAN)
    write_end(paths, PLAN.runs[0].run_id, "failed", "RuntimeError: planted")
    configured(paths)
    return paths


@pytest.fixture(scope="module")
def sweep(paths: SweepPaths) -> Sweep:
    return isosweep.open(paths.root)


def frames(sweep: Sweep) -> dict[str, Any]:
    names = ("plan", "runs", "records", "cells", "choices", "frontier")
    return {name: getattr(sweep, name) for name in names}


def snapshot(root: Path) -> dict[Path, tuple[int, bytes]]:
    found = {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]}
    return {p: (at, p.read_bytes() if p.is_file() else b"") for p, at in found.items()}


def same(shown: Any, written: str) -> bool:
    """Whether a value of a frame is what a CSV file has."""
    if isinstance(shown, float):
        return math.isnan(shown) if written == "" else shown == float(written)
    return str(shown) == {"yes": "True", "no": "False"}.get(written, written)


def test_frames_and_verdict_are_what_the_report_s_files_have(sweep: Sweep, tmp_path: Path) -> None:
    copy = SweepPaths(tmp_path / "sweep", sweep.stored.paths.runs)
    write_plan(copy, PLAN)
    analyse(copy, sweep.analysis)
    for frame, table in ((sweep.cells, "frontier"), (sweep.choices, "choices")):
        rows = list(csv.DictReader(io.StringIO(copy.table(table).read_text())))
        assert len(rows) == len(frame)
        for shown, written in zip(frame.to_dict("records"), rows, strict=True):
            assert list(shown) == list(written)
            assert all(same(shown[name], written[name]) for name in written)
    answer = read_json(copy.answer)
    assert answer is not None
    verdict, read = sweep.verdict, read_answer(copy.answer)
    assert read is not None
    assert (verdict.kind, verdict.answer.verdict) == (answer["verdict"], read.verdict)
    assert verdict.answer.growth is not None
    assert asdict(verdict.answer.growth)["rate"] == answer["growth"]["rate"]
    optima, at_each = answer["optima"], answer["generations"]
    for row, star, at in zip(sweep.frontier.to_dict("records"), optima, at_each, strict=True):
        best = next(
            each
            for each in at["choices"]
            if each["cell"]["num_generations"] == at["best"]["num_generations"]
        )
        cell, interval = best["cell"], best["interval"]
        assert [*row.values()] == [
            *(at["budget"], cell["num_generations"], cell["problems_per_batch"]),
            *(cell["num_steps"], *(star["n_star"][end] for end in ENDS)),
            *(star["n_star"][end] for end in OPEN),
            tuple(star["candidates"]),
            *(cell["mean"], best["expected"], *interval),
            *(star["n_d"][end] for end in (*ENDS, *OPEN)),
        ]


def test_runs_and_records_are_as_the_files_are_now(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=PLAN)
    sweep = isosweep.open(configured(paths))
    run = PLAN.runs[1]
    assert set(sweep.runs.standing) == {"not begun"}
    assert sweep.runs.reward.isna().all()
    write_end(paths, run.run_id, "failed", "RuntimeError: planted")
    failed = sweep.runs.set_index("run_id").loc[run.run_id]
    assert (failed.standing, failed.reason) == ("failed", "RuntimeError: planted")
    records = paths.run(run.run_id).records
    before = sweep.records.query(f"run_id == '{run.run_id}'")
    assert dict(zip(before.step, before.reward, strict=True)) == raw_rewards(
        records_file(paths, run.run_id)
    )
    last = read_records(records).records[-1]
    aime = Evaluation(successes=(1, 0), samples_per_problem=1, completion_tokens=3.0)
    append_record(records, 1, replace(last, step=last.step + 1, sets={"aime": aime}))
    after = sweep.records.query(f"run_id == '{run.run_id}'")
    assert len(after) == len(before) + 1
    assert after.reward_aime.iloc[-1] == 0.5
    assert after.reward_aime.iloc[:-1].isna().all()


def test_reading_changes_nothing_in_the_directory(sweep: Sweep, paths: SweepPaths) -> None:
    before = snapshot(paths.root.parent)
    again = isosweep.open(paths.root)
    assert all(len(frame) for frame in frames(again).values())
    assert isosweep.sweeps(paths.root.parent).name.tolist() == ["sweep"]
    again.verdict._repr_html_()
    again.plot("best_n")
    again.recommend(PLAN.budgets[-1])
    assert snapshot(paths.root.parent) == before


def test_a_sweep_without_records_has_frames_and_no_answer(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    write_plan(paths, PLAN)
    paths.runs.mkdir()
    sweep = isosweep.open(configured(paths))
    assert sweep.cells.reward.isna().all()
    assert sweep.records.empty
    assert sweep.frontier.empty
    assert list(sweep.frontier.columns) == list(optima(sweep.findings).columns)
    assert sweep.verdict.kind == "not identified"
    assert sweep.verdict.n_star is None
    assert "no run has reached a budget" in sweep.verdict._repr_html_()
    with pytest.raises(SettingError, match=r"figure=best_n: has nothing to show: "):
        sweep.plot("best_n")
    with pytest.raises(SettingError, match="no run has reached a budget yet"):
        sweep.recommend(1e7)


def test_every_figure_of_the_report_is_drawn_or_says_why_not(sweep: Sweep) -> None:
    drawn = draw_figures(sweep.data, sweep.findings).drawn
    for name in sweep.figures:
        if name in drawn:
            assert sweep.plot(name).get_suptitle() == drawn[name].title
        else:
            with pytest.raises(SettingError, match=rf"figure={name}: has nothing to show: "):
                sweep.plot(name)
    assert {"reward", "best_n", "growth"} <= drawn.keys() < set(sweep.figures)
    with pytest.raises(SettingError, match=r"must be one of best_n, "):
        sweep.plot("best n")


def test_variants_answer_one_by_one_and_share_frames(studies: Path) -> None:
    whole = isosweep.open(studies / "sweeps" / "studies" / "few_problems")
    few = whole.variants["few_problems"]
    assert repr(few).startswith("<Sweep few_problems, few_problems: 54 runs")
    assert set(whole.runs.setting) == whole.variants.keys()
    assert set(few.runs.setting) == {"few_problems"}
    assert len(few.plan) == len(whole.plan) / 3
    for answer in ("verdict", "data", "findings"):
        with pytest.raises(SettingError, match=r"there are 3 .*variants\[\"few_problems\"\]"):
            getattr(whole, answer)


def test_a_view_asks_differently_and_is_checked_like_a_setting(sweep: Sweep) -> None:
    best = sweep.view(metric="best")
    assert best.cells.reward.mean() > sweep.cells.reward.mean()
    rollouts = sweep.view(compute_axis="rollouts").cells
    assert rollouts.attrs["budget_unit"] == "rollouts"
    with pytest.raises(SettingError, match=r"analysis\.metric=reward_aime: must .*'avg', 'best'"):
        sweep.view(metric="reward_aime")
    with pytest.raises(SettingError, match=r"analysis\.margn=0\.1: .*works: analysis\.margin"):
        sweep.view(margn=0.1)


def test_what_is_no_sweep_is_refused_with_the_nearest(paths: SweepPaths, tmp_path: Path) -> None:
    directory = paths.root.parent
    with pytest.raises(SettingError, match=f"sweep={directory}/sweep$"):
        isosweep.open(directory)
    with pytest.raises(SettingError, match=r"sweep=sweep$"):
        isosweep.open("weep", directory)
    with pytest.raises(isosweep.IsosweepError, match="mode=run, which makes one"):
        isosweep.open("anything", tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.json").write_text("{garbage")
    with pytest.raises(RecordError, match=r"plan\.json: not JSON"):
        isosweep.open("broken", tmp_path)
    (listed,) = isosweep.sweeps(tmp_path).to_dict("records")
    assert "not JSON" in listed["fault"]
    assert math.isnan(listed["runs"])


def test_a_notebook_shows_a_verdict_as_text_of_its_own(sweep: Sweep) -> None:
    verdict = Verdict(answer=replace(sweep.verdict.answer, evaluation_set="<script>"))
    assert "for the evaluation set &lt;script&gt;" in verdict._repr_html_()
    assert verdict._repr_html_().count("<tr") == 1 + len(verdict.answer.optima)
    use, grows, last = repr(verdict).split("\n")
    assert use.startswith("Use n = ")
    assert grows.startswith("Does n grow with compute: ")
    assert last == f"{verdict.kind}: {verdict.sentence}"


def test_what_the_analysis_says_stays_until_it_is_refreshed(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=PLAN)
    sweep = isosweep.open(configured(paths))
    read = sweep.cells.reward.notna().sum()
    records_file(paths, PLAN.runs[0].run_id).unlink()
    assert sweep.cells.reward.notna().sum() == read
    assert sweep.refresh().cells.reward.notna().sum() == read - len(PLAN.budgets)
    part = sweep.select(n=[2, 4], seeds=None)
    write_plan(paths, make_plan(generations=(2, 4, 8), batches=(4,), seeds=(0,)))
    assert (len(part.runs), len(part.refresh().runs)) == (4, 2)


def test_the_report_is_found_of_what_was_analysed(sweep: Sweep, tmp_path: Path) -> None:
    copy = SweepPaths(tmp_path / "sweep", sweep.stored.paths.runs)
    write_plan(copy, PLAN)
    own = replace(sweep, stored=replace(sweep.stored, paths=copy))
    before = own.report_path
    assert (before, analyse(copy, sweep.analysis).report) == (None, own.report_path)
    assert (own.view(metric="best").report_path, own.select(n=2).report_path) == (None, None)


def test_a_stored_setting_that_is_gone_is_said_to_be_in_the_file(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    write_plan(paths, PLAN)
    document: Any = read_json(configured(paths) / "config.json")
    write_json(paths.config, document | {"analysis": {"figure_width": 6}})
    where = r"figure_width=6: no such setting.*stored in .*config\.json\)\. Nearest .* version"
    with pytest.raises(SettingError, match=where):
        isosweep.open(paths.root)
