"""A is given where the forms that count agree, with an interval that covers the truth."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.planted import RISES, PlantedWorld
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.statistics.asymptotes import (
    Asymptote,
    AsymptoteStatus,
    _over_seeds,
    asymptotes,
)
from isosweep.analysis.statistics.fits import Fit, FitStatus, fit_curves
from isosweep.analysis.statistics.limits import Form, Limit, find_limits
from tests.analysis.sweeps import make_plan
from tests.conftest import in_ci


def fits(
    forms: Mapping[Form, tuple[float, float]],
    *,
    seeds: int = 3,
    spread: float = 0.0,
    risen: float = 0.95,
) -> list[Fit]:
    """Of seeds 0.005 apart, around the weight and A of each form."""
    return [
        Fit(
            run_id=f"run-{i}",
            status=FitStatus.FITTED,
            num_records=20,
            base_reward=0.2,
            base_effect=0.0,
            limits=tuple(
                Limit(form=form, weight=w, asymptote=a + 0.005 * i, spread=spread, risen=risen)
                for form, (w, a) in forms.items()
            ),
        )
        for i in range(seeds)
    ]


def found(of_runs: list[Fit]) -> Asymptote:
    return _over_seeds(Pair(8, 4), of_runs, 0.9)


def test_one_form_has_the_interval_of_student_over_seeds() -> None:
    at = found(fits({"sigmoid": (1.0, 0.6), "slow tail": (0.0, 0.9)}))
    assert at.status is AsymptoteStatus.GIVEN
    # Three values 0.005 apart: standard error 0.005 / sqrt(3), and 2.92 of them at two degrees.
    half = 2.92 * 0.005 / np.sqrt(3)
    assert at.value == pytest.approx(0.605, abs=1e-4)
    assert at.low == pytest.approx(0.605 - half, abs=1e-4)
    assert at.high == pytest.approx(0.605 + half, abs=1e-4)

    # What exponents leave open widens it, as all seeds share that.
    at = found(fits({"sigmoid": (1.0, 0.6)}, spread=0.02))
    wider = 2 * np.hypot(1.645 * 0.02, half)
    assert (at.high or 0.0) - (at.low or 0.0) == pytest.approx(wider, 0.01)
    # It spans all forms that count.
    at = found(fits({"sigmoid": (0.6, 0.60), "power law": (0.4, 0.63)}))
    assert at.status is AsymptoteStatus.GIVEN
    assert (at.low or 0.0) < 0.605
    assert (at.high or 0.0) > 0.635


@pytest.mark.parametrize(
    ("of_runs", "status"),
    [
        (fits({"sigmoid": (0.94, 0.6), "slow tail": (0.06, 0.9)}, seeds=16), "DISAGREE"),
        (fits({"sigmoid": (0.96, 0.6), "slow tail": (0.04, 0.9)}, seeds=16), "GIVEN"),
        (fits({"sigmoid": (1.0, 0.6)}, risen=0.7), "TOO_EARLY"),
        (fits({"sigmoid": (1.0, 0.6)})[:2] + fits({}, seeds=1), "TOO_EARLY"),
        (fits({"sigmoid": (1.0, 0.6)}, seeds=1), "ONE_SEED"),
    ],
)
def test_what_is_withheld_says_why(of_runs: list[Fit], status: str) -> None:
    at = found(of_runs)
    assert at.status.name == status
    assert (at.value is None) == (status != "GIVEN")
    assert (at.low is None) == (at.high is None) == (at.value is None)


LOGS = np.linspace(0.0, 6.9, 24)
CURVES: dict[Form, Callable[[FloatArray], FloatArray]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-2.0 * (x - 5.0))),
    "Gompertz": lambda x: np.exp(-np.exp(-1.2 * (x - 3.5))),
    "power law": lambda x: 1 - (1 + np.exp(x - 2)) ** -0.8,
    "slow tail": lambda x: 1 - (1 + np.exp(2.5 * (x - 1.5))) ** -0.3,
}


@pytest.mark.parametrize("form", CURVES)
def test_the_end_of_its_own_curves_favours_a_form_and_tells_its_limit(form: Form) -> None:
    rng = np.random.default_rng(0)
    reward = 0.3 + 0.4 * CURVES[form](LOGS) + rng.normal(0, 2e-4, (4, 24))
    compute = np.tile(np.exp(LOGS), (4, 1))
    of_runs = find_limits(compute, reward, np.full((4, 24), 1e-3), np.full(4, 0.3))
    (best,) = {max(limits, key=lambda limit: limit.weight) for limits in of_runs[:1]}
    assert best.form == form
    assert best.asymptote == pytest.approx(0.7, abs=0.01)
    assert best.risen == pytest.approx(CURVES[form](LOGS[-1:])[0], abs=0.03)
    for limits in of_runs:
        assert sum(limit.weight for limit in limits) == pytest.approx(1.0)


def test_many_seeds_make_a_form_less_sure_than_as_many_independent_curves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    reward = 0.3 + 0.4 * CURVES["Gompertz"](LOGS) + rng.normal(0, 2e-4, 24)

    def log_odds(seeds: int) -> float:
        curves = [np.tile(row, (seeds, 1)) for row in (np.exp(LOGS), reward, np.full(24, 1e-3))]
        limits = find_limits(curves[0], curves[1], curves[2], np.full(seeds, 0.3))
        weight = {limit.form: limit.weight for limit in limits[0]}
        return math.log(weight["Gompertz"] / weight["power law"])

    six, sixteen = log_odds(6), log_odds(16)
    monkeypatch.setattr("isosweep.analysis.statistics.limits._SEEDS", math.inf)
    # Six count as six, and sixteen as ten.
    assert six == pytest.approx(log_odds(6))
    assert sixteen == pytest.approx(log_odds(10))


def test_missing_records_change_nothing() -> None:
    rng = np.random.default_rng(1)
    reward = 0.3 + 0.4 * CURVES["sigmoid"](LOGS) + rng.normal(0, 2e-3, (2, 24))
    compute, error, base = np.tile(np.exp(LOGS), (2, 1)), np.full((2, 24), 2e-3), np.full(2, 0.3)
    short = find_limits(compute[:, :18], reward[:, :18], error[:, :18], base)
    compute[:, 18:] = reward[:, 18:] = error[:, 18:] = np.nan
    for one, other in zip(short, find_limits(compute, reward, error, base), strict=True):
        for a, b in zip(one, other, strict=True):
            assert list(vars(a).values())[1:] == pytest.approx(list(vars(b).values())[1:], rel=1e-6)


@pytest.mark.parametrize("name", in_ci([*RISES, "moving"], "sigmoid", "moving"))
def test_intervals_hold_the_limit_whatever_the_form_of_the_curves(name: str) -> None:
    """`moving`: sigmoids of a gain that changes until the best n rests, a decade before the end."""
    plan = make_plan(
        generations=(2, 8, 32), seeds=(0, 1, 2, 3), budgets=tuple(np.geomspace(1e9, 1e12, 7))
    )
    resting = ((9.0, 3.0), (12.0, 3.0))
    world = PlantedWorld(
        name=name,
        knots=((9.0, 1.0), (10.0, 2.2), (11.0, 5.0), (12.0, 5.0)) if name == "moving" else resting,
        midpoint=1e10,
        rise="sigmoid" if name == "moving" else name,
        best_log2_batch=2.0,
    )
    held = []
    for seed in range(5):
        records = simulate_records(world, plan, seed, num_problems=2048, samples_per_problem=8)
        data = simulated_sweep(plan, records)
        for at in asymptotes(plan.runs, fit_curves(data.curves), 0.9):
            truth = world.asymptote(at.num_generations, at.problems_per_batch)
            assert truth is not None
            if at.low is not None and at.high is not None:
                held.append(at.low <= truth <= at.high)
                assert at.high - at.low < 0.2
    assert len(held) >= 8
    assert np.mean(held) >= 0.8
