"""A planted learning curve is recovered; what its records do not identify is None."""

import numpy as np
import pytest

from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.fits import Fit, FitStatus, fit_curves, sigmoid
from tests.analysis.statistics.planted import curve_of
from tests.analysis.sweeps import BASE, NUM_PROBLEMS, SAMPLES

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
    return curve_of(np.concatenate([[0.0], past]), successes=successes, samples=SAMPLES)


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
