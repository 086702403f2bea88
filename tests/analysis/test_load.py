"""The same records seen otherwise: another unit of compute, some of the problems only."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.load import load_sweep
from isosweep.analysis.pages.tables import missing_runs
from isosweep.compute import Compute
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import load
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Status, claim
from isosweep.store.paths import SweepPaths
from isosweep.store.records import Record, append_record, append_warning, attempt_file
from isosweep.store.warnings import HealthWarning
from tests.analysis.sweeps import (
    BUDGETS,
    REWARD,
    SMALL,
    make_plan,
    make_record,
    paths_in,
    records_file,
    rewrite,
    write_end,
    write_plan,
    write_records,
    write_sweep,
)


def test_a_run_that_needs_more_of_the_other_unit_is_read_off_earlier(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4), seeds=(0,), budgets=BUDGETS[:2])
    paths = paths_in(tmp_path)
    write_plan(paths, plan)
    for run in plan.runs:
        # n = 4 takes four times the tokens for the same FLOPs; the reward follows the FLOPs.
        tokens = 4 if run.num_generations == 4 else 1
        records = [
            Record(
                step=step,
                compute=Compute(
                    generations=step,
                    training_flops=flops,
                    completion_tokens=int(flops * tokens),
                ),
                successes=tuple([1] * (10 + 10 * step) + [0] * (90 - 10 * step)),
                samples_per_problem=1,
                completion_tokens=1.0,
                unix_time=0.0,
            )
            for step, flops in enumerate((0.0, 0.5e6, 1e6, 2e6, 4e6, 8e6))
        ]
        write_records(paths, run.run_id, records)
    moved = load_sweep(paths, AnalysisConfig(compute_axis="tokens"))
    assert moved.plan.budgets == pytest.approx([4e6, 8e6], rel=1e-6)
    first = {r.cell.num_generations: r.reward for r in moved.readings if r.cell.budget < 5e6}
    # 4e6 tokens are 4e6 FLOPs for n = 2 (step 4), and 1e6 FLOPs for n = 4 (step 2).
    assert first == {2: pytest.approx(0.5), 4: pytest.approx(0.3)}
    # A budget between two records is read in proportion to the logarithm of compute.
    ladder = load_sweep(paths, AnalysisConfig(readings_per_decade=10))
    between = [r for r in ladder.readings if r.reading == "interpolated"]
    assert between
    for r in between:
        assert r.reward == pytest.approx(0.3 + 0.1 * np.log2(r.cell.budget / 1e6), abs=1e-3)


def test_difficulty_keeps_the_problems_of_that_success_rate(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=make_plan(seeds=(0, 1)))
    data = load_sweep(paths)
    # Its ends are rates that problems have.
    some = load_sweep(paths, AnalysisConfig(difficulty=(0.25, 0.375)))
    for whole, part in zip(data.curves, some.curves, strict=True):
        rates = whole.successes[0] / whole.samples_per_problem
        kept = (rates >= 0.25) & (rates <= 0.375)
        assert 0 < kept.sum() < len(kept)
        assert np.array_equal(part.successes, whole.successes[:, kept])
        assert part.base_reward == pytest.approx(rates[kept].mean())


def test_a_difficulty_that_no_problem_has_is_refused(small: SweepPaths) -> None:
    with pytest.raises(SettingError, match="no held-out problem's success rate"):
        load_sweep(small, AnalysisConfig(difficulty=(0.99, 1.0)))


@pytest.mark.parametrize("wrong", ["esy", [0.5, 0.2], [0, 2], [0.1], 0.3])
def test_a_wrong_difficulty_is_refused(wrong: Any) -> None:
    with pytest.raises(
        SettingError, match=r"must be solved, very_easy, easy, medium, .* or a range \[low, high\]"
    ):
        load(AnalysisConfig, {"difficulty": wrong})


def test_a_run_that_has_diverged_is_censored_from_there_on(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD, plan=make_plan(seeds=(0, 1)))
    run = load_sweep(paths).plan.runs[4]
    file = records_file(paths, run.run_id)
    # The last two budgets were never reached. A small gain was lost before that, by less than is
    # certain of held-out problems alone.
    head, *records = file.read_text().splitlines()[:-2]
    documents = [json.loads(line) for line in records]
    for document, right in zip(documents, (400, 480, 500, 500, 410), strict=True):
        document["successes"] = [right // 256 + (i < right % 256) for i in range(256)]
    file.write_text("\n".join([head, *map(json.dumps, documents)]) + "\n")

    def readings() -> list[str]:
        data = load_sweep(paths)
        return [r.reading for r in data.readings if r.cell.run_id == run.run_id]

    assert readings() == ["exact", "exact", "exact", "missing", "missing"]
    write_end(paths, run.run_id, "diverged", "why", "truncation")
    assert readings() == ["exact", "exact", "exact", "diverged", "diverged"]
    write_end(paths, run.run_id, "diverged", "why", "collapse")
    assert readings() == ["exact", "exact", "collapsed", "diverged", "diverged"]
    curve = load_sweep(paths).curves[4]
    assert (curve.ending.status, curve.ending.reason) == ("diverged", "why")
    assert "diverged, collapsed at step" in str(missing_runs(load_sweep(paths)).rows)


@pytest.mark.parametrize(
    ("stop", "standing"), [(["collapse"], Standing.DIVERGED), ([], Standing.TO_EXTEND)]
)
def test_a_run_has_diverged_for_good_where_the_rule_that_ended_it_still_ends_runs(
    stop: list[str], standing: Standing, small: SweepPaths
) -> None:
    write_json(small.config, {"health": {"stop": stop}})
    write_end(small, SMALL.runs[1].run_id, "diverged", "why", "collapse")
    assert load_sweep(small).curves[1].ending.standing is standing


def test_warnings_are_shown(small: SweepPaths) -> None:
    files = small.run(load_sweep(small).plan.runs[1].run_id)
    warning = HealthWarning(step=7, rule="truncation", value=0.2, threshold=0.1, message="above")
    append_warning(files.warnings, 1, warning)
    data = load_sweep(small)
    assert [curve.ending.warnings for curve in data.curves].count(()) == len(data.curves) - 1
    assert data.curves[1].ending.warnings == (warning,)
    assert "truncation (step 7)" in str(missing_runs(data).rows)


def test_evaluation_takes_all_devices_of_a_run(small: SweepPaths) -> None:
    run = load_sweep(small).plan.runs[0].run_id
    spec = {"run_id": run, "devices": 3}
    write_json(small.run(run).spec, spec)
    record = replace(make_record(40, 1000, 0.5, np.random.default_rng(0)), seconds=60.0)
    append_record(small.run(run).records, 1, record)
    first, *others = load_sweep(small).curves
    assert first.evaluation_hours == pytest.approx(3 * 60 / 3600)
    assert {curve.evaluation_hours for curve in others} == {None}


def test_records_of_another_run_are_left_out_and_reported(small: SweepPaths) -> None:
    run = load_sweep(small).plan.runs[1]
    write_json(small.run(run.run_id).spec, {"version": 1, "run_id": "run-of-another-plan"})
    data = load_sweep(small)
    assert not data.curves[1].steps.size
    assert data.problems == (
        f"{small.run(run.run_id).spec}: of run run-of-another-plan, so its records are left out",
    )


def test_of_a_run_that_died_what_others_say_of_its_end_is_told(small: SweepPaths) -> None:
    attempt = claim(small.run(load_sweep(small).plan.runs[1].run_id))
    assert load_sweep(small).curves[1].ending.status == "running"
    attempt.end(Status.LOST, "NODE_FAIL")
    curve = load_sweep(small).curves[1]
    assert (curve.ending.status, curve.ending.reason) == ("lost", "NODE_FAIL")
    assert curve.steps.size


@pytest.mark.parametrize("part", ["spec", "state", "records", "warnings"])
def test_garbage_in_one_run_is_named_and_the_others_are_read(part: str, small: SweepPaths) -> None:
    before = load_sweep(small)
    run = small.run(before.plan.runs[1].run_id)
    file = {
        "spec": run.spec,
        "state": claim(run).path,
        "records": attempt_file(run.records, 1),
        "warnings": attempt_file(run.warnings, 1),
    }[part]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b'\x00\xff{"attempt": 1}\n{"attempt": 1, "step": 0}\n')
    after = load_sweep(small)
    assert any(str(file) in problem or str(file.parent) in problem for problem in after.problems)
    for was, now in zip(before.curves, after.curves, strict=True):
        if now.run.run_id != run.run_id or part != "records":
            assert np.array_equal(was.successes, now.successes)


def with_sets(paths: SweepPaths, run_id: str, *, from_step: int = 0) -> None:
    """Give a run's records, from a step on, a set on which all is right."""
    easy = {"successes": [2, 2, 2], "samples_per_problem": 2, "completion_tokens": 5.0}
    rewrite(
        paths, lambda x: x | ({"sets": {"easy": easy}} if x["step"] >= from_step else {}), run_id
    )


def test_a_set_is_analysed_apart_and_records_without_it_never_count(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD)
    plain = load_sweep(paths)
    first, second, *others = (run.run_id for run in plain.plan.runs)
    records = plain.curves[0].steps.size
    with_sets(paths, first)
    with_sets(paths, second, from_step=1)
    config = AnalysisConfig(evaluation_set="easy")
    data = load_sweep(paths, config)
    assert data.evaluation_set == "easy"
    assert config.view({}) == "set=easy"
    of = {curve.run.run_id: curve for curve in data.curves}
    assert of[first].reward.tolist() == [1.0] * records
    assert of[first].successes.shape == (records, 3)
    assert of[second].steps.tolist() == of[first].steps.tolist()[1:]
    assert all(not of[run_id].steps.size for run_id in others)
    left_out = [problem for problem in data.problems if "nothing of the evaluation set" in problem]
    assert len(left_out) == 1 + len(others)
    # The main evaluation is what it was, and both list the sets.
    again = load_sweep(paths)
    for before, after in zip(plain.curves, again.curves, strict=True):
        assert before.reward.tolist() == after.reward.tolist()
    for each in (data, again):
        named = [(reading.name, reading.num_runs) for reading in each.sets]
        assert named == [(None, len(plain.curves)), ("easy", 2)]
    assert [reading.name for reading in plain.sets] == [None]


def test_a_set_that_no_record_has_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD)
    with pytest.raises(SettingError, match=r"they have none"):
        load_sweep(paths, AnalysisConfig(evaluation_set="easy"))
    with_sets(paths, load_sweep(paths).plan.runs[0].run_id)
    with pytest.raises(SettingError, match=r"is none of the sets of these records: easy"):
        load_sweep(paths, AnalysisConfig(evaluation_set="esy"))
