"""Small policies: they learn, by GRPO's gradient, reproducibly; the stored truth is theirs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.simulation.policy import Runs, gradient, problems_of, train
from isosweep.analysis.simulation.policy_worlds import (
    BUDGETS,
    GENERATIONS,
    SETTINGS,
    best_log2_n,
    brute_force,
    policy_worlds,
    pooled,
    stored_truth,
)
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.truth import find_truth
from isosweep.plan.cells import Plan
from tests.analysis.simulation.conftest import nominal_plan
from tests.analysis.statistics.planted import BEST

CONFLICT = SETTINGS["conflict"]


def rollout_plan(*generations: int) -> Plan:
    return nominal_plan(
        "budget_unit=rollouts",
        f"budget={list(BUDGETS)}",
        f"grid.num_generations={list(generations)}",
        "grid.problems_per_batch=[4]",
        "grid.seeds=[0,1,2]",
        "grid.min_steps=1",
    )


def test_policies_learn_what_they_are_trained_on_reproducibly() -> None:
    runs = train(CONFLICT, 16, 8, 8192, 256)
    assert runs.reward.shape == (8, len(runs.compute))
    assert runs.reward[:, 0].mean() < 0.25
    assert runs.reward[:, -1].min() > 0.5
    assert runs.compute[-1] == 8192
    # Held-out problems are not learned as well.
    few = SETTINGS["few"]
    seen, unseen = (train(each, 16, 8, 8192, 256) for each in (replace(few, held_out=0), few))
    assert seen.reward[:, -1].mean() > unseen.reward[:, -1].mean() + 0.2
    first, again = (train(CONFLICT, 32, 4, 2048, 256) for _ in range(2))
    other = train(replace(CONFLICT, seed=9), 32, 4, 2048, 256)
    assert (first.reward == again.reward).all()
    assert not (first.reward == other.reward).any()


def test_of_a_large_group_the_gradient_is_the_expectation() -> None:
    """Sum over answers of p(a) (score - mean) / spread, at the policy's rates p."""
    setting = replace(CONFLICT, train=1, problems_per_batch=1)
    problems, _ = problems_of(setting)
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.5, (2, 48, 8)).astype(np.float32)
    found = gradient(setting, problems, weights, 10**7, rng)
    for run in range(2):
        logits = problems.features[0] @ weights[run]
        rates = np.exp(logits) / np.exp(logits).sum()
        mean = rates @ problems.scores[0]
        share = rates * (problems.scores[0] - mean) / np.sqrt(mean * (1 - mean))
        assert found[run] == pytest.approx(np.outer(problems.features[0], share), abs=2e-3)
    # A group of equal scores teaches nothing.
    never = replace(problems, scores=np.zeros_like(problems.scores))
    assert not gradient(setting, never, weights, 16, rng).any()


def test_the_stored_truth_is_that_of_its_pool() -> None:
    """One n of one world, trained anew: the others take a minute a world."""
    truth = stored_truth()["conflict"]
    column = GENERATIONS.index(256)
    rewards = pooled(CONFLICT, 256).at(np.array(BUDGETS))
    stored = np.array(truth.reward)[:, column]
    errors = np.array(truth.standard_error)[:, column]
    # Another machine rounds otherwise, and single runs then part.
    assert (np.abs(rewards.mean(axis=0) - stored) < 4 * errors + 1e-5).all()
    assert rewards.std(axis=0, ddof=1) / 20 == pytest.approx(errors, rel=0.3, abs=1e-4)


def test_the_best_n_is_the_top_of_a_parabola_and_stored_as_that() -> None:
    x = np.arange(2.0, 9.0)
    tops = np.array([[4.3], [6.8], [1.0], [12.0]])
    assert best_log2_n(x, -((x - tops) ** 2)) == pytest.approx([4.3, 6.8, 2.0, 8.0])
    assert set(stored_truth()) == set(SETTINGS)
    for truth in stored_truth().values():
        x = np.log2(np.array(truth.generations))
        assert best_log2_n(x, np.array(truth.reward)) == pytest.approx(truth.log2_n, abs=0.02)
        assert tuple(truth.budgets) == BUDGETS


def test_brute_force_is_what_the_file_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(setting: object, n: int) -> Runs:
        rng = np.random.default_rng(n)
        top = 0.6 - 0.01 * (np.log2(n) - 5) ** 2
        reward = top + rng.normal(0, 0.001, (400, len(BUDGETS)))
        return Runs(compute=np.array(BUDGETS), reward=reward)

    monkeypatch.setattr("isosweep.analysis.simulation.policy_worlds.pooled", pool)
    truth = brute_force(CONFLICT)
    assert truth.log2_n == pytest.approx([5.0] * len(BUDGETS), abs=0.05)


def test_growth_by_mechanism_is_growth_and_the_root_rule_ends_it() -> None:
    plan = rollout_plan(*GENERATIONS)
    truths = {name: find_truth(world, plan, BEST) for name, world in policy_worlds().items()}
    growing = {"conflict", "few", "floor", "collapse"}
    assert {name for name, truth in truths.items() if truth.verdict == "growing"} == growing
    assert truths["root"].verdict == "constant"
    rates = [truths[name].rate or 0.0 for name in sorted(growing)]
    assert min(rates) > 1


def test_a_policy_worlds_reward_is_the_pools_mean() -> None:
    world, truth = policy_worlds()["conflict"], stored_truth()["conflict"]
    grid = np.array(GENERATIONS, float)
    for budget, stored in zip(BUDGETS, truth.reward, strict=True):
        assert world.reward(np.array(budget), grid, 4.0) == pytest.approx(stored)
    # Between records rewards are interpolated.
    between = world.reward(np.array(np.sqrt(BUDGETS[0] * BUDGETS[1])), 16.0, 4.0)
    mean = np.array(truth.reward)[:2, GENERATIONS.index(16)].mean()
    assert float(between) == pytest.approx(mean, abs=1e-6)
    runs = Runs(compute=np.array([10.0, 1000.0]), reward=np.array([[0.2, 0.4]]))
    assert runs.at(np.array([1.0, 100.0, 1e6]))[0] == pytest.approx([0.2, 0.3, 0.4])


def test_a_simulated_sweep_draws_runs_of_the_pool_once() -> None:
    world, plan = policy_worlds()["conflict"], rollout_plan(256)
    at = [np.array(BUDGETS)] * len(plan.runs)
    pool = pooled(CONFLICT, 256).at(np.array(BUDGETS))
    drawn: Counter[int] = Counter()
    for curve in world.curves(plan.runs, at, np.random.default_rng(0)):
        assert curve is not None
        (place,) = np.flatnonzero((pool == curve).all(axis=1))
        drawn[int(place)] += 1
    assert len(drawn) == 3
    records = simulate_records(world, plan, 0, num_problems=400, samples_per_problem=16)
    for run in plan.runs:
        last = records[run.run_id][-1]
        assert last.compute.rollouts == BUDGETS[-1]
        assert last.reward == pytest.approx(pool[:, -1].mean(), abs=0.1)
