"""The noise scale at a budget, and when n* is said to go with it."""

import pytest

from isosweep.analysis.statistics.noise_scale import Measured, noise_at, rank_agreement
from isosweep.gradient_noise import GradientNoise


def measured(compute: float, gradient: float | None, *, updates: int = 1) -> Measured:
    between, within = (None, 5.0) if gradient is None else (0.5, 8.0)
    noise = GradientNoise(
        updates=updates,
        num_generations=4,
        gradient=gradient,
        between_problems=between,
        within_problems=within,
    )
    return Measured(compute=compute, noise=noise)


def test_the_noise_at_a_budget_is_a_ratio_of_means_over_its_last_records() -> None:
    far, later, untold = measured(10, 100.0), measured(200, 100.0), measured(90, None)
    near = measured(50, 0.1), measured(100, 0.4, updates=2)
    at = noise_at(100, [far, *near, later, untold], problems_per_batch=4)
    assert at.updates == 3
    assert at.rollouts == pytest.approx(24 / 0.9)
    assert at.best_n == pytest.approx(24 / 0.9 / 4)
    assert at.crossing_n == pytest.approx(16)


def test_an_estimate_that_is_not_positive_has_no_scale() -> None:
    at = noise_at(100, [measured(100, -0.1)], problems_per_batch=4)
    assert (at.rollouts, at.best_n, at.crossing_n) == (None, None, 16.0)
    assert noise_at(100, [], problems_per_batch=4).updates == 0


def test_n_goes_with_the_noise_where_chance_would_seldom_have_it_so() -> None:
    rising, falling = [1.0, 2, 3, 4, 5], [5.0, 4, 3, 2, 1]
    agreed = rank_agreement(rising, [4.0, 8, 16, 16.5, 32])
    assert (agreed.kind, agreed.tau) == ("agrees", 1.0)
    assert agreed.chance == pytest.approx(2 / 120)
    assert rank_agreement(rising, falling).kind == "disagrees"
    # Of four budgets chance has one order in twelve.
    assert rank_agreement(rising[:4], [4.0, 8, 16, 32]).kind == "cannot_tell"
    assert rank_agreement(rising, [4.0, 4, 4, 4, 4]).kind == "cannot_tell"
    without = rank_agreement([*rising, None], [4.0, 8, 16, 16.5, 32, 64])
    assert without == agreed
    assert rank_agreement([1.0], [2.0]).tau is None
