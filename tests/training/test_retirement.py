"""Problems are taken for solved as often whatever n is, and through checkpoints."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isosweep.training.retirement import Retirement

# Rollouts that a problem gets in all, and problems of each success rate.
ROLLOUTS, PROBLEMS = 256, 1000


def retired_share(rate: float, n: int, seed: int, window: int = 64) -> float:
    """Share of problems with success `rate` that are taken for solved within ROLLOUTS rollouts."""
    draw = random.Random(seed)
    judge = Retirement(0.9, window)
    retired = 0
    for problem in range(PROBLEMS):
        visits = ([float(draw.random() < rate) for _ in range(n)] for _ in range(ROLLOUTS // n))
        retired += any(judge.solved(problem, scores) for scores in visits)
    return retired / PROBLEMS


@pytest.mark.parametrize("rate", [0.7, 0.8, 0.85, 0.95])
def test_as_many_problems_are_retired_with_n_of_4_as_of_64(rate: float) -> None:
    few, many = retired_share(rate, 4, seed=1), retired_share(rate, 64, seed=2)
    # Four standard errors of a difference of two shares.
    error = (2 * max(few * (1 - few), 1 / PROBLEMS) / PROBLEMS) ** 0.5
    assert abs(few - many) < 4 * error, (few, many)


def test_the_rate_of_the_last_group_alone_would_depend_on_n() -> None:
    # What a window of n rollouts does: the control of the test above.
    few, many = retired_share(0.7, 4, seed=1, window=4), retired_share(0.7, 64, seed=2)
    assert few > 0.9
    assert many < 0.01


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 9), st.integers(1, 12))
def test_it_makes_no_difference_how_rollouts_come(scores: list[bool], n: int, window: int) -> None:
    whole, parts = Retirement(0.9, window), Retirement(0.9, window)
    values = [float(score) for score in scores]
    groups = [values[at : at + n] for at in range(0, len(values), n)]
    solved = [parts.solved(7, group) for group in groups]
    assert whole.solved(7, values) == any(solved)
    assert whole.to_json() == parts.to_json()


def test_a_window_is_filled_on_after_a_checkpoint() -> None:
    judge = Retirement(0.9, 10)
    assert not judge.solved(3, [1.0] * 9)
    again = Retirement(0.9, 10)
    again.restore(judge.to_json())
    assert again.solved(3, [0.0])
    assert again.to_json() == {}
