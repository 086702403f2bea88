"""What seeds say of the noise where they are few, and where only some go on to larger budgets."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.means import (
    _LEVELS,
    _common_share,
    _seed_covariance,
    _smoothed,
)
from tests.analysis.statistics.planted import means_of, read
from tests.analysis.sweeps import BUDGETS, make_plan, peaked

DECADES = np.linspace(0.0, 3.0, 9)
# The spread grows as runs learn.
TRUE_SD = 0.002 * 10 ** (0.2 * DECADES)
CELLS, SEEDS = 9, 4


def rewards(
    rng: np.random.Generator, cells: int = CELLS, seeds: int = SEEDS, sd: FloatArray = TRUE_SD
) -> list[FloatArray]:
    """(seeds, budgets) of every cell, half of whose luck lasts."""
    lasting = rng.standard_normal((cells, seeds, 1))
    passing = rng.standard_normal((cells, seeds, len(DECADES)))
    return list(0.5 + sd * (lasting + passing) / np.sqrt(2))


def sd_of(tables: list[FloatArray]) -> FloatArray:
    covariance, _ = _seed_covariance(tables, DECADES)
    assert covariance is not None
    return np.asarray(np.sqrt(np.diag(covariance)))


def own_sd(tables: list[FloatArray]) -> FloatArray:
    """What the seeds of each budget say alone."""
    return np.asarray(np.sqrt(np.mean([table.var(axis=0, ddof=1) for table in tables], axis=0)))


def test_many_seeds_are_believed_at_each_budget() -> None:
    # Ten times as much within a third of a decade, and as little again.
    peak = np.where(np.arange(len(DECADES)) == 4, 0.02, 0.002)
    tables = rewards(np.random.default_rng(0), seeds=64, sd=peak)
    assert sd_of(tables) == pytest.approx(own_sd(tables), rel=0.1)


def test_two_seeds_that_agree_by_chance_at_a_budget_are_corrected_by_its_neighbours() -> None:
    found, alone = [], []
    for number in range(200):
        tables = rewards(np.random.default_rng(number), cells=5, seeds=2)
        found.append(np.log(sd_of(tables) / TRUE_SD))
        alone.append(np.log(own_sd(tables) / TRUE_SD))
    assert np.sqrt(np.mean(np.square(found))) < 0.8 * np.sqrt(np.mean(np.square(alone)))
    # Less than 0.7 of what it is, at any of the budgets.
    assert np.mean(np.min(alone, axis=1) < np.log(0.7)) > 0.75
    assert np.mean(np.min(found, axis=1) < np.log(0.7)) < 0.55


def test_where_few_seeds_go_on_their_agreement_by_chance_is_not_believed() -> None:
    found, alone = [], []
    for number in range(200):
        tables = rewards(np.random.default_rng(number))
        for cell, table in enumerate(tables):
            # To the largest budgets two seeds of three cells.
            table[2 if cell < 3 else 0 :, 6:] = np.nan
        found.append(sd_of(tables)[-1])
        kept = [table[:2, -1].var(ddof=1) for table in tables[:3]]
        alone.append(np.sqrt(np.mean(kept)))
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(TRUE_SD[-1], rel=0.08)
    # On their own four of ten such sweeps would state it as less than 0.8 of what it is.
    assert np.mean(np.array(alone) < 0.8 * TRUE_SD[-1]) > 0.35
    assert np.mean(np.array(found) < 0.8 * TRUE_SD[-1]) < 0.3


def test_a_course_over_compute_that_two_budgets_show_is_not_drawn_on_for_decades() -> None:
    freedom = np.array([4.0, 4.0, *[0.0] * 7])
    variance = np.array([1.0, 4.0, *[1.0] * 7])
    assert _smoothed(variance, freedom, np.eye(9), DECADES)[-1] < 10


def test_a_seed_that_is_off_in_all_cells_leaves_them_little_of_its_own_variance() -> None:
    """Five spreads, in one of two seeds of five cells: 13.5 variances, of which all but one are
    common. What is left to every cell may be a multiple of what it has, and not of all."""
    left = []
    for number in range(100):
        tables = rewards(np.random.default_rng(number), cells=5, seeds=2, sd=0.002 + 0 * DECADES)
        for table in tables:
            table[0] -= 5 * 0.002
        spread = np.mean([table.var(axis=0, ddof=1) for table in tables], axis=0)
        left.append(np.mean((1 - _common_share(tables)) * spread) / 0.002**2)
    assert 0.7 < np.median(left) < 2.5


def test_a_share_that_is_not_there_is_hardly_ever_assumed() -> None:
    shares = []
    for number in range(200):
        tables = rewards(np.random.default_rng(number), cells=5, seeds=2)
        shares.append(_common_share(tables))
    assert np.mean(np.array(shares) == 0) > 0.7


def test_the_levels_of_clean_seeds_are_not_taken_out() -> None:
    for number in range(200):
        tables = rewards(np.random.default_rng(number), cells=3, seeds=2)
        assert _common_share(tables).mean() < _LEVELS


def test_a_seed_that_is_off_from_some_budget_on_is_common_there() -> None:
    """Where runs have gained little yet it is not: a mean over budgets would hide most of it."""
    shares = []
    for number in range(50):
        tables = rewards(np.random.default_rng(number), cells=5, seeds=2)
        for table in tables:
            table[0] -= np.where(DECADES > 2, 5 * TRUE_SD, 0.0)
        shares.append(_common_share(tables))
    assert np.median(shares, axis=0)[-1] > 0.8
    assert np.median(shares, axis=0)[0] < 0.3


# Of the first seed, less at larger budgets and more at smaller ones than 12% of 0.5.
OFF = dict(zip(BUDGETS, np.linspace(0.03, 0.09, len(BUDGETS)), strict=True))


def off(readings: list[CellReading]) -> list[CellReading]:
    """The readings, with the first seed's too low."""
    return [
        replace(r, reward=(r.reward or 0.0) - (OFF[r.cell.budget] if r.cell.seed == 0 else 0.0))
        for r in readings
    ]


def of_differences(readings: list[CellReading]) -> tuple[FloatArray, FloatArray]:
    """What neighbouring n differ by at the last budget, and the errors of that."""
    means = means_of(readings)
    here = np.flatnonzero(means.budget == len(means.budgets) - 1)
    apart = np.eye(len(here))[1:] - np.eye(len(here))[:-1]
    noise = apart @ means.noise[np.ix_(here, here)] @ apart.T
    return apart @ means.reward[here], np.sqrt(np.diag(noise))


def test_a_seed_that_is_off_in_all_n_leaves_differences_of_n_as_sure_as_they_are() -> None:
    plan = make_plan(seeds=range(2))
    wider = []
    for seed in range(20):
        clean = read(plan, peaked(lambda C: 8.0), noise=0.001, luck=0.004, seed=seed)
        (before, sure), (after, unsure) = of_differences(clean), of_differences(off(clean))
        assert after == pytest.approx(before, abs=1e-9)
        wider.append(unsure / sure)
    assert 0.8 < np.median(wider) < 1.3


def test_an_n_that_only_a_seed_off_in_all_n_has_come_to_is_compared_without_its_level() -> None:
    plan = make_plan(seeds=range(3))
    whole = read(plan, peaked(lambda C: 8.0), noise=1e-4, luck=2e-4)
    kept = [r for r in whole if r.cell.num_generations != 8 or r.cell.seed == 0]
    assert of_differences(off(kept))[0] == pytest.approx(of_differences(whole)[0], abs=2e-3)
