"""Sigmoids fitted together: the optimum that SciPy finds one by one, or a better one."""

from typing import Any

import numpy as np
import pytest

from isosweep.analysis.statistics.sigmoids import EXPONENTS, MIDPOINT_FACTOR, fit_sigmoids
from tests.conftest import in_ci

BASE = 0.3
LOGS = np.linspace(np.log(1e8), np.log(1e11), 20)


def planted(seed: int, runs: int = 12, samples: int = 3) -> tuple[Any, ...]:
    """Saturated, barely begun, flat and steep curves: compute, reward, weight, true A."""
    rng = np.random.default_rng(seed)
    asymptote = rng.uniform(0.3, 1.0, (runs, 1, 1))
    midpoint = rng.uniform(np.log(1e8), np.log(1e12), (runs, 1, 1))
    exponent = np.exp(rng.uniform(np.log(0.3), np.log(5), (runs, 1, 1)))
    mean = BASE + (asymptote - BASE) / (1 + np.exp(-exponent * (LOGS - midpoint)))
    reward = rng.binomial(2000, np.repeat(mean, samples, axis=1)) / 2000
    weight = np.broadcast_to(2000 / np.maximum(mean * (1 - mean), 1e-3), reward.shape)
    return np.tile(np.exp(LOGS), (runs, 1)), reward, weight, asymptote[:, 0, 0]


def curve(logs: Any, asymptote: float, midpoint: float, exponent: float) -> Any:
    power = np.clip(-np.exp(exponent) * (logs - midpoint), -700, 700)
    return BASE + (asymptote - BASE) / (1 + np.exp(power))


@pytest.mark.parametrize("seed", in_ci(range(4), 0))
def test_no_start_of_scipy_finds_a_better_fit(seed: int) -> None:
    from scipy.optimize import curve_fit

    compute, reward, weight, _ = planted(seed, runs=6)
    base = np.full(reward.shape[:2], BASE)
    fits = fit_sigmoids(compute, reward, weight, base)
    reach = np.log(MIDPOINT_FACTOR)
    low = (0.0, LOGS[0] - reach, np.log(EXPONENTS[0]))
    high = (1.0, LOGS[-1] + reach, np.log(EXPONENTS[1]))
    for run in range(len(compute)):
        best = np.inf
        for midpoint in np.quantile(LOGS, (0.1, 0.5, 0.9)):
            for exponent in (-0.5, 0.7):
                fitted, _ = curve_fit(
                    curve,
                    LOGS,
                    reward[run, 0],
                    p0=(0.6, midpoint, exponent),
                    sigma=1 / np.sqrt(weight[run, 0]),
                    bounds=(low, high),
                    max_nfev=5000,
                )
                residual = curve(LOGS, *fitted) - reward[run, 0]
                best = min(best, float((weight[run, 0] * residual**2).sum()))
        assert fits.objective[run, 0] <= best * (1 + 1e-6)
        residual = (
            curve(LOGS, *(getattr(fits, n)[run, 0] for n in ("asymptote", "midpoint", "exponent")))
            - reward[run, 0]
        )
        own = float((weight[run, 0] * residual**2).sum())
        assert own == pytest.approx(float(fits.objective[run, 0]), rel=1e-9)


def test_missing_records_change_nothing() -> None:
    compute, reward, weight, _ = planted(7)
    base = np.full(reward.shape[:2], BASE)
    short = fit_sigmoids(compute[:, :12], reward[..., :12], weight[..., :12], base)
    compute[:, 12:] = np.nan
    reward[..., 12:] = np.nan
    padded = fit_sigmoids(compute, reward, weight, base)
    for name in ("asymptote", "midpoint", "exponent", "objective"):
        assert getattr(padded, name) == pytest.approx(getattr(short, name), rel=1e-6)


def test_noiseless_curves_are_recovered_and_bounds_are_reported() -> None:
    compute = np.tile(np.exp(LOGS), (3, 1))
    truth = [(0.8, np.log(3e9), 0.5), (0.45, np.log(1e10), 1.2), (1.0, np.log(1e10), 0.0)]
    reward = np.array([[curve(LOGS, *parameters)] for parameters in truth])
    fits = fit_sigmoids(compute, reward, np.ones_like(reward), np.full((3, 1), BASE))
    for run, (asymptote, midpoint, exponent) in enumerate(truth):
        assert fits.asymptote[run, 0] == pytest.approx(asymptote, abs=1e-5)
        assert fits.midpoint[run, 0] == pytest.approx(midpoint, abs=1e-4)
        assert fits.exponent[run, 0] == pytest.approx(exponent, abs=1e-4)
    assert fits.on_bound[:, 0].tolist() == [False, False, True]


def test_a_midpoint_kept_past_the_records_stays_there() -> None:
    compute, reward, weight, _ = planted(3)
    base = np.full(reward.shape[:2], BASE)
    free = fit_sigmoids(compute, reward, weight, base)
    last = np.log(compute[:, -1])
    bounded = fit_sigmoids(compute, reward, weight, base, least_midpoint=last)
    assert (bounded.midpoint >= last[:, None] - 1e-9).all()
    assert (bounded.objective >= free.objective * (1 - 1e-9)).all()
    assert (bounded.objective > free.objective * 1.5).any()
