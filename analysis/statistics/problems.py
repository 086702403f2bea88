"""What another choice of held-out problems would change.

Means over the same problems are compared exactly as those problems go. On further problems of the
same kind each mean would differ, and two means together as far as the same problems are easy for
both: the covariance of the problems' success rates over their number, less what resampling the
answers adds, which the seeds' spread has already. It falls as problems are added, and not as
seeds are.
"""

import math
from dataclasses import replace

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData, problem_rates
from isosweep.analysis.statistics.means import Means

# The share of the seeds' variance that the choice of problems may add: intervals for further
# problems are then at most 12% wider than those for the held-out ones.
_ENOUGH = 0.25


def on_new_problems(means: Means, data: SweepData) -> Means:
    """The means with the noise of the choice of problems added to that of the seeds.

    Unchanged with fewer than two problems.
    """
    added = _of_the_choice(means, data)
    return means if added is None else replace(means, noise=means.noise + added)


def added_variance(means: Means, data: SweepData) -> float | None:
    """Variance that the choice of problems adds to differences between n (or B) at one budget, over
    what seeds give them, both summed over budgets: what all n share moves no n*. None with fewer
    than two problems, and where nothing is compared."""
    added = _of_the_choice(means, data)
    if added is None:
        return None
    chosen = seeds = 0.0
    for budget in np.unique(means.budget):
        here = means.budget == budget
        apart = np.eye(here.sum()) - 1 / here.sum()
        chosen += float(np.trace(apart @ added[np.ix_(here, here)]))
        seeds += float(np.trace(apart @ means.noise[np.ix_(here, here)]))
    return chosen / seeds if seeds > 0 else None


def enough_problems(num_problems: int, added: float) -> int:
    """The smallest number of held-out problems whose choice adds at most a quarter of the seeds'
    variance, where that of `num_problems` adds `added` times as much as seeds.

    Given: variance = added * num_problems / number; solve variance = 1/4 for the number.
    """
    return math.ceil(num_problems * added / _ENOUGH)


def _of_the_choice(means: Means, data: SweepData) -> FloatArray | None:
    """Covariance of the means over choices of so many problems: (means, means)."""
    rates, sampling = _rates(means, data)
    count = rates.shape[1]
    if count < 2:
        return None
    away = rates - rates.mean(axis=1, keepdims=True)
    between = away @ away.T / (count - 1) - np.diag(sampling)
    values, vectors = np.linalg.eigh(between)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T / count)


def _rates(means: Means, data: SweepData) -> tuple[FloatArray, FloatArray]:
    """Of every mean: each problem's rate, mean over seeds, (means, problems); and the mean over
    problems of its variance by resampled answers, (means,), 0 with one sample a problem."""
    one_batch = not means.log2_batch.any()

    def key(n: int, B: int, budget: float) -> tuple[int, int, float]:
        return n, 0 if one_batch else B, budget

    curves = {curve.run.run_id: curve for curve in data.curves}
    groups: dict[tuple[int, int, float], list[FloatArray]] = {}
    samples = max(curve.samples_per_problem for curve in data.curves)
    for reading in data.readings:
        cell = reading.cell
        if reading.reward is not None:
            at = key(cell.num_generations, cell.problems_per_batch, cell.budget)
            groups.setdefault(at, []).append(problem_rates(cell, curves[cell.run_id]))
    of_means = [
        np.stack(groups[key(round(2**n), round(2**B), means.budgets[k])])
        for n, B, k in zip(means.log2_n, means.log2_batch, means.budget, strict=True)
    ]  # each (seeds, problems)
    sampling = [
        0.0 if samples < 2 else float((each * (1 - each)).mean()) / (samples - 1) / len(each)
        for each in of_means
    ]
    return np.stack([each.mean(axis=0) for each in of_means]), np.array(sampling)
