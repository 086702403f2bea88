"""Sweeps that go on to larger budgets train nothing twice."""

import json
from pathlib import Path

import pytest

from isosweep.store.claims import highest
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_metrics, read_records
from tests.conftest import SMALL, isosweep
from tests.modes.sweeps import QUIET, assert_same_records, runs
from tests.runs import reproducible

pytestmark = pytest.mark.train


def test_a_multirun_trains_its_runs_once_for_all_budgets(straight: Path, tmp_path: Path) -> None:
    done = isosweep("-m", "budget=6.4e9,1.28e10", *SMALL, *QUIET, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sweeps"]
    assert [run.run_id for run in runs(tmp_path)] == [run.run_id for run in runs(straight)]
    for run, reference in zip(runs(tmp_path), runs(straight), strict=True):
        assert highest(run.attempts) == 1
        assert reproducible(run) == reproducible(reference)
    # A sweep a job, and one over both budgets: the very sweep that asks for both at once.
    reports = {path.parent.parent.name for path in tmp_path.glob("sweeps/*/analysis/report.html")}
    (whole,) = {path.parent.name for path in straight.glob("sweeps/*/plan.json")}
    assert len(reports) == 3
    assert whole in reports
    assert f"over all budgets of these sweeps (6.4e+09, 1.28e+10): {tmp_path}" in done.stdout


@pytest.mark.long
def test_updates_that_share_rollouts_are_counted_with_them(tmp_path: Path) -> None:
    # The least budget that a whole number of these generations meets, and its double.
    budget = 6.4e9
    settings = (*SMALL, *QUIET, "recipe.num_iterations=2", "grid.num_generations=[2]")
    isosweep(f"budget={budget}", *settings, cwd=tmp_path)
    (plan_file,) = tmp_path.glob("sweeps/*/plan.json")
    cells = json.loads(plan_file.read_text())["cells"]
    assert cells
    for cell in cells:
        run = RunPaths(tmp_path / "sweeps" / "runs" / cell["run_id"])
        records = read_records(run.records).records
        assert all(record.step % 2 == 0 for record in records)
        last = records[-1]
        assert last.compute.generations == last.step / 2
        completions = cell["num_generations"] * cell["problems_per_batch"]
        assert last.compute.rollouts == completions * last.compute.generations
        # One more log-probability pass a generation, and two updates of three passes' cost.
        assert last.compute.training_flops == pytest.approx(6 * last.compute.old_policy_flops)
        assert abs(last.compute.flops - budget) <= last.compute.flops / last.compute.generations
        steps = [line["step"] for line in read_metrics(run.metrics, run.records)]
        assert steps == list(range(1, last.step + 1))
    more = (f"budget=[{budget},{2 * budget}]", *settings)
    (tmp_path / "straight").mkdir()
    isosweep(*more, cwd=tmp_path / "straight")
    isosweep(*more, cwd=tmp_path)
    assert_same_records(tmp_path, tmp_path / "straight")
