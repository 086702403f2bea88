"""Time to target: crossings are not early, censoring is a bound, and the first is named surely."""

import math
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import NamedCell, Pair
from isosweep.analysis.simulation.presets import planted_worlds
from isosweep.analysis.simulation.sweep import sweep_of
from isosweep.analysis.statistics.courses import Courses, courses_of
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.analysis.statistics.targets import Target, find_targets, isotonic, rises_of
from tests.analysis.conftest import CONFIG
from tests.analysis.sweeps import make_plan

BUDGETS = np.geomspace(1e6, 1e8, 9)


@pytest.fixture(scope="module")
def data() -> SweepData:
    """Runs with n = 2, 4 and 8 and their hours."""
    plan, world = make_plan((2, 4, 8), seeds=(0, 1)), planted_worlds(1e6, 1e8, 2, 8)["constant"]
    return sweep_of(world, plan, CONFIG, 0, num_problems=64, samples_per_problem=4)


def courses(*curves: FloatArray, spread: float = 0.0, draws: int = 400) -> Courses:
    """Of n = 2, 4, ...: curves over BUDGETS, nan where not read, that differ by a level a draw."""
    reward = np.stack(curves)
    luck = np.random.default_rng(0).normal(0.0, spread, (draws, len(curves), 1))
    return Courses(
        pairs=tuple(Pair(2 * 2**i, 4) for i in range(len(curves))),
        budgets=BUDGETS,
        reward=reward + luck if spread else reward[None],
        measured=reward,
        drawn=spread > 0,
    )


def line(start: float, per_decade: float) -> FloatArray:
    return np.asarray(start + per_decade * np.log10(BUDGETS / BUDGETS[0]))


def target(data: SweepData, reward: float, at: Courses) -> Target:
    (found,) = find_targets(data, at, [reward], 0.9)
    return found


def test_a_rise_is_the_nearest_curve_that_goes_up_and_then_down() -> None:
    assert isotonic(np.array([[1.0, 3, 2, 4], [4, 3, 2, 1]])).tolist() == [
        [1, 2.5, 2.5, 4],
        [2.5, 2.5, 2.5, 2.5],
    ]
    values = np.array([[0.0, 2, 1, 5, 3, 4, 0], [0, 1, 2, 3, 4, 5, 6]])
    # What falls for good is no noise; past the peak a curve has reached what it had.
    assert rises_of(values).tolist() == [[0, 1.5, 1.5, 5, 5, 5, 5], [0, 1, 2, 3, 4, 5, 6]]


def test_a_crossing_lies_between_readings_in_log_compute_with_its_interval(data: SweepData) -> None:
    found = target(data, 0.35, courses(line(0.2, 0.2), line(0.1, 0.2), spread=0.01))
    early, late = found.settings
    assert early.compute.median == pytest.approx(10**6.75, rel=0.02)
    # A level 0.01 higher is there 0.05 decades earlier.
    assert early.compute.low == pytest.approx(10 ** (6.75 - 1.645 * 0.05), rel=0.03)
    assert early.compute.high == pytest.approx(10 ** (6.75 + 1.645 * 0.05), rel=0.03)
    assert (early.probability, early.compute.probability_first) == (1.0, 1.0)
    assert late.compute.may_be_first is False
    assert found.first is not None
    assert (found.first.num_generations, found.first.as_early) == (2, ())


def test_what_a_setting_does_not_reach_is_not_before_its_last_reading(data: SweepData) -> None:
    short = line(0.2, 0.2)
    short[6:] = np.nan
    found = target(data, 0.55, courses(line(0.2, 0.2), short, line(0.6, 0.1), spread=0.001))
    whole, cut, above = found.settings
    assert whole.compute.median == pytest.approx(10**7.75, rel=0.01)
    assert (cut.probability, cut.compute.median, cut.compute.high) == (0.0, None, None)
    assert cut.compute.low == cut.compute.last_read == pytest.approx(BUDGETS[5])
    # Already there at its first reading: when, is not known, and that it is earlier is.
    assert (above.probability, above.compute.median, above.compute.low) == (1.0, None, None)
    assert above.compute.high is None
    assert above.compute.probability_first == 1.0
    # Without it: the run that ended before could have been there first, so nobody surely is.
    found = target(data, 0.55, courses(line(0.2, 0.2), short, spread=0.001))
    assert [each.compute.probability_first for each in found.settings] == [0.0, 0.0]
    assert found.first is None
    assert [each.compute.may_be_first for each in found.settings] == [True, True]
    # One that ended after the other is there, and is not, cannot.
    found = target(data, 0.35, courses(line(0.2, 0.2), line(0.1, 0.1), spread=0.001))
    assert found.settings[1].compute.may_be_first is False


def test_settings_that_draws_order_either_way_are_not_told_apart(data: SweepData) -> None:
    found = target(data, 0.35, courses(line(0.2, 0.2), line(0.201, 0.2), spread=0.02))
    assert found.first is not None
    assert found.first.as_early == (NamedCell(num_generations=2, problems_per_batch=4),)
    shares = [each.compute.probability_first or 0.0 for each in found.settings]
    assert sum(shares) == pytest.approx(1.0)
    assert 0.3 < shares[0] < shares[1] < 0.7


def test_no_setting_is_first_to_what_is_hardly_reached(data: SweepData) -> None:
    # Two draws in five reach it.
    found = target(data, 0.605, courses(line(0.2, 0.2), line(0.1, 0.2), spread=0.02))
    assert 0.3 < found.settings[0].probability < 0.5
    assert (found.settings[0].compute.probability_first or 0.0) > 0.3
    assert found.first is None


def test_hours_have_a_first_of_their_own(data: SweepData) -> None:
    at = courses(line(0.2, 0.2), line(0.19, 0.2), spread=0.001)
    at = replace(at, pairs=tuple(Pair(n, 4) for n in (2, 8)))
    # n = 2 takes three times as long for the same compute.
    curves = tuple(
        replace(c, hours=c.compute * (3e-8 if c.run.num_generations == 2 else 1e-8))
        for c in data.curves
    )
    found = find_targets(replace(data, curves=curves), at, [0.35], 0.9)[0]
    assert found.first is not None
    assert found.first_in_hours is not None
    assert (found.first.num_generations, found.first_in_hours.num_generations) == (2, 8)
    hours = found.settings[0].device_hours
    assert hours is not None
    assert hours.median == pytest.approx(3e-8 * (found.settings[0].compute.median or 0.0))
    # Nobody is first in hours where one setting's are not known.
    unknown = tuple(replace(c, hours=None) if c.run.num_generations == 2 else c for c in curves)
    found = find_targets(replace(data, curves=unknown), at, [0.35], 0.9)[0]
    assert (found.first_in_hours, found.settings[1].device_hours) == (None, None)


def test_without_a_spread_the_earliest_is_named_and_no_interval(data: SweepData) -> None:
    found = target(data, 0.35, courses(line(0.1, 0.2), line(0.2, 0.2)))
    assert found.first is not None
    assert (found.first.num_generations, found.first.probability) == (4, None)
    assert (found.first.at.low, found.first.at.high) == (None, None)
    assert all(each.compute.may_be_first for each in found.settings)


def test_targets_of_their_own_accord_are_what_two_settings_reach(data: SweepData) -> None:
    base = data.base_reward
    assert base is not None
    at = courses(line(base, 0.2), line(base, 0.14), line(base, 0.0), spread=0.001)
    found = [each.reward for each in find_targets(data, at, None, 0.9)]
    # Of a gain of 0.4, two reach 0.28 of it.
    assert found == [round(base + 0.2, 2)]
    assert find_targets(data, at, [], 0.9) == ()
    asked = find_targets(data, at, [0.9, 0.3, 0.9], 0.9)
    assert [(each.reward, each.asked) for each in asked] == [(0.3, True), (0.9, True)]


def first_passage(measured: FloatArray, budgets: FloatArray, reward: float) -> float:
    """ln C at which the means as they were measured are first there."""
    read = np.isfinite(measured)
    x, y = np.log(budgets[read]), np.maximum.accumulate(measured[read])
    return float(np.interp(reward, y, x)) if y[-1] >= reward else math.inf


def simulated(name: str, sweeps: int, *, problems: int, samples: int) -> FloatArray:
    """Of every sweep, (n, B) and target: ln C in truth, by first passage of the measured means,
    and median, low and high of the analysis, infinite where not reached: (crossings, 5)."""
    budgets = (8.1e8, 1.62e9, 3.24e9)
    plan = make_plan((4, 16, 64), seeds=(0, 1, 2), budgets=budgets)
    world = planted_worlds(8.1e7, budgets[-1], 4, 64)[name]
    config = replace(CONFIG, readings_per_decade=8, decades=1.0)
    found = []
    for seed in range(sweeps):
        data = sweep_of(
            world, plan, config, seed, num_problems=problems, samples_per_problem=samples
        )
        surface, frontier = fit_budgets(data, config)
        at = courses_of(frontier, surface)
        n, B = np.array(at.pairs, float).T[:, :, None]
        truth = world.reward(at.budgets, n, B)
        rewards = [world.base_reward + s * (truth.max() - world.base_reward) for s in (0.6, 0.9)]
        for each in find_targets(data, at, rewards, 0.9):
            for i, setting in enumerate(each.settings):
                known, never = setting.compute, math.inf
                if setting.probability >= 0.5 and known.median is None:
                    never = 0.0
                found.append(
                    (
                        first_passage(truth[i], at.budgets, each.reward),
                        first_passage(at.measured[i], at.budgets, each.reward),
                        math.log(known.median) if known.median else never,
                        math.log(known.low) if known.low else -math.inf,
                        math.log(known.high) if known.high else math.inf,
                    )
                )
    return np.array(found)


@pytest.mark.long
@pytest.mark.parametrize("name", ["plateau", "constant"])
def test_intervals_hold_the_true_crossing(name: str) -> None:
    truth, _, _, low, high = simulated(name, 100, problems=256, samples=8).T
    assert np.mean((low <= truth) & (truth <= high)) >= 0.85


def test_noise_of_records_makes_no_crossing_early() -> None:
    """Of 128 answers a record: the means themselves are there 0.07 decades early."""
    found = simulated("constant", 12, problems=64, samples=2)[:, :3]
    truth, passage, median = found[(np.isfinite(found) & (found > 0)).all(axis=1)].T / math.log(10)
    assert np.mean(passage - truth) < -0.05
    assert np.mean(median - truth) > -0.03
