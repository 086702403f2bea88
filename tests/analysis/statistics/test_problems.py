"""What another choice of held-out problems would change is known, where it matters."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.new_problems import covariance_of_problems
from isosweep.analysis.statistics.noise import Means
from isosweep.compute import Compute
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from isosweep.store.records import Record
from tests.analysis.statistics.planted import means_of
from tests.analysis.sweeps import COST, make_plan

SAMPLES = 8
PLAN = make_plan(generations=(2, 4, 8), seeds=(0, 1, 2, 3), budgets=(2e6, 4e6))
# (problems, n): chances of success.
Chances = Callable[[int, np.random.Generator], "np.ndarray[tuple[int, int], np.dtype[np.float64]]"]


def some_gain(count: int, rng: np.random.Generator) -> np.ndarray:
    """Problems of two kinds: one is solved with small n, the other with large n."""
    kind = rng.random(count)[:, None] < 0.5
    return np.where(kind, [0.8, 0.5, 0.2], [0.2, 0.5, 0.8])


def alike(count: int, rng: np.random.Generator) -> np.ndarray:
    """Problems that differ, and on all of which n does the same."""
    return rng.uniform(0.1, 0.9, count)[:, None] + np.zeros(3)


def sweep(chances: Chances, problems: int, seed: int, plan: Plan = PLAN) -> SweepData:
    rng = np.random.default_rng(seed)
    of_problem = chances(problems, rng)
    column = {n: i for i, n in enumerate(sorted({run.num_generations for run in plan.runs}))}
    records = {}
    for run in plan.runs:
        step_cost = run.num_generations * run.problems_per_batch * COST
        steps = [0, *(round(budget / step_cost) for budget in run.milestones)]
        luck = rng.normal(0, 0.01)
        chance = np.clip(of_problem[:, column[run.num_generations]] + luck, 0, 1)
        records[run.run_id] = tuple(
            Record(
                step=step,
                compute=Compute(generations=step, rollouts=1, training_flops=step * step_cost),
                successes=tuple(rng.binomial(SAMPLES, chance).tolist()),
                samples_per_problem=SAMPLES,
                completion_tokens=1.0,
                unix_time=0.0,
            )
            for step in steps
        )
    return simulated_sweep(plan, records)


def contrast(means: Means) -> tuple[float, float]:
    """Difference of the rewards of n = 8 and n = 2 at the last budget, and its standard error."""
    last = means.budget == means.budget.max()
    (low,) = np.flatnonzero(last & (means.log2_n == 1))
    (high,) = np.flatnonzero(last & (means.log2_n == 3))
    noise = means.noise
    variance = noise[low, low] + noise[high, high] - 2 * noise[low, high]
    return float(means.reward[high] - means.reward[low]), float(np.sqrt(variance))


def both(chances: Chances, problems: int, seed: int) -> tuple[float, float, float]:
    """A contrast, its error on these problems, and on new ones."""
    data = sweep(chances, problems, seed)
    means = means_of(list(data.readings))
    difference, here = contrast(means)
    elsewhere = replace(means, noise=means.noise + covariance_of_problems(means, data))
    return difference, here, contrast(elsewhere)[1]


def test_the_error_is_that_of_other_problems_where_they_disagree_on_n() -> None:
    found = np.array([both(some_gain, 100, seed) for seed in range(40)])
    spread = found[:, 0].std(ddof=1)
    # True difference: none. What these problems say is far surer than what it is worth elsewhere.
    assert found[:, 1].mean() < 0.4 * spread
    assert found[:, 2].mean() == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize(
    # Problems that are all the same: others of their kind change nothing, and resampled answers are
    # not counted twice.
    ("chances", "most"),
    [(alike, 1.5), (lambda count, rng: np.full((count, 3), 0.5), 1.2)],
)
def test_where_problems_agree_on_n_hardly_anything_is_added(chances: Chances, most: float) -> None:
    found = np.array([both(chances, 100, seed) for seed in range(10)])
    assert (found[:, 2] >= found[:, 1]).all()
    assert found[:, 2].mean() < most * found[:, 1].mean()


def test_where_runs_have_other_problems_nothing_is_said_of_further_ones() -> None:
    config = AnalysisConfig()
    data = sweep(some_gain, 60, 0)
    new = find(data, config, new_problems=True).new_problems
    assert new is not None
    assert new.num_problems == 60
    # By its own step 0 each run has other problems of a difficulty.
    counts = enumerate(data.curves, 50)
    curves = tuple(replace(curve, successes=curve.successes[:, :own]) for own, curve in counts)
    data = replace(data, curves=curves)
    assert find(data, config, new_problems=True).new_problems is None
