"""Where reuse of problems begins to cost, with a planted loss."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from isosweep.analysis.pages.comparison import summarise
from isosweep.analysis.statistics.across import Unidentified
from isosweep.analysis.statistics.entries import Entry, groups_but_for
from isosweep.analysis.statistics.reuse import Onset, _isotonic, find_onset
from tests.analysis.statistics.planted import CONFIG, compared
from tests.analysis.sweeps import BUDGETS, COST, RewardAt, paths_in

MARGIN = 0.02
# As many draws from 51,200 problems down to 512 (arXiv 2509.25300, figure 7b).
PASSES = np.array([1.0, 2.0, 5.0, 20.0, 25.0, 50.0, 100.0])


def loss(passes: np.ndarray | float, onset: float) -> np.ndarray:
    """Nothing up to a doubling before `onset`, where it is the margin; straight in log passes."""
    return np.asarray(MARGIN * np.maximum(0, 1 + np.log2(passes / onset)))


def measured(onset: float, rng: np.random.Generator, seeds: int = 3) -> np.ndarray:
    """Rewards (amounts, seeds), with luck that a seed has at all amounts."""
    luck = 0.01 * rng.standard_normal(seeds)
    own = 0.008 * rng.standard_normal((len(PASSES), seeds))
    return 0.5 - loss(PASSES, onset)[:, None] + luck + own


def found(onset: float, seed: int) -> Onset:
    rewards = measured(onset, np.random.default_rng(seed))
    law = find_onset(PASSES, rewards, MARGIN, CONFIG.confidence)
    assert isinstance(law, Onset)
    return law


def test_intervals_of_the_onset_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(0)
    held = []
    for seed in range(60):
        onset = float(2 ** rng.uniform(2, 6.5))
        law = found(onset, seed)
        held.append(law.harmless <= onset <= (law.harmful or np.inf))
    assert 0.82 <= np.mean(held) <= 0.97


def test_a_loss_beyond_what_was_run_is_left_open() -> None:
    laws = [found(1e6, seed) for seed in range(20)]
    assert np.mean([law.harmful is None for law in laws]) >= 0.9
    assert all(law.harmless <= PASSES[-1] for law in laws)
    assert np.mean([law.probability for law in laws]) < 0.3


@pytest.mark.parametrize(
    ("lost", "between", "low", "high"),
    [
        # Nothing is lost at 50 passes, and five margins at 100.
        ((0, 0, 0, 0, 0, 0, 5), (50, 100), 0.05, 0.68),
        # A cliff: with powers alone the upper end lies at 0.74.
        ((0, 0, 0, 0, 5, 5, 5), (20, 25), 0.02, 0.78),
    ],
)
def test_where_between_two_numbers_of_passes_it_begins_is_not_taken_for_known(
    lost: tuple[float, ...], between: tuple[int, int], low: float, high: float
) -> None:
    """Next to no noise. Ends of the interval as shares of the way in log passes."""
    noise = 1e-5 * np.random.default_rng(0).standard_normal((7, 3))
    law = find_onset(PASSES, 0.5 - MARGIN * np.array(lost)[:, None] + noise, MARGIN, 0.9)
    assert isinstance(law, Onset)
    assert law.harmful is not None
    way = np.log(np.array([law.harmless, law.harmful]) / between[0]) / math.log(
        between[1] / between[0]
    )
    assert 0 <= way[0] < low
    assert high < way[1] <= 1


def test_isotonic_regression_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).standard_normal((50, 7))
    theirs = np.array([isotonic_regression(row).x for row in values])
    assert _isotonic(values) == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("rewards", "why"),
    [
        (np.zeros((7, 1)), Unidentified(kind="few seeds", found=1, least=2)),
        (
            0.5 + 0.05 * np.arange(7)[:, None] + 0.001 * np.eye(7, 3),
            Unidentified(kind="no law"),
        ),
        (np.full((7, 3), 0.5), Unidentified(kind="no spread")),
    ],
)
def test_what_is_not_identified_says_why(rewards: np.ndarray, why: Unidentified) -> None:
    assert find_onset(PASSES, rewards, MARGIN, 0.9) == why


def test_variants_of_the_number_of_problems_say_where_reuse_begins_to_cost(
    tmp_path: Path,
) -> None:
    def of(number: int) -> RewardAt:
        def reward(compute: float, n: int, B: int) -> float:
            lost = float(loss(compute / COST / n / number, 16.0))
            return 0.4 + 0.02 * float(np.log2(compute / BUDGETS[0])) - lost

        return reward

    last = BUDGETS[-1] / COST / 8
    numbers = tuple(round(last / passes) for passes in (1, 4, 16, 64))
    entries = {f"{k} problems": (of(k), {"task": {"num_train_problems": k}}) for k in numbers}
    comparison, of_two = compared(tmp_path, entries)
    assert of_two.reuse_laws == ()
    (law,) = comparison.reuse_laws
    assert law.passes == pytest.approx((1, 4, 16, 64), rel=0.02)
    assert law.entries[0] == f"{numbers[0]} problems"
    assert isinstance(law.found, Onset)
    assert law.found.harmful is not None
    assert law.found.harmless <= 16.0 <= law.found.harmful
    assert law.found.harmless > 4
    assert summarise(comparison)[-1].startswith("At 3.2e7 FLOPs, reuse begins to cost more than")
    document = json.loads(paths_in(tmp_path).comparison.read_text())
    assert document["reuse_laws"][0]["found"]["harmful"] == law.found.harmful
    page = paths_in(tmp_path).report.read_text()
    assert 'id="figure-comparison_reuse"' in page
    assert "Data reuse" in page


def test_variants_that_differ_in_more_are_told_apart() -> None:
    one = Entry(name="a", data=None, findings=None, parameters=None, settings={"recipe.beta": 0})  # type: ignore[arg-type]
    more = replace(one, settings={"recipe.beta": 0, "task.num_train_problems": 3})
    other = replace(one, settings={"recipe.beta": 1, "sweep_dir": "b"})
    assert groups_but_for([one, more, other], "task.num_train_problems") == [[one, more], [other]]
