"""How the spread between seeds goes with n and B."""

import numpy as np
import pytest

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.statistics.spread import relative_spread

LOG2_N = np.arange(2.0, 9.0)
DECADES = np.linspace(4.0, 6.0, 5)
ONE_BATCH = np.full(len(LOG2_N), 3.0)


def drawn(spread: FloatArray, seeds: int, luck_of_runs: bool = False) -> list[FloatArray]:
    """Rewards of cells with this spread (cells, budgets); a run keeps its luck, or has new luck at
    every budget."""
    rng = np.random.default_rng(1)
    cells, budgets = spread.shape
    luck = rng.standard_normal((cells, seeds, 1 if luck_of_runs else budgets))
    return [0.5 + of * each for of, each in zip(spread, luck, strict=True)]


def falling(slope: float, bend: float = 0.0) -> FloatArray:
    """Its log2 falls by `slope` a doubling of n, by `bend` more a decade; of mean square 1."""
    x = (LOG2_N - LOG2_N.mean())[:, None]
    spread = 0.02 * 2.0 ** (-(slope + bend * (DECADES - DECADES.mean())) * x)
    return np.asarray(spread / np.sqrt((spread**2).mean(axis=0)))


@pytest.mark.parametrize(("slope", "bend"), [(0.5, 0.0), (-0.3, 0.0), (0.3, 0.2)])
def test_the_spread_of_each_n_is_found(slope: float, bend: float) -> None:
    truth = falling(slope, bend)
    found = relative_spread(drawn(0.01 * truth, seeds=60), LOG2_N, ONE_BATCH, DECADES)
    assert found == pytest.approx(truth, rel=0.15)


def test_where_all_n_spread_alike_few_seeds_show_little_else() -> None:
    alike = np.full((len(LOG2_N), len(DECADES)), 0.01)
    found = relative_spread(drawn(alike, 4, luck_of_runs=True), LOG2_N, ONE_BATCH, DECADES)
    assert found == pytest.approx(1.0, abs=0.3)


def test_luck_that_a_run_keeps_is_counted_once() -> None:
    """What one run shows at five budgets alike says no more than what it shows at one."""
    tables = drawn(0.01 * falling(1.0), 2, luck_of_runs=True)
    five = relative_spread(tables, LOG2_N, ONE_BATCH, DECADES)
    one = relative_spread([table[:, :1] for table in tables], LOG2_N, ONE_BATCH, DECADES[:1])
    assert one[0, 0] > 1.5 * one[-1, 0]
    assert five == pytest.approx(np.repeat(one, 5, axis=1), rel=1e-3)


def test_two_n_with_two_seeds_are_drawn_together() -> None:
    tables = [np.array([[0.40], [0.60]]), np.array([[0.499], [0.501]])]
    one, other = relative_spread(tables, np.array([2.0, 3.0]), np.zeros(2), np.array([5.0]))[:, 0]
    assert 1.0 < one / other < 1.5  # a hundredfold as they stand


def test_seeds_that_agree_by_chance_do_not_make_the_others_endless() -> None:
    """As where large n have learned nothing yet: every seed of them has the same reward."""
    spread = np.where(LOG2_N < 4, 0.01, 0.0)[:, None] * np.ones(len(DECADES))
    found = relative_spread(drawn(spread, 3), LOG2_N, ONE_BATCH, DECADES)
    assert found.min() >= 0.1
    assert found.max() <= 10
    assert found[0, 0] > 2 * found[-1, 0]


def test_spread_goes_with_the_batch_as_well() -> None:
    x, y = (axis.ravel() for axis in np.meshgrid(LOG2_N, np.arange(1.0, 6.0), indexing="ij"))
    of = np.repeat((2.0 ** (-0.4 * (y - y.mean())))[:, None], len(DECADES), axis=1)
    found = relative_spread(drawn(0.01 * of, seeds=20), x, y, DECADES)
    assert found[y == 1].mean() / found[y == 5].mean() == pytest.approx(2.0**1.6, rel=0.15)


@pytest.mark.parametrize("seeds", [1, 3])
def test_without_a_spread_it_is_the_same_everywhere(seeds: int) -> None:
    nothing = [np.full((seeds, 5), 0.4) for _ in LOG2_N]
    assert np.all(relative_spread(nothing, LOG2_N, ONE_BATCH, DECADES) == 1.0)
