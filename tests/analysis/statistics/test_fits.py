"""A planted learning curve is recovered; what its records do not identify is None."""

import numpy as np
import pytest

from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.fits import Fit, FitStatus, fit_curves, sigmoid
from tests.analysis.sweeps import BASE, NUM_PROBLEMS, SAMPLES, make_plan

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
    compute = np.concatenate([[0.0], past])
    return Curve(
        run=make_plan().runs[0],
        steps=np.arange(records + 1),
        generations=np.arange(records + 1),
        compute=compute,
        flops=compute,
        reward=successes.mean(axis=1) / SAMPLES,
        successes=successes,
        samples_per_problem=SAMPLES,
        status="finished",
        status_reason=None,
    )


def fit_curve(curve: Curve) -> Fit:
    (fit,) = fit_curves([curve])
    return fit


def parameters(fit: Fit) -> tuple[object, object, object]:
    return fit.asymptote, fit.midpoint, fit.exponent


@pytest.mark.parametrize("seed", range(5))
def test_planted_sigmoid_is_recovered_within_three_standard_errors(seed: int) -> None:
    fit = fit_curve(planted(1e5, 1e9, seed=seed))
    assert fit.status is FitStatus.FITTED
    for name, true in TRUE.items():
        estimate = getattr(fit, name)
        assert abs(estimate.value - true) < 3 * estimate.standard_error, name
        assert estimate.standard_error < 0.3 * true


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("end", [0.1, 0.3, 0.8])
def test_a_window_that_ends_below_the_midpoint_identifies_nothing(seed: int, end: float) -> None:
    fit = fit_curve(planted(1e5, end * TRUE["midpoint"], seed=seed))
    assert fit.status is not FitStatus.FITTED
    assert parameters(fit) == (None, None, None)


def test_too_few_records_are_not_fitted() -> None:
    fit = fit_curve(planted(1e5, 1e9, records=4))
    assert fit.status is FitStatus.TOO_FEW
    assert parameters(fit) == (None, None, None)


def test_a_level_curve_shows_no_rise() -> None:
    fit = fit_curve(planted(1e5, 1e9, asymptote=BASE))
    assert fit.status is FitStatus.NO_RISE


def test_an_asymptote_at_one_is_reported_as_a_bound_not_a_number() -> None:
    fit = fit_curve(planted(1e5, 1e12, asymptote=1.0))
    assert fit.status is FitStatus.ON_BOUND
    assert fit.asymptote is None
