"""Forecasts of curves whose future is known, and what is left out of a sweep to check them."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import analysed_sweep, simulated_sweep
from isosweep.analysis.statistics import forms
from isosweep.analysis.statistics.forecast import MIN_RECORDS, Forecast, forecast
from isosweep.analysis.statistics.validation import leave_last_budget_out
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import make_plan

CONFIG = AnalysisConfig(name="default")
COMPUTE = np.exp(np.linspace(math.log(1e8), math.log(1e10), 30))
AHEAD = np.exp(np.linspace(math.log(1.2e10), math.log(3e10), 6))


def sigmoid(compute: FloatArray, midpoint: float) -> FloatArray:
    return 0.3 + 0.4 / (1 + (midpoint / compute) ** 1.2)


def ahead_of(
    reward: FloatArray,
    at: FloatArray = AHEAD,
    *,
    compute: FloatArray = COMPUTE,
    confidence: float = 0.9,
) -> Forecast:
    found = forecast(compute, reward, at, confidence)
    assert found is not None
    return found


def rising(seed: int, midpoint: float = 1e9) -> FloatArray:
    """Records of a sigmoid."""
    noise = np.random.default_rng(seed).normal(0, 0.005, 30)
    return np.asarray(sigmoid(COMPUTE, midpoint) + noise)


def test_an_interval_covers_what_it_promises_and_beats_standing_still() -> None:
    rng = np.random.default_rng(0)
    covered, errors, still = [], [], []
    for _ in range(80):
        midpoint = float(np.exp(rng.uniform(math.log(3e8), math.log(1e10))))
        noise = rng.normal(0, 0.006, 36)
        past = sigmoid(COMPUTE, midpoint) + noise[:30]
        future = sigmoid(AHEAD, midpoint) + noise[30:]
        ahead = ahead_of(past)
        covered.append(((ahead.low <= future) & (future <= ahead.high)).mean())
        errors.append(((ahead.median - future) ** 2).mean())
        still.append(((past[-3:].mean() - future) ** 2).mean())
    # Curves of the family itself: the intervals are wide for runs that behave worse.
    assert 0.88 <= np.mean(covered) <= 1.0
    assert math.sqrt(np.mean(errors)) < 0.6 * math.sqrt(np.mean(still))


def noisy_curves(
    rng: np.random.Generator, count: int
) -> dict[str, list[tuple[FloatArray, FloatArray]]]:
    """Compute and reward of `count` curves of every kind, 16 to 60 records, evenly in compute."""
    kinds: dict[str, Callable[[FloatArray, float], FloatArray]] = {
        # `x`: ln of compute, 0 to 1 over the curve; `u`: uniform between 0 and 1.
        "sigmoid": lambda x, u: 1 / (1 + np.exp(-6 * (x - 0.3 - 0.5 * u))),
        "power law": lambda x, u: 1 - np.exp(-(1 + 2 * u) * x),
        "log-linear": lambda x, u: 0.3 + u * x,
        "plateau": lambda x, u: 0 * x + u,
        "decline": lambda x, u: 1 - np.exp(-4 * x) - np.maximum(x - 0.5 - 0.4 * u, 0.0),
    }
    curves: dict[str, list[tuple[FloatArray, FloatArray]]] = {name: [] for name in kinds}
    for name, curve in kinds.items():
        for _ in range(count):
            compute = np.arange(1.0, rng.integers(16, 61))
            x = np.log(compute) / math.log(len(compute))
            reward = 0.3 + rng.uniform(0.03, 0.3) * curve(x, rng.uniform())
            reward += rng.normal(0, rng.choice([0.002, 0.004, 0.008]), len(x))
            # In one curve of three, a few evaluations are broken.
            broken = rng.uniform(size=len(x)) < (0.03 if rng.uniform() < 1 / 3 else 0.0)
            curves[name].append((compute, np.where(broken, 0.7 * reward, reward)))
    return curves


def simulated_curves() -> dict[str, list[tuple[FloatArray, FloatArray]]]:
    plan = make_plan(generations=(2, 8, 32), seeds=(0, 1, 2), budgets=(1e10, 4e10))
    curves = {}
    for name in ("easy", "hard", "growing", "overfitting"):
        world = delayed_worlds(4e9, 2, 32)[name]
        records = simulate_records(world, plan, 0, num_problems=512, samples_per_problem=8)
        curves[name] = [
            (
                np.array([r.compute.flops for r in run[1:]]),
                np.array([sum(r.successes) / (512 * 8) for r in run[1:]]),
            )
            for run in records.values()
        ]
    return curves


def test_curves_of_many_kinds_are_forecast_better_than_by_standing_still() -> None:
    simulated = simulated_curves()
    curves = noisy_curves(np.random.default_rng(3), 15) | simulated
    covered: dict[str, float] = {}
    errors, still, every = [], [], []
    for name, kind in curves.items():
        shares: list[float] = []
        for compute, reward in kind:
            # Half of the last compute is seen where records lie evenly, a quarter on a log scale.
            seen = int((compute <= compute[-1] / (4 if name in simulated else 2)).sum())
            ahead = ahead_of(reward[:seen], compute[seen:], compute=compute[:seen])
            future = reward[seen:]
            shares.append(float(((ahead.low <= future) & (future <= ahead.high)).mean()))
            errors.append(math.sqrt(((ahead.median - future) ** 2).mean()))
            still.append(math.sqrt(((reward[seen - 3 : seen].mean() - future) ** 2).mean()))
        covered[name] = float(np.mean(shares))
        every += shares
    # Curve by curve, and not only of all records together.
    assert np.quantile(every, 0.1) >= 0.6
    assert 0.80 <= np.mean(list(covered.values())) <= 0.97, covered
    # A decline that the records do not show yet is the worst of them.
    assert min(covered.values()) > 0.65, covered
    assert np.median(errors) < 0.7 * np.median(still)
    assert np.mean(errors) < 0.85 * np.mean(still)


CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    # `x`: ln of compute over its first record; records end at 4.6, and what is asked for at 5.7.
    "sigmoid": lambda x: 1 / (1 + np.exp(-2.7 * (x - 3.5))),
    "Gompertz": lambda x: np.exp(-np.exp(-1.6 * (x - 3.5))),
    "decay": lambda x: 1 - np.exp(-0.6 * x),
    "line": lambda x: 0.2 * x,
    "stays": lambda x: 0 * x,
}


@pytest.mark.parametrize("form", CURVES)
def test_every_form_sharpens_the_forecasts_of_its_own_curves(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    future = 0.3 + 0.3 * CURVES[form](np.log(AHEAD / COMPUTE[0]))
    seen = 0.3 + 0.3 * CURVES[form](np.log(COMPUTE / COMPUTE[0])) + rng.normal(0, 0.004, (12, 30))

    def score() -> tuple[float, float]:
        """Mean interval score (Winkler 1972) and share of the noiseless points inside."""
        scores, inside = [], []
        for reward in seen:
            ahead = ahead_of(reward)
            outside = np.maximum(ahead.low - future, 0) + np.maximum(future - ahead.high, 0)
            scores.append(float((ahead.high - ahead.low + 20 * outside).mean()))
            inside.append(float((outside == 0).mean()))
        return float(np.mean(scores)), float(np.mean(inside))

    with_it, covered = score()
    monkeypatch.setitem(forms.FORMS, form, replace(forms.FORMS[form], chance=1e-12))
    without_it, _ = score()
    assert with_it < 0.97 * without_it
    assert covered >= 0.9


def test_further_ahead_is_less_sure() -> None:
    reward = rising(1, 5e9)
    ahead = ahead_of(reward, 1e10 * np.array([1.1, 3.0, 10.0, 100.0]))
    width = ahead.high - ahead.low
    assert (np.diff(width) > 0).all()
    assert ((ahead.low <= ahead.median) & (ahead.median <= ahead.high)).all()
    narrow, wide = ahead_of(reward, confidence=0.5), ahead_of(reward)
    assert ((wide.high - wide.low) > (narrow.high - narrow.low)).all()


def test_one_broken_evaluation_moves_the_forecast_little() -> None:
    reward = rising(2)
    plain, reward[20] = ahead_of(reward), 0.0
    assert np.abs(plain.median - ahead_of(reward).median).max() < 0.02


def test_a_fall_in_the_last_record_may_be_a_broken_evaluation_or_last() -> None:
    reward = rising(4)
    plain, fallen = ahead_of(reward), reward.copy()
    fallen[-1] -= 0.1
    ahead = ahead_of(fallen)
    # As much of the fall as its chance to last.
    assert np.abs(plain.median - ahead.median).max() < 0.04
    assert (ahead.low < fallen[-1] + 0.01).all()
    # A second record like it settles that it lasts.
    fallen[-2] -= 0.1
    assert ahead_of(fallen).median[0] < plain.median[0] - 0.03
    # A rise of the same size is no reason for doubt: runs do rise.
    reward[-1] += 0.1
    assert ahead_of(reward).median[0] > plain.median[0] + 0.01


def test_rewards_stay_between_0_and_1_and_few_records_say_nothing() -> None:
    reward = 1 - 0.3 * (1e8 / COMPUTE) ** 0.5
    assert ahead_of(reward).high.max() <= 1.0
    short = MIN_RECORDS - 1
    assert forecast(COMPUTE[:short], reward[:short], AHEAD, 0.9) is None


def test_the_last_budget_is_left_out_and_forecast() -> None:
    budgets = (1e9, 4e9, 16e9)
    plan = make_plan(generations=(2, 4, 8), seeds=(0, 1, 2), budgets=budgets)
    world = replace(delayed_worlds(4e9, 2, 8)["easy"], wander_sd=0.0)
    records = simulate_records(world, plan, 0, num_problems=512, samples_per_problem=8)
    ahead = leave_last_budget_out(simulated_sweep(plan, records), CONFIG, ())
    assert ahead is not None
    assert (ahead.known, ahead.budget, ahead.num_runs) == (4e9, 16e9, 9)
    assert ahead.rmse < ahead.persistence_rmse
    assert ahead.covered >= 0.6
    # What comes after the known part is not looked at.
    spoilt = {
        name: tuple(
            replace(r, successes=(0,) * 512) if 4.1e9 < r.compute.flops < 15e9 else r for r in run
        )
        for name, run in records.items()
    }
    assert leave_last_budget_out(simulated_sweep(plan, spoilt), CONFIG, ()) == ahead


def test_budgets_that_are_read_between_those_planned_leave_the_check_as_it_is() -> None:
    plan = make_plan(generations=(2, 4, 8), seeds=(0, 1), budgets=(1e9, 4e9, 16e9))
    world = delayed_worlds(4e9, 2, 8)["easy"]
    records = simulate_records(world, plan, 0, num_problems=512, samples_per_problem=8)
    data = analysed_sweep(plan, records, replace(CONFIG, readings_per_decade=5))
    assert len(data.plan.budgets) > 3
    assert leave_last_budget_out(data, CONFIG, ()) == leave_last_budget_out(
        simulated_sweep(plan, records), CONFIG, ()
    )


@pytest.mark.parametrize("budgets", [(1e9,), (1e9, 4e9)])
def test_nothing_is_checked_without_two_budgets_that_were_read(budgets: tuple[float, ...]) -> None:
    plan = make_plan(generations=(2,), seeds=(0,), budgets=budgets)
    records = {run.run_id: () for run in plan.runs}
    assert leave_last_budget_out(simulated_sweep(plan, records), CONFIG, ()) is None
