"""T from a budget and back, and where a run that is trained for the budget ends."""

from hypothesis import given
from hypothesis import strategies as st

from isosweep.compute import has_reached
from isosweep.costs.steps import budget_of, steps_for

COSTS = st.floats(min_value=1e-3, max_value=1e18)
UPDATES = st.integers(min_value=1, max_value=16)
GENERATIONS = st.integers(min_value=1, max_value=10**6)


@given(GENERATIONS, COSTS, UPDATES)
def test_the_budget_that_steps_spend_buys_them(generations: int, cost: float, updates: int) -> None:
    steps = generations * updates
    assert steps_for(budget_of(steps, cost), cost, updates) == steps


@given(st.floats(min_value=0.01, max_value=200), COSTS, UPDATES)
def test_steps_are_whole_generations_within_half_of_one(
    generations: float, cost: float, updates: int
) -> None:
    budget = generations * cost * updates
    steps = steps_for(budget, cost, updates)
    assert steps % updates == 0
    half = cost * updates / 2
    assert steps == updates or abs(budget_of(steps, cost) - budget) <= half * (1 + 1e-9)


@given(st.integers(min_value=1, max_value=200), COSTS, UPDATES)
def test_a_run_ends_at_the_steps_that_were_planned(halves: int, cost: float, updates: int) -> None:
    # Amid two generations, too: a run ends with the earlier one.
    budget, generation = halves * cost * updates / 2, cost * updates
    ends = (k for k in range(1, 200) if has_reached(budget, k * generation, k))
    assert steps_for(budget, cost, updates) == updates * next(ends)
