"""An early reading against the end: order of settings, and what its best loses."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.presets import planted_worlds
from isosweep.analysis.simulation.sweep import sweep_of
from isosweep.analysis.statistics.courses import Courses, courses_of
from isosweep.analysis.statistics.early import Early, early_against_final
from isosweep.analysis.statistics.judgement import fit_budgets
from tests.analysis.conftest import CONFIG
from tests.analysis.sweeps import make_plan

BUDGETS = np.array([1e6, 1e7, 1e8])


def courses(reward: FloatArray, spread: float = 0.0) -> Courses:
    """`reward`: (settings, 3), with noise of its own in every draw."""
    noise = np.random.default_rng(0).normal(0.0, spread, (1000, *reward.shape))
    return Courses(
        pairs=tuple(Pair(2 * 2**i, 4) for i in range(len(reward))),
        budgets=BUDGETS,
        reward=reward + noise if spread else reward[None],
        measured=reward,
        drawn=spread > 0,
    )


def tenth(at: Courses) -> Early:
    (found,) = (each for each in early_against_final(at, 0.9) if each.nearest_to_a_tenth)
    return found


# Three settings whose order turns, and one that is always the worst.
TURNS = np.array([[0.3, 0.40, 0.45], [0.3, 0.38, 0.50], [0.3, 0.36, 0.48], [0.1, 0.10, 0.10]])


def test_tau_counts_pairs_and_regret_is_of_the_early_best() -> None:
    found = tenth(courses(TURNS, 0.001))
    assert (found.budget, found.last) == (1e7, 1e8)
    assert found.share == pytest.approx(0.1)
    # Of six pairs the first setting swaps with two.
    assert found.measured == pytest.approx((4 - 2) / 6)
    assert (found.num_same, found.num_opposite, found.num_pairs) == (4, 2, 6)
    assert found.tau is not None
    assert [found.tau.low, found.tau.high] == pytest.approx([1 / 3, 1 / 3])
    assert (found.num_generations, found.problems_per_batch) == (2, 4)
    assert found.measured_regret == pytest.approx(0.05)
    assert found.regret is not None
    assert found.regret.low < 0.05 < found.regret.high


def test_noise_attenuates_tau_and_its_interval_says_what_is_compatible() -> None:
    reward = np.array([[0.0, 0.30, 0.30], [0.0, 0.305, 0.305], [0.0, 0.31, 0.31], [0.0, 0.5, 0.5]])
    found = tenth(courses(reward, 0.02))
    assert found.measured == 1.0
    assert found.tau is not None
    # Draws keep the order of three pairs, and of the others in about half.
    assert found.tau.median < 0.9
    assert (found.num_same, found.num_opposite) == (3, 0)
    assert (found.tau.low, found.tau.high) == (0.0, 1.0)


def test_settings_count_where_both_budgets_have_them() -> None:
    reward = TURNS.copy()
    reward[3, 1] = np.nan
    assert tenth(courses(reward)).num_settings == 3
    # The last budget is the last that three have reached.
    reward = TURNS.copy()
    reward[:2, 2] = np.nan
    (found,) = early_against_final(courses(reward), 0.9)
    assert (found.budget, found.last) == (1e6, 1e7)
    assert early_against_final(courses(TURNS[:2]), 0.9) == ()


def test_without_a_spread_only_what_was_measured_is_told() -> None:
    found = tenth(courses(TURNS))
    assert found.measured == pytest.approx(1 / 3)
    assert (found.tau, found.num_same, found.num_opposite, found.regret) == (None,) * 4


@pytest.mark.long
@pytest.mark.parametrize("name", ["plateau", "constant"])
def test_intervals_hold_the_true_tau_and_regret(name: str) -> None:
    budgets = (8.1e8, 1.62e9, 3.24e9)
    plan = make_plan((4, 8, 16, 32, 64), seeds=(0, 1, 2), budgets=budgets)
    world = planted_worlds(8.1e7, budgets[-1], 4, 64)[name]
    config = replace(CONFIG, readings_per_decade=5, decades=1.0)
    held = []
    for seed in range(100):
        data = sweep_of(world, plan, config, seed, num_problems=256, samples_per_problem=8)
        surface, frontier = fit_budgets(data, config)
        at = courses_of(frontier, surface)
        n, B = np.array(at.pairs, float).T[:, :, None]
        truth = world.reward(at.budgets, n, B)
        for found in early_against_final(at, 0.9):
            ends = truth[:, [at.budgets.tolist().index(found.budget), -1]]
            both = at.read[:, [at.budgets.tolist().index(found.budget), -1]].all(axis=1)
            one, other = np.triu_indices(both.sum(), 1)
            signs = np.sign(ends[both][one] - ends[both][other])
            tau = float(signs.prod(axis=1).mean())
            chosen = at.pairs.index(Pair.of(found))
            lost = ends[both, 1].max() - ends[chosen, 1]
            assert found.tau is not None
            assert found.regret is not None
            held.append(
                (
                    found.tau.low - 1e-9 <= tau <= found.tau.high + 1e-9,
                    found.regret.low - 1e-9 <= lost <= found.regret.high + 1e-9,
                )
            )
    assert (np.mean(held, axis=0) >= 0.85).all()
