"""Held-out metrics against counting by hand, enumeration and simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isosweep.heldout import pass_at, score

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
