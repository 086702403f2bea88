"""Held-out metrics against counting by hand, enumeration and simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isosweep.heldout import CHANGED, changes, pass_at, score

K = 8


@st.composite
def asked(draw: st.DrawFn) -> tuple[int, int, int]:
    """Samples, how many of them are right, and how many are drawn of them."""
    samples = draw(st.integers(1, 9))
    return samples, draw(st.integers(0, samples)), draw(st.integers(1, samples))


@given(asked())
def test_pass_at_is_the_share_of_all_draws_that_hold_a_right_sample(
    case: tuple[int, int, int],
) -> None:
    samples, right, draws = case
    answers = [True] * right + [False] * (samples - right)
    subsets = list(combinations(answers, draws))
    share = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at(np.array([right]), samples, draws)[0] == pytest.approx(share, abs=1e-12)


def test_pass_at_of_many_samples_neither_overflows_nor_leaves_its_range() -> None:
    samples = 20_000
    chances = pass_at(np.arange(samples + 1), samples, samples // 2)
    assert np.isfinite(chances).all()
    assert chances[0] == 0
    assert chances[-1] == 1
    assert (np.diff(chances) >= 0).all()
    # One right sample is among a half of them half of the time.
    assert chances[1] == pytest.approx(0.5)


@pytest.mark.parametrize("draws", [0, K + 1])
def test_more_draws_than_samples_are_refused(draws: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{draws} needs between 1 and {K}"):
        pass_at(np.array([1]), K, draws)


def test_scores_are_what_one_counts_by_hand() -> None:
    scores = score([0, 2, 4, 4], 4)
    assert (scores.num_problems, scores.samples_per_problem) == (4, 4)
    assert (scores.avg, scores.best, scores.worst) == (10 / 16, 3 / 4, 2 / 4)
    # Two of four: all but one of the six pairs hold a right one.
    assert scores.pass_at == pytest.approx({2: (0 + 5 / 6 + 1 + 1) / 4})


def test_a_problem_has_changed_beyond_two_standard_errors_of_both_evaluations() -> None:
    # 4 of 8 to 8 of 8: difference 0.5, pooled rate 0.75, standard error 0.217: 2.3 of them.
    # 4 of 8 to 7 of 8: difference 0.375, standard error 0.232: 1.6 of them.
    changed = changes([8, 7, 4, 1, 0], K, [4, 4, 4, 4, 4], K)
    assert changed.gain.tolist() == [0.5, 0.375, 0.0, -0.375, -0.5]
    assert changed.better.tolist() == [True, False, False, False, False]
    assert changed.worse.tolist() == [False, False, False, False, True]
    # The same rates from many more samples are beyond noise.
    more = changes(np.array([8, 7, 4, 1, 0]) * 100, K * 100, np.full(5, 400), K * 100)
    assert more.better.tolist() == [True, True, False, False, False]


def test_a_model_that_has_not_changed_is_seldom_said_to() -> None:
    rng = np.random.default_rng(0)
    rates = rng.beta(0.7, 0.7, size=20_000)
    changed = changes(rng.binomial(K, rates), K, rng.binomial(K, rates), K)
    assert CHANGED == 2.0
    for share in (changed.better.mean(), changed.worse.mean()):
        assert 0.001 < share < 0.03
