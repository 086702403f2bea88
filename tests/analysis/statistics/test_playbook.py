"""The Playbook's method, step by step."""

from pathlib import Path

import numpy as np
import pytest

from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.judgement import judge
from isosweep.analysis.statistics.playbook import fit_playbook, record_breaking
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import BUDGETS, make_plan, write_sweep


def test_record_breaking_points_are_the_first_of_each_new_best_bin() -> None:
    reward = np.array([0.101, 0.108, 0.125, 0.119, 0.131, 0.139, 0.12, 0.15])
    compute, kept = record_breaking(np.arange(8.0), reward)
    assert kept.tolist() == [0.101, 0.125, 0.131, 0.15]
    assert compute.tolist() == [0.0, 2.0, 4.0, 7.0]


def reward(compute: float, n: int, B: int) -> float:
    """Larger n gains more and later: the envelope passes from n = 2 to n = 32."""
    x = np.log2(n)
    gain, middle = 0.1 + 0.06 * x, BUDGETS[0] * 2.0 ** (0.9 * x - 1)
    return float(0.2 + gain / (1 + (middle / compute) ** 2))


def test_the_envelope_follows_the_best_n(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path / "a", reward, plan=make_plan(seeds=(0, 1)), noise=0.0005)
    answer = fit_playbook(load_sweep(paths).curves, BUDGETS)
    assert answer is not None
    true = [max((2, 4, 8, 16, 32), key=lambda n: reward(C, n, 4)) for C in BUDGETS]
    apart = np.abs(np.log2(answer.fit.best_n) - np.log2(true))
    assert apart.max() <= 1
    assert answer.fit.asymptotes[2] == pytest.approx(0.36, abs=0.02)
    assert len(answer.resamples) > 10
    one = write_sweep(tmp_path / "b", reward, plan=make_plan(generations=(4,)))
    assert fit_playbook(load_sweep(one).curves, BUDGETS) is None


def test_method_playbook_answers_in_the_same_terms(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, reward, plan=make_plan(seeds=(0, 1)), noise=0.004)
    config = AnalysisConfig(name="default", method="playbook")
    _, _, answer = judge(load_sweep(paths), config)
    assert answer.verdict in ("saturated", "growing", "flat")
    assert answer.reason.kind == "playbook"
    assert answer.reason.law_end is not None
    assert [at.budget for at in answer.optima] == list(BUDGETS)


def test_with_too_few_budgets_its_report_has_no_interval(tmp_path: Path) -> None:
    paths = write_sweep(tmp_path, lambda C, n, B: 0.3, plan=make_plan(budgets=BUDGETS[:1]))
    config = AnalysisConfig(name="default", method="playbook")
    findings = find(load_sweep(paths), config, views=True)
    assert findings.saturation.optima == ()
    assert {view.interval for view in findings.views} == {None}
