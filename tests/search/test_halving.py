"""`search=tune`: which values go on at one cell, and when it ends."""

from collections import Counter
from dataclasses import replace

from isosweep.analysis.tuned import Scale
from isosweep.config.search import SearchConfig
from isosweep.search.halving import decide
from isosweep.search.steps import Decision
from isosweep.search.trials import Grid, Seen, Trained
from tests.analysis.tuned import BUDGETS, RATES, RewardOf, all_runs, grid_of, peak
from tests.search.sweeps import question

# A third of 8 values x 3 seeds x the largest budget.
THIRD = 8 * 3 * BUDGETS[-1] / 3


def ask(
    grid: Grid,
    runs: dict[str, Trained],
    pending: dict[str, float] | None = None,
    *,
    limit: float = THIRD,
    count: int = 4,
) -> Decision:
    config = SearchConfig(name="tune", kind="tune", max_compute=limit)
    seen = Seen(grid=grid, runs=runs)
    return decide(replace(question(seen.data, config, pending), count=count))


def tune(
    reward: RewardOf, *, grid: Grid | None = None, noise: float = 0.01, limit: float = THIRD
) -> tuple[Grid, dict[str, Trained], Decision]:
    """Ask until nothing more is asked for."""
    grid = grid or grid_of(RATES)
    known, runs = all_runs(grid, reward, noise=noise), dict[str, Trained]()
    while (decision := ask(grid, runs, limit=limit, count=24)).steps:
        for step in decision.steps:
            mine = runs.setdefault(step.run_id, Trained())
            before = BUDGETS[max(mine.rewards)] if mine.rewards else 0.0
            assert step.compute == step.milestone - before > 0
            mine.rewards |= {
                k: known[step.run_id].rewards[k]
                for k, budget in enumerate(BUDGETS)
                if budget <= step.milestone
            }
    return grid, runs, decision


def trained_to(grid: Grid, runs: dict[str, Trained], place: int) -> Counter[int]:
    """Seeds of each value, by doublings of the smallest, that came so far."""
    return Counter(
        (grid.runs[name].n // grid.generations[0]).bit_length() - 1
        for name, run in runs.items()
        if place in run.rewards
    )


def test_it_starts_with_two_seeds_of_every_value_at_the_smallest_budget() -> None:
    grid = grid_of(RATES)
    steps = ask(grid, {}, count=100).steps
    assert len(steps) == 16
    assert {step.milestone for step in steps} == {BUDGETS[0]}
    assert {grid.runs[step.run_id].seed for step in steps} == {0, 1}


def spent(runs: dict[str, Trained]) -> float:
    return sum(BUDGETS[max(run.rewards)] for run in runs.values() if run.rewards)


def test_fewer_values_go_on_at_every_budget_and_the_best_has_two_seeds_at_the_last() -> None:
    grid, runs, decision = tune(peak(3.0))
    assert spent(runs) <= THIRD
    assert decision.stop is not None
    counts = [len(trained_to(grid, runs, place)) for place in range(len(BUDGETS))]
    assert counts[0] == 8
    assert counts == sorted(counts, reverse=True)
    last = trained_to(grid, runs, 3)
    assert 2 <= len(last) <= 3
    assert last[3] >= 2


def test_it_ends_before_where_hardly_anything_can_be_lost() -> None:
    _, runs, decision = tune(peak(3.0, 0.05), noise=0.002)
    assert spent(runs) < 0.9 * THIRD
    assert "less than 0.1 of analysis.margin=0.02" in (decision.stop or "")


def test_further_seeds_go_to_values_that_may_be_the_best_alone() -> None:
    grid, runs, decision = tune(peak(3.5), noise=0.15, limit=1e9)
    last = trained_to(grid, runs, 3)
    assert last[3] == last[4] == 3
    assert last[0] == last[7] == 2
    assert "every seed of the values that may be the best is trained" in (decision.stop or "")


def test_a_value_that_learns_more_slowly_and_further_is_found() -> None:
    def slow(x: float, second: int, k: int) -> float:
        # The best value falls from 5 to 3 doublings over the four budgets.
        del second
        return 0.4 + 0.05 * k - 0.012 * (x - (5.0 - 2.0 * k / 3.0)) ** 2

    grid, runs, _ = tune(slow, noise=0.005)
    assert trained_to(grid, runs, 3)[3] >= 2


def test_runs_that_are_pending_are_waited_for_and_not_asked_for_twice() -> None:
    grid = grid_of(RATES)
    first = ask(grid, {}, count=100).steps
    pending = {step.run_id: step.milestone for step in first}
    decision = ask(grid, {}, pending, count=4)
    assert (decision.steps, decision.stop) == ((), None)
    fewer = dict(list(pending.items())[:10])
    again = ask(grid, {}, fewer, count=100).steps
    assert {step.run_id for step in again} == pending.keys() - fewer.keys()


def test_a_value_whose_runs_all_ended_goes_no_further() -> None:
    grid = grid_of(RATES)
    known = all_runs(grid, peak(7.0))
    runs = {
        name: Trained(rewards={0: run.rewards[0]})
        for name, run in known.items()
        if grid.runs[name].seed < 2
    }
    for name, run in runs.items():
        if grid.runs[name].n == grid.generations[7]:
            run.status = "diverged"
            run.rewards = {}
    steps = ask(grid, runs, count=100).steps
    assert steps
    assert all(grid.runs[step.run_id].n < grid.generations[7] for step in steps)


def test_two_settings_are_tuned_together() -> None:
    beta = Scale(setting="recipe.beta", values=(0.0, 0.01, 0.02))
    rates = Scale(setting="recipe.learning_rate", values=RATES.values[:4])
    grid = grid_of(rates, beta)
    limit = 12 * 3 * BUDGETS[-1] / 3
    _, runs, _ = tune(
        lambda x, b, k: 0.4 + 0.05 * k - 0.03 * (x - 1) ** 2 - 0.05 * (b - 2) ** 2,
        grid=grid,
        limit=limit,
    )
    best = {
        (grid.runs[name].n, grid.runs[name].B) for name, run in runs.items() if 3 in run.rewards
    }
    assert (grid.generations[1], grid.batches[2]) in best
    assert len(best) < 6


def test_a_limit_below_the_first_steps_is_said() -> None:
    decision = ask(grid_of(RATES), {}, limit=0.5)
    assert decision.steps == ()
    assert "is less than any first step takes" in (decision.stop or "")
