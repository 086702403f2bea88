"""What benchmarks count of an analysis against simulated truth."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.statistics.best_n import BestN
from isosweep.analysis.statistics.intervals import Interval
from isosweep.plan.cells import Plan
from tests.analysis.statistics.planted import BEST

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def said(verdict: str = "not identified", **more: Any) -> SimpleNamespace:
    """What an analysis says of a sweep; `best`: n* at the last budget."""
    known = {"plateau": None, "growth": None, "best": None}
    return SimpleNamespace(verdict=verdict, **known | more)


def stubbed(monkeypatch: pytest.MonkeyPatch, plan: Plan, name: str, *made: SimpleNamespace) -> Any:
    """Power of an analysis that says what `made` lists, sweep by sweep; it takes n = 16."""
    grid = (8, 16, 512)
    cells = tuple(SimpleNamespace(num_generations=n, problems_per_batch=32) for n in grid)
    best = SimpleNamespace(cell=cells[1])
    answers = iter(made)

    def analyse(data: object, config: object) -> tuple[None, Any, Any]:
        found = next(answers)
        budget = plan.budgets[-1]
        optimum = BestN(budget=budget, best=16, candidates=(16, 512), n_star=found.best, n_d=None)
        last = SimpleNamespace(budget=budget, cells=cells, best=best, optimum=optimum)
        return None, SimpleNamespace(budgets=(last,)), found

    monkeypatch.syspath_prepend(BENCHMARKS)
    power = import_module("power")
    monkeypatch.setattr(power, "judge", analyse)
    size = {"num_problems": 1, "samples_per_problem": 1}
    return power.measure_power(plan, presets_of(plan)[name], BEST, sweeps=len(made), seed=1, **size)


def test_verdicts_are_counted_as_true_open_or_false(
    monkeypatch: pytest.MonkeyPatch, nominal: Plan
) -> None:
    made = map(said, ("saturated", "growing", "grew", "not identified", "growing"))
    result = stubbed(monkeypatch, nominal, "slow_tail", *made)
    assert result.verdicts["growing"] == pytest.approx(0.4)
    assert result.true_verdict == "growing"
    assert result.true_rate == pytest.approx(1.1, abs=0.02)
    assert (result.correct, result.decided) == pytest.approx((0.6, 0.4))
    assert (result.false_saturated, result.false_growing) == pytest.approx((0.2, 0.0))
    assert result.surely == result.decided
    probably = map(said, ("growing", "probably growing", "probably saturated", "grew"))
    other = stubbed(monkeypatch, nominal, "slow_tail", *probably)
    assert (other.decided, other.surely, other.false_saturated) == (0.5, 0.25, 0.25)
    ended = stubbed(monkeypatch, nominal, "early", said("growing"), said("saturated"))
    assert (ended.false_growing, ended.false_saturated) == (0.5, 0.0)
    assert (ended.correct, ended.decided) == (0.5, 0.5)


def test_intervals_of_the_rate_and_of_the_best_n_are_held_against_the_truth(
    monkeypatch: pytest.MonkeyPatch, nominal: Plan
) -> None:
    made = [
        said(
            "growing",
            growth=SimpleNamespace(rate=Interval(median=1.0, low=low, high=1.3)),
            best=Interval(median=900, low=800, high=high),
        )
        # 1.1 doublings per decade, n* = 955 at the last budget.
        for low, high in ((0.9, 1000), (1.2, 900), (1.0, 960))
    ]
    result = stubbed(monkeypatch, nominal, "slow_tail", *made)
    assert result.num_rates == 3
    assert result.rate_covered == pytest.approx(2 / 3)
    assert result.rate_width == pytest.approx(0.3)
    (last,) = result.budgets
    assert last.covered == pytest.approx(2 / 3)
    # An end at an edge leaves open what lies beyond.
    below, above = (Interval(median=m, low=m - 100, high=m + 100) for m in (800, 1100))
    for closed, end in ((below, "open_above"), (above, "open_below")):
        made = [said("grew", best=each) for each in (closed, replace(closed, **{end: True}))]
        (last,) = stubbed(monkeypatch, nominal, "slow_tail", *made).budgets
        assert last.covered == 0.5


def test_what_the_chosen_n_costs_is_the_expected_reward_lost(
    monkeypatch: pytest.MonkeyPatch, nominal: Plan
) -> None:
    result = stubbed(monkeypatch, nominal, "early", said())
    rewards = presets_of(nominal)["early"].reward(np.array(1e21), np.array([16.0, 512.0]), 32.0)
    assert result.recommended_loss == pytest.approx(rewards[1] - rewards[0])
    assert float(rewards[1] - rewards[0]) > 0.05
    assert result.recommended_harmless == 0.0
