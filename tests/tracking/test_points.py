"""What is read from a run's files for a view, and how runs and metrics are named there."""

from dataclasses import replace

import pytest

from isosweep.pricing import Pricing
from isosweep.store.records import Evaluation
from isosweep.tracking.points import budget_metric, heldout_points, run_name
from tests.tracking.sweeps import make_plan, record


def test_further_sets_and_dollars_are_metrics_of_their_own() -> None:
    own = Evaluation(successes=(2, 0), samples_per_problem=2, completion_tokens=3.0)
    compute = replace(record(20).compute, device_seconds=1800.0)
    records = [
        replace(record(0), seconds=200.0),
        replace(record(20), compute=compute, seconds=250.0, sets={"hard": own}),
    ]
    priced = replace(make_plan(), pricing=Pricing(dollars_per_hour=3.0))
    plain, shown = (
        [point.values for point in heldout_points(records, plan, devices=2)]
        for plan in (make_plan(), priced)
    )
    # Of two devices, an evaluation takes both.
    taken = {"train_min": 15.0, "eval_min": 7.5}
    taken |= dict.fromkeys((f"sets/hard/{s}" for s in ("avg_at_k", "best_at_k", "worst_at_k")), 0.5)
    assert plain[1].items() >= taken.items()
    dollars = (pytest.approx(1 / 3, rel=1e-3), 2.25)
    assert shown == [{**own, "dollars": cost} for own, cost in zip(plain, dollars, strict=True)]


def test_names_sort_by_n_and_rewards_by_budget() -> None:
    plan = make_plan(10)
    names = ["all of it", *(run_name(run, plan) for run in plan.runs)]
    assert names == sorted(names)
    assert (names[1], names[-1]) == ("n=0002 seed=0", "n=1024 seed=0")
    other = replace(plan.runs[0], problems_per_batch=16, axes={"recipe.beta": 0.1})
    several = replace(plan, runs=(*plan.runs, other))
    assert run_name(plan.runs[0], several) == "n=0002 B=04 seed=0"
    assert run_name(other, several) == "n=0002 B=16 seed=0 beta=0.1"
    rewards = [budget_metric(budget, range(1, 11)) for budget in range(1, 11)]
    assert rewards == sorted(rewards)
    assert budget_metric(1.62e11, [8.1e10, 1.62e11]) == "reward_2_1.62e11"
