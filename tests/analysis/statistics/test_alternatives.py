"""Which law a curve follows, on curves made by each."""

import numpy as np
import pytest

from isosweep.analysis.curves import Curve
from isosweep.analysis.statistics.alternatives import Law
from isosweep.analysis.statistics.fits import FitStatus, fit_curves
from tests.analysis.statistics.planted import curve_of

COMPUTE = np.geomspace(1e4, 1e8, 24)


def curve(reward: np.ndarray, seed: int = 0) -> Curve:
    """Records of 1,000 problems x 8 samples around `reward`, the first at step 0."""
    rng = np.random.default_rng(seed)
    rates = np.concatenate([[0.2], reward])
    successes = rng.binomial(8, rates[:, None], (len(rates), 1000))
    return curve_of(np.concatenate([[0.0], COMPUTE]), successes=successes)


RISING = 0.2 + 0.4 / (1 + (1e6 / COMPUTE) ** 1.2)
LAWS: dict[Law, np.ndarray] = {
    "sigmoid": RISING,
    "power law": 0.2 + 0.3 * (COMPUTE / 1e8) ** 0.25,
    "log-linear": 1 - 0.8 * (COMPUTE / 1e4) ** -0.04,
    "rise then fall": RISING - 0.03 * np.maximum(0, np.log(COMPUTE / 4e6)),
}


@pytest.mark.parametrize("name", LAWS)
def test_each_law_is_recognised_by_its_curve(name: Law) -> None:
    best: list[Law] = []
    for seed in range(10):
        (fit,) = fit_curves([curve(LAWS[name], seed)])
        assert fit.alternatives is not None
        assert fit.alternatives.differences[fit.alternatives.best] == 0
        best.append(fit.alternatives.best)
    assert best.count(name) >= 7


def test_a_curve_that_falls_again_has_no_asymptote() -> None:
    (falling,) = fit_curves([curve(LAWS["rise then fall"])])
    (rising,) = fit_curves([curve(LAWS["sigmoid"])])
    assert falling.status is FitStatus.FALLS
    assert falling.asymptote is None
    assert falling.limits == ()
    assert rising.status is FitStatus.FITTED
    assert rising.asymptote is not None
    assert rising.limits != ()
    assert rising.asymptote.value == pytest.approx(0.6, abs=0.02)
