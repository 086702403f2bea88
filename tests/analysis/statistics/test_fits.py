"""A planted learning curve is recovered; what its records do not identify is None."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import curve_fit

from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.learning_curve import (
    EXPONENTS,
    MIDPOINT_FACTOR,
    Fit,
    FitStatus,
    fit_curves,
    fit_sigmoid,
    sigmoid,
)
from tests.analysis.sweeps import BASE, NUM_PROBLEMS, SAMPLES, made_curve

TRUE = {"asymptote": 0.85, "midpoint": 1e7, "exponent": 1.2}


def planted(
    low: float, high: float, *, records: int = 24, asymptote: float = 0.85, seed: int = 0
) -> Curve:
    """Binomial successes around the true sigmoid at `records` computes from `low` to `high`."""
    rng = np.random.default_rng(seed)
    past = np.geomspace(low, high, records)
    mean = sigmoid(past, BASE, asymptote, TRUE["midpoint"], TRUE["exponent"])
    # The base is measured exactly, so that R0 adds no error of its own.
    first = np.full(NUM_PROBLEMS, 1)
    first[: round(BASE * NUM_PROBLEMS * SAMPLES) - NUM_PROBLEMS] += 1
    later = rng.binomial(SAMPLES, mean[:, None], size=(records, NUM_PROBLEMS))
    successes = np.vstack([np.minimum(first, SAMPLES), later]).astype(np.int64)
    return made_curve(np.concatenate([[0.0], past]), successes=successes)


def fit_curve(curve: Curve) -> Fit:
    (fit,) = fit_curves([curve])
    return fit


@pytest.mark.parametrize("seed", range(5))
def test_planted_sigmoid_is_recovered_within_three_standard_errors(seed: int) -> None:
    fit = fit_curve(planted(1e5, 1e9, seed=seed))
    assert fit.status is FitStatus.FITTED
    for name, true in TRUE.items():
        estimate = getattr(fit, name)
        assert abs(estimate.value - true) < 3 * estimate.standard_error, name
        assert estimate.standard_error < 0.3 * true


@pytest.mark.parametrize(
    ("curves", "statuses"),
    [
        # A window that ends below the midpoint.
        (
            [
                planted(1e5, end * TRUE["midpoint"], seed=seed)
                for seed in range(5)
                for end in (0.1, 0.3, 0.8)
            ],
            {FitStatus.WINDOW_SHORT, FitStatus.NO_RISE, FitStatus.ON_BOUND},
        ),
        ([planted(1e5, 1e9, records=4)], {FitStatus.TOO_FEW}),
        ([planted(1e5, 1e9, asymptote=BASE)], {FitStatus.NO_RISE}),
        ([planted(1e5, 1e12, asymptote=1.0)], {FitStatus.ON_BOUND}),
    ],
)
def test_what_is_not_identified_has_a_status_and_no_numbers(
    curves: list[Curve], statuses: set[FitStatus]
) -> None:
    for fit in fit_curves(curves):
        assert fit.status in statuses
        assert (fit.asymptote, fit.midpoint, fit.exponent) == (None, None, None)


LOGS = np.linspace(np.log(1e8), np.log(1e11), 20)
R0 = 0.3


def risen(logs: Any, asymptote: float, midpoint: float, exponent: float) -> Any:
    power = np.clip(-np.exp(exponent) * (logs - midpoint), -700, 700)
    return R0 + (asymptote - R0) / (1 + np.exp(power))


@pytest.mark.parametrize("seed", range(6))
def test_no_start_finds_a_better_fit(seed: int) -> None:
    """Saturated, barely begun, flat and steep curves."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(R0, 1), rng.uniform(np.log(1e8), np.log(1e12)), rng.uniform(-1.2, 1.6)
    mean = risen(LOGS, *truth)
    reward = rng.binomial(2000, mean) / 2000
    error = np.sqrt(np.maximum(mean * (1 - mean), 1e-3) / 2000)
    fit = fit_sigmoid(np.exp(LOGS), reward, error, R0)
    reach = np.log(MIDPOINT_FACTOR)
    low = (0.0, LOGS[0] - reach, np.log(EXPONENTS[0]))
    high = (1.0, LOGS[-1] + reach, np.log(EXPONENTS[1]))

    def objective(*parameters: float) -> float:
        return float((((risen(LOGS, *parameters) - reward) / error) ** 2).sum())

    assert objective(fit.asymptote, fit.log_midpoint, fit.log_exponent) == pytest.approx(
        fit.objective
    )
    for start in itertools.product((0.6,), np.quantile(LOGS, (0.1, 0.5, 0.9)), (-0.5, 0.7)):
        fitted, _ = curve_fit(
            risen, LOGS, reward, p0=start, sigma=error, bounds=(low, high), max_nfev=5000
        )
        assert fit.objective <= objective(*fitted) * (1 + 1e-6)
    bounded = fit_sigmoid(np.exp(LOGS), reward, error, R0, least_log_midpoint=LOGS[-1])
    assert bounded.log_midpoint >= LOGS[-1] - 1e-9
    assert bounded.objective >= fit.objective * (1 - 1e-9)
