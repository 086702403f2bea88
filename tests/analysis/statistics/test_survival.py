"""Runs that fall count in what is expected of an n."""

from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.best_n import fit_frontier
from isosweep.analysis.statistics.collapses import survivals, with_fallen
from isosweep.analysis.statistics.noise import gather_means
from isosweep.analysis.statistics.surface import Surface, fit_surface
from tests.analysis.statistics.planted import CONFIG, means_of, read
from tests.analysis.sweeps import BUDGETS, make_plan, peaked

GRID = (2, 4, 8, 16, 32, 64)
FALLEN = 0.1


def readings_of(lost: dict[int, int], seeds: int = 8) -> list[CellReading]:
    """n = 32 is best of those that keep their gain; of `lost`, so many seeds fall at the third
    budget."""
    plan = make_plan(generations=GRID, seeds=range(seeds), budgets=BUDGETS[:4])
    readings = read(plan, peaked(lambda C: 32.0, fall=0.01), noise=0.003)
    return [
        replace(r, reward=None, reading="collapsed", fallen=FALLEN)
        if r.cell.seed < lost.get(r.cell.num_generations, 0) and r.cell.budget >= BUDGETS[2]
        else r
        for r in readings
    ]


def surfaces(readings: list[CellReading]) -> tuple[Surface, Surface]:
    """That of runs that keep their gain, and that of all."""
    kept = fit_surface(means_of(readings))
    return kept, with_fallen(kept, readings)


def test_where_nothing_falls_nothing_changes() -> None:
    readings = readings_of({})
    kept, expected = surfaces(readings)
    assert expected is kept
    assert survivals(readings, 0.9) == ()


def test_the_best_n_in_expectation_is_the_one_whose_runs_last() -> None:
    readings = readings_of({32: 4, 64: 4})
    kept, expected = surfaces(readings)
    assert 2 ** np.median(kept.best_n[:, -1]) == pytest.approx(32, rel=0.3)
    assert 2 ** np.median(expected.best_n[:, -1]) <= 18
    # Before anything had fallen, the same.
    assert np.array_equal(kept.draws[:, 0], expected.draws[:, 0])
    frontier = fit_frontier(readings, gather_means(readings), expected, CONFIG)
    last = frontier.budgets[-1]
    assert last.best.num_generations == 16
    (large,) = (choice for choice in last.choices if choice.num_generations == 32)
    assert large.cell.num_fallen == 4
    # Half of its runs are worth FALLEN.
    assert large.expected == pytest.approx((large.cell.mean + FALLEN) / 2, abs=0.02)


def test_an_n_between_two_ends_that_fall_is_worth_what_its_runs_show() -> None:
    readings = readings_of({2: 7, 4: 7, 32: 7, 64: 7})
    _, expected = surfaces(readings)
    frontier = fit_frontier(readings, gather_means(readings), expected, CONFIG)
    last = frontier.budgets[-1]
    assert last.best.num_generations == 16
    assert last.best.expected == pytest.approx(last.best.cell.mean, abs=0.02)


def test_shares_are_those_of_each_n_with_intervals_that_hold_them() -> None:
    readings = readings_of({32: 4, 64: 4})
    found = {each.num_generations: each for each in survivals(readings, 0.9)}
    assert (found[32].num_runs, found[32].num_fallen) == (8, 4)
    assert found[32].kept.low < 0.5 < found[32].kept.high < 0.85
    assert found[2].kept.low > 0.9
    # A neighbour of what falls is not as safe as one that is far away.
    assert found[16].kept.low < found[4].kept.low
    # A diverged run has fallen at the budgets that it never reached.
    ended = [replace(r, reading="diverged") if r.reading == "collapsed" else r for r in readings]
    assert survivals(ended, 0.9) == tuple(found.values())


def test_an_n_that_lost_all_its_runs_was_run_and_is_no_open_edge() -> None:
    kept, expected = surfaces(readings_of({32: 8, 64: 8}))
    last = expected.measured[-1]
    assert np.exp2(kept.log2_n[kept.measured[-1]]).tolist() == [2, 4, 8, 16]
    assert np.exp2(expected.log2_n[last]).tolist() == list(GRID)
    assert expected.supported[-1].all()
    assert kept.drawn_n(0.0).above[:, -1].mean() > 0.9
    assert expected.drawn_n(0.0).above[:, -1].mean() == 0
    assert 2 ** np.median(expected.best_n[:, -1]) == pytest.approx(16, rel=0.2)
