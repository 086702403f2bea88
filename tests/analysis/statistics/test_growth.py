"""The rate at which n* grows at the end, and what draws of n*(C) claim."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isosweep.analysis.statistics.growth import (
    COURSES,
    Growth,
    courses,
    describe_growth,
    end_places,
    falls,
    num_starts,
    rises,
    settled_from,
)
from isosweep.analysis.statistics.surface import DrawnN

BUDGETS = tuple(float(c) for c in np.geomspace(1e18, 1e21, 10))
T = np.linspace(0, 3, 10)
GRID = np.arange(3.0, 12.0)
NOWHERE = np.zeros(10, dtype=bool)


def growth(
    truth: NDArray[np.float64],
    spread: float = 0.1,
    open_above: NDArray[np.bool_] = NOWHERE,
    open_below: NDArray[np.bool_] = NOWHERE,
) -> Growth:
    """What draws around `truth` say, where n* may lie beyond what was run at these budgets."""
    rng = np.random.default_rng(1)
    drawn = np.clip(truth + spread * rng.standard_normal((2000, len(truth))), GRID[0], GRID[-1])
    return said_of(drawn, open_above, open_below)


def said_of(drawn: NDArray[np.float64], *beyond: NDArray[np.bool_]) -> Growth:
    above, below = (np.broadcast_to(where, drawn.shape) for where in beyond)
    return describe_growth(DrawnN(log2_n=drawn, above=above, below=below), BUDGETS, GRID, 0.9, 0.5)


def test_n_has_settled_at_the_first_budget_from_which_on_it_stays_near_its_end() -> None:
    # Of a rise of one doubling a budget the last half doubling is near; a pause before it is not.
    rise = np.array([3, 4, 5, 5, 6, 7, 7, 7, 7, 7.0])
    early = np.array([7.4, *[7.0] * 9])
    found = settled_from(np.tile(rise, (100, 1)), BUDGETS, 0.9)
    assert (found.low, found.median, found.high) == (BUDGETS[4], BUDGETS[5], BUDGETS[5])
    found = settled_from(np.array([early] * 10 + [rise] * 90), BUDGETS, 0.9)
    assert (found.low, found.median, found.high) == (BUDGETS[0], BUDGETS[5], BUDGETS[5])
    found = settled_from(np.tile(early, (100, 1)), BUDGETS, 0.9)
    assert (found.low, found.median, found.high) == (BUDGETS[0],) * 3


@pytest.mark.parametrize(
    ("path", "course"),
    [
        (np.minimum(4 + 4 * T, 8.0), "saturated"),
        (4 + T, "growing"),
        (np.minimum(6 + 5 * T, 11.0), "growing"),
        (np.full(10, 6.0), "constant"),
        (np.where(T < 1, 8.0, 6.0), "fell"),
        (np.where(T < 0.3, 4.0, 8.0 - 0.3 * T), "saturated"),
    ],
)
def test_what_a_known_path_of_the_best_n_does_has_one_name(
    path: NDArray[np.float64], course: str
) -> None:
    found = courses(np.stack([path, path]), BUDGETS, 10.5, 0.5)
    assert [COURSES[place] for place in found] == [course, course]
    assert COURSES[int(courses(path[:1], BUDGETS[:1], 10.5, 0.5))] == "constant"


@pytest.mark.parametrize(("step", "number"), [(0.375, 4), (0.25, 4), (0.8, 2), (3.0, 2), (0.05, 4)])
def test_the_end_is_a_third_of_the_decades_and_one_at_most(step: float, number: int) -> None:
    budgets = tuple(10.0 ** (18 + step * k) for k in range(9))
    assert end_places(budgets).tolist() == [False] * (9 - number) + [True] * number
    # None before the first budget past a gap.
    assert end_places(budgets, 6).tolist() == [False] * (9 - min(number, 3)) + [True] * min(
        number, 3
    )


def test_budgets_that_lie_close_count_as_one_place_to_start_from() -> None:
    assert num_starts((1e18, 1e19, 1e20, 1e21)) == 3
    assert num_starts(tuple(np.geomspace(1e18, 1e21, 40))) == 9
    assert num_starts((1e18, 1.1e18, 1.2e18)) == 1


def test_rise_and_fall_count_from_the_lowest_and_the_highest() -> None:
    truth = np.array([5.0, 3.0, 8.0, 6.0])
    assert (float(rises(truth)), float(falls(truth))) == (3.0, 2.0)


def test_growth_has_settled_where_it_has_ended_inside_the_grid() -> None:
    said = growth(np.minimum(4 + 3 * T, 8.0))
    assert said.settled > 0.95 < said.grew
    assert said.rising < 0.05
    assert said.end.low < 2**8 < said.end.high
    assert said.since < 2e19
    assert [at.budget for at in said.history] == list(BUDGETS[1:])
    assert said.history[-1].rate == said.rate
    twice_the_bound = growth(4 + 1.0 * T)
    assert twice_the_bound.settled < 0.02
    assert twice_the_bound.rate.low < 1.0 < twice_the_bound.rate.high
    at_the_edge = growth(np.minimum(4 + 5 * T, 11.0))
    assert at_the_edge.grew > 0.99
    assert (at_the_edge.stopped, at_the_edge.settled) == (0.0, 0.0)
    falls_at_the_end = growth(np.where(T > 2.3, 11.76 - 1.2 * T, np.minimum(4 + 3 * T, 9.0)))
    assert falls_at_the_end.grew > 0.99
    assert falls_at_the_end.settled < 0.02
    assert falls_at_the_end.rate.high < -0.5


def test_what_moved_before_all_n_were_run_does_not_count_as_moved_since() -> None:
    path = np.where(T < 0.8, 4.0, 8.0)
    said = growth(path, open_below=(T > 0.1) & (T < 0.8))
    assert (said.steady_from, said.grew > 0.9, said.moved > 0.9) == (BUDGETS[0], True, True)
    said = growth(path, open_below=T < 0.8)
    assert said.steady_from > BUDGETS[0]
    assert said.grew > 0.9 > 0.1 > said.moved


def test_the_level_of_the_end_allows_for_the_step_of_the_axis() -> None:
    # On average it is 64 there.
    end = growth(3.5 + T, spread=0.0).end
    step = 2 ** (1 / 16)
    assert (end.low, end.median, end.high) == pytest.approx((64 / step, 64, 64 * step))


def test_growth_does_not_begin_where_larger_n_were_not_run() -> None:
    # n* is 8 throughout; at the first four budgets n = 8 to 16 were run, at others n = 8 to 2,048.
    path = np.where(T < 1.2, 4.0, 8.0)
    told, said = growth(path), growth(path, open_above=T < 1.2)
    assert told.settled > 0.95
    assert max(said.grew, said.settled) < 0.02
    # From the first budget with all n on, nothing changes.
    assert said.unchanged > 0.95
    assert (told.steady_from, said.steady_from) == (BUDGETS[0], BUDGETS[4])


@pytest.mark.parametrize(
    ("path", "cut", "claim"),
    [
        (np.where(T > 2.5, 6.0, 9.0), {"open_above": T > 2.5}, "fell"),
        (np.where(T > 2.5, 8.0, 4.0), {"open_below": T > 2.5}, "rising"),
        (np.where(T > 2.5, 8.0, 4.0), {"open_below": T > 2.5}, "grew"),
        (np.where(T < 1.0, 4.0, 8.0), {"open_above": T > 2.9}, "settled"),
    ],
)
def test_an_end_at_which_other_n_were_not_run_has_neither_moved_nor_stopped(
    path: NDArray[np.float64], cut: dict[str, NDArray[np.bool_]], claim: str
) -> None:
    assert getattr(growth(path, spread=0.02), claim) > 0.9
    assert getattr(growth(path, spread=0.02, **cut), claim) == 0.0
