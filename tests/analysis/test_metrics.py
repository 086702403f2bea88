"""Sweeps by other metrics, and sweeps whose records know the mean of their problems alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.learning_curve import reward_errors
from isosweep.config.analysis import AnalysisConfig
from isosweep.errors import SettingError
from isosweep.metrics import METRICS, MetricName, passing
from tests.analysis.sweeps import REWARD, SMALL, rewrite, write_sweep


def voted(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose majority is right where half of the samples are."""
    k = line["samples_per_problem"]
    return line | {"scores": {"majority": [float(2 * c >= k) for c in line["successes"]]}}


def averaged(line: dict[str, Any]) -> dict[str, Any]:
    """A line that knows its mean alone, as a log of others has it."""
    rates = np.array(line.pop("successes")) / line.pop("samples_per_problem")
    error = float(rates.std(ddof=1) / np.sqrt(len(rates)))
    return line | {"mean_reward": float(rates.mean()), "standard_error": error}


def test_a_majority_is_read_from_the_records(tmp_path: Path) -> None:
    paths = rewrite(write_sweep(tmp_path, REWARD), voted)
    plain, majority = load_sweep(paths), load_sweep(paths, AnalysisConfig(metric="majority"))
    for before, after in zip(plain.curves, majority.curves, strict=True):
        k = before.samples_per_problem
        assert np.allclose(after.reward, (2 * before.successes >= k).mean(axis=1))
        assert after.samples_per_problem == 1
    assert set(METRICS) == set(get_args(MetricName))


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_the_stated_error_of_pass_at_j_is_its_spread(draws: int, tmp_path: Path) -> None:
    """Over evaluations of other problems of their kind."""
    curve = load_sweep(write_sweep(tmp_path, REWARD, plan=SMALL)).curves[0]
    rng = np.random.default_rng(draws)
    assert curve.samples_per_problem == 8
    right = rng.binomial(8, rng.beta(0.3, 1.0, (3000, 128)))
    scored = passing(draws)(right, 8)
    others = replace(curve, successes=scored.points, samples_per_problem=scored.of)
    rewards = (scored.points / scored.of).mean(axis=1)
    stated = np.sqrt((reward_errors(others) ** 2).mean())
    assert stated == pytest.approx(rewards.std(), rel=0.05)


def test_a_metric_that_no_record_tells_is_refused_with_those_that_are(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD)
    with pytest.raises(SettingError, match=r"metric=avg or analysis\.metric=best") as refused:
        load_sweep(paths, AnalysisConfig(metric="majority"))
    assert "majority" not in refused.value.nearest
    rewrite(paths, averaged)
    with pytest.raises(SettingError, match=r"analysis\.metric=avg$"):
        load_sweep(paths, AnalysisConfig(metric="best"))


def test_records_without_a_majority_are_left_out_where_others_have_one(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, REWARD)
    first, *others = (run.run_id for run in load_sweep(paths).plan.runs)
    for run_id in others:
        rewrite(paths, lambda line: voted(line) if line["step"] else line, run_id)
    data = load_sweep(paths, AnalysisConfig(metric="majority"))
    # Of a run that has none nothing is left, and no reward of 0.
    assert {curve.run.run_id for curve in data.curves if not curve.steps.size} == {first}
    assert all(curve.steps[0] > 0 for curve in data.curves[1:])
    assert all("no majority@k" in problem for problem in data.problems)
