"""Competing laws, on n*(C) that are known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isosweep.analysis.statistics.laws import Laws, _explore, weigh_laws

BUDGETS = tuple(float(c) for c in np.geomspace(1e18, 1e21, 10))
T = np.linspace(0, 1, 10)
GRID = np.arange(3.0, 12.0)


def draws(truth: NDArray[np.float64], spread: float = 0.2) -> NDArray[np.float64]:
    """Posterior draws around `truth`, cut off at the ends of the grid."""
    rng = np.random.default_rng(1)
    return np.clip(truth + spread * rng.standard_normal((2000, len(truth))), GRID[0], GRID[-1])


def weigh(truth: NDArray[np.float64], spread: float = 0.2) -> Laws:
    return weigh_laws(draws(truth, spread), BUDGETS, GRID, 0.9)


def test_a_sigmoid_is_told_by_its_probability_and_when_it_settles() -> None:
    laws = weigh(3.3 + 5.7 / (1 + np.exp(-14 * (T - 0.4))))
    assert laws.probabilities["sigmoid"] > 0.9
    # Half a doubling below its last value at t = 0.4 + ln(5.7 / 0.5 - 1) / 14.
    truth = 10 ** (18 + 3 * (0.4 + np.log(5.7 / 0.5 - 1) / 14))
    assert laws.settles_at.low < truth < laws.settles_at.high
    assert laws.fit > 0.01


def test_a_power_law_has_its_exponent_and_settles_only_at_the_end() -> None:
    laws = weigh(3.5 + 6 * T)
    assert laws.exponent is not None
    # 6 doublings over 3 decades.
    assert laws.exponent.median == pytest.approx(6 * np.log10(2) / 3, rel=0.1)
    assert laws.settles_at.low > 10**20.5


def test_growth_that_slows_down_for_ever_is_concave() -> None:
    laws = weigh(3.5 + 6 * np.log1p(99 * T) / np.log(100), spread=0.1)
    assert laws.probabilities["concave"] > 0.8
    assert laws.fit > 0.01


def test_a_constant_is_constant_and_a_zigzag_is_explained_by_no_law() -> None:
    laws = weigh(np.full(10, 6.0))
    assert laws.probabilities["constant"] > 0.7
    assert all(at.low < 64 < at.high for at in laws.curve)
    assert laws.settles_at.low == pytest.approx(1e18)
    assert weigh(np.array([4.0, 10.0] * 5)).fit < 1e-3


@pytest.mark.parametrize(
    ("law", "truth"),
    [("fall", 11 - 6 * T), ("hump", 4 + 5 * np.exp(-(((T - 0.6) / 0.2) ** 2) / 2))],
)
def test_a_fall_and_a_rise_that_comes_back_go_on_beyond_the_data(
    law: str, truth: NDArray[np.float64]
) -> None:
    # Cut off two budgets before the last.
    laws = weigh_laws(draws(truth[:8]), BUDGETS[:8], GRID, 0.9, until=BUDGETS[-1])
    assert laws.probabilities[law] > 0.8
    assert laws.fit > 0.01
    assert laws.curve[-1].low <= 2 ** truth[-1] <= laws.curve[-1].high
    assert laws.curve[-1].median < 2 ** truth[7]


def test_growth_that_rests_is_hardly_a_hump() -> None:
    for rest in (0.4, 0.7):
        laws = weigh(np.minimum(3.5 + 5 * T / rest, 8.5), spread=0.3)
        assert laws.probabilities["hump"] + laws.probabilities["fall"] < 0.1
        assert laws.curve[-1].low > 2**7


def test_probabilities_sum_to_one_and_do_not_hang_on_the_seed() -> None:
    truth = 4 + 4 / (1 + np.exp(-8 * (T - 0.5)))
    first, again = weigh(truth), weigh_laws(draws(truth), BUDGETS, GRID, 0.9, seed=1)
    assert sum(first.probabilities.values()) == pytest.approx(1)
    assert again.probabilities == pytest.approx(first.probabilities, abs=0.05)


def test_the_curve_can_go_on_past_the_last_budget() -> None:
    laws = weigh_laws(draws(3.5 + 4 * T), BUDGETS, GRID, 0.9, until=1e22)
    assert laws.compute[-1] == pytest.approx(1e22)
    ahead, inside = laws.curve[-1], laws.curve[45]
    assert ahead.median > inside.median
    assert ahead.high / ahead.low > inside.high / inside.low


def test_the_evidence_is_the_integral_over_the_prior() -> None:
    """A normal likelihood well inside the unit square has the integral 2 pi s1 s2."""
    spread = np.array([0.02, 0.1])

    def misfit(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((((points - (0.4, 0.5)) / spread) ** 2).sum(axis=1))

    points, logs = _explore(misfit, 2, np.random.default_rng(0))
    weight = np.exp(logs)
    assert weight.mean() == pytest.approx(2 * np.pi * spread.prod(), rel=0.03)
    assert weight @ points / weight.sum() == pytest.approx([0.4, 0.5], abs=0.005)
