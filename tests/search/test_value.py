import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.pairs import Pair
from isosweep.search.belief import VERDICTS, Belief
from isosweep.search.value import after, outcomes, worth, worth_of_all

# Those of `believe`.
PAIRS = (Pair(8, 4), Pair(16, 4), Pair(32, 4))
VERDICT_PLACES = len(VERDICTS)


def believe(mean: FloatArray, sd: float = 0.02, noise: float = 0.01, luck: float = 0.0) -> Belief:
    """Rewards independent of each other; `mean`: (budgets, pairs); `luck`: of a run everywhere."""
    budgets, pairs = mean.shape
    covariance = np.zeros((mean.size + VERDICT_PLACES,) * 2)
    covariance[: mean.size, : mean.size] = sd**2 * np.eye(mean.size)
    of_run = noise**2 * np.eye(budgets) + luck**2
    return Belief(
        budgets=tuple(10.0**k for k in range(budgets)),
        pairs=tuple(Pair(8 * 2**q, 4) for q in range(pairs)),
        offered=np.ones(mean.shape, dtype=bool),
        mean=mean.ravel(),
        covariance=covariance,
        chances=np.full(VERDICT_PLACES, 1 / VERDICT_PLACES),
        noise=np.stack([of_run] * pairs),
        losses=np.zeros(budgets),
        ends={},
    )


def gain(belief: Belief, pair: Pair, reached: float = 0.0, last: float = 1e9) -> float:
    """Worth of training one run to the last budget."""
    drawn = outcomes(belief, np.random.default_rng(0))
    return float(worth(belief, pair, reached, last, drawn).loss[-1])


def test_the_worth_of_one_reading_is_the_knowledge_gradient() -> None:
    belief = believe(np.array([[0.50, 0.49]]), sd=0.02, noise=0.01)
    moved = 0.02**2 / math.hypot(0.02, 0.01)
    z = -0.01 / moved
    exact = moved * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((20_000, 1))
    found = worth(belief, PAIRS[1], 0.0, 1.0, np.concatenate([drawn, -drawn]))
    assert found.loss[-1] == pytest.approx(exact, rel=0.03)


def test_what_tells_verdicts_apart_is_worth_something_without_a_change_of_n() -> None:
    belief = believe(np.array([[0.50, 0.20]]))
    covariance = belief.covariance.copy()
    covariance[2:4, 2:4] = [[0.25, -0.25], [-0.25, 0.25]]
    covariance[1, 2:4] = covariance[2:4, 1] = (0.008, -0.008)
    belief = replace(belief, covariance=covariance)
    drawn = outcomes(belief, np.random.default_rng(0))
    telling, other = (worth(belief, pair, 0.0, 1.0, drawn) for pair in PAIRS[1::-1])
    assert telling.loss[-1] == pytest.approx(0, abs=1e-9)
    assert telling.verdict[-1] == pytest.approx(2 * 0.008**2 / (0.02**2 + 0.01**2))
    assert other.verdict[-1] == 0


def test_a_run_that_goes_on_counts_with_the_luck_that_it_has_shown() -> None:
    """Against the joint Gaussian of all rewards and both readings."""
    belief = believe(np.array([[0.5, 0.5], [0.6, 0.6]]), luck=0.03)
    first = after(belief, PAIRS[0], 0.0, 1.0)
    found = after(first, PAIRS[0], 1.0, 10.0).covariance[:4, :4]
    H = np.zeros((2, 4))
    H[0, 0] = H[1, 2] = 1
    prior = belief.covariance[:4, :4]
    total = H @ prior @ H.T + belief.noise[0]
    exact = prior - prior @ H.T @ np.linalg.solve(total, H @ prior)
    assert found == pytest.approx(exact, abs=1e-9)


def test_milestones_on_the_way_are_worth_what_they_are_alone() -> None:
    belief = believe(np.array([[0.50, 0.49], [0.6, 0.59], [0.7, 0.69]]))
    drawn = outcomes(belief, np.random.default_rng(0))
    whole = worth(belief, PAIRS[1], 0.0, 100.0, drawn)
    assert whole.reached.tolist() == [0, 1, 2]
    # Each budget is as uncertain as the others, and independent of them.
    assert whole.loss == pytest.approx(whole.loss[0] * np.array([1, 2, 3]), rel=0.3)
    for place, end in enumerate(belief.budgets):
        assert worth(belief, PAIRS[1], 0.0, end, drawn).loss[-1] == pytest.approx(whole.loss[place])


def test_all_that_is_left_is_worth_more_than_any_part_of_it() -> None:
    belief = believe(np.array([[0.50, 0.49, 0.48]]))
    drawn = outcomes(belief, np.random.default_rng(0))
    together = worth_of_all(belief, [(pair, 0.0, 1.0) for pair in PAIRS], drawn)
    assert together[0] > 1.2 * max(gain(belief, pair) for pair in PAIRS)


@pytest.mark.parametrize(
    ("believed", "verdict", "shared"),
    [
        ("saturated", "saturated", True),
        ("saturated", "probably saturated", False),
        ("growing", "growing", True),
        ("growing", "probably growing", False),
        ("constant", "steady", True),
    ],
)
def test_no_belief_shares_a_verdict_that_is_only_probable(
    believed: str, verdict: str, shared: bool
) -> None:
    for chance in (0.96, 0.8):
        others = (1 - chance) / (VERDICT_PLACES - 1)
        chances = np.where(np.array(VERDICTS) == believed, chance, others)
        belief = replace(believe(np.array([[0.5, 0.4]])), chances=chances)
        assert belief.sure == (chance > 0.85)
        assert belief.shares(verdict) == (shared and belief.sure)
