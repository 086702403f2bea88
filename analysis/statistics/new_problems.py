"""What another choice of held-out problems would change, and the verdict for new problems.

Means over the same problems are compared exactly as those problems go. On further problems of the
same kind each mean would differ, and two means together as far as the same problems are easy for
both. That variance component is the covariance of the problems' success rates over their number,
less what resampling the answers adds, which the seeds' spread has already. It falls as problems are
added, and not as seeds are.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, NotNegative
from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.readings import problem_rates
from isosweep.analysis.statistics.noise import Means, gather_means
from isosweep.analysis.statistics.verdict import Verdict, judge
from isosweep.config.analysis import AnalysisConfig

# The share of the seeds' variance that the choice of problems may add: intervals for further
# problems are then at most 12% wider than those for the held-out ones.
_ENOUGH = 0.25


@dataclass(frozen=True, kw_only=True)
class NewProblems:
    """What the records say of further problems of the same kind."""

    num_problems: AtLeastOne
    """Held-out problems."""
    verdict: Verdict
    """The verdict for further ones."""
    variance: NotNegative | None
    """Variance that the choice of the held-out problems adds to differences between n, over what
    seeds give them; None without a spread between seeds."""


def judge_new_problems(data: SweepData, config: AnalysisConfig) -> NewProblems | None:
    """None unless `data` is avg@k of two known problems or more, the same in all runs."""
    if data.metric != "avg" or not all(curve.counted for curve in data.curves):
        return None
    sizes = {curve.successes.shape[1] for curve in data.curves if curve.steps.size}
    based = any(curve.base_reward is not None for curve in data.curves)
    if not based or len(sizes) != 1 or max(sizes) < 2:
        return None
    means = variance = None
    if (own := gather_means(data.readings)) is not None:
        added = covariance_of_problems(own, data)
        means, variance = replace(own, noise=own.noise + added), added_variance(own, added)
    _, frontier, saturation = judge(data, config, means)
    if not frontier.budgets:
        return None
    return NewProblems(num_problems=max(sizes), verdict=saturation.verdict, variance=variance)


def covariance_of_problems(means: Means, data: SweepData) -> FloatArray:
    """Covariance of the means over choices of so many problems, two or more: (means, means)."""
    curves = {curve.run.run_id: curve for curve in data.curves}
    groups: dict[tuple[Pair, float], list[FloatArray]] = {}
    for reading in data.readings:
        if reading.reward is not None:
            cell = reading.cell
            rates = problem_rates(cell, curves[cell.run_id])
            groups.setdefault((Pair.of(cell), cell.budget), []).append(rates)
    # Means come by (n, B), then by budget.
    of_means = [np.stack(groups[key]) for key in sorted(groups)]  # each (seeds, problems)
    samples = max(curve.samples_per_problem for curve in data.curves)
    sampling = [
        0.0 if samples < 2 else float((each * (1 - each)).mean()) / (samples - 1) / len(each)
        for each in of_means
    ]
    rates = np.stack([each.mean(axis=0) for each in of_means])  # (means, problems)
    count = rates.shape[1]
    away = rates - rates.mean(axis=1, keepdims=True)
    between = away @ away.T / (count - 1) - np.diag(sampling)
    values, vectors = np.linalg.eigh(between)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T / count)


def added_variance(means: Means, added: FloatArray) -> float | None:
    """Variance that the choice of problems adds to differences between n (or B) at one budget, over
    what seeds give them, both summed over budgets: what all n share moves no n*. None where nothing
    is compared."""
    chosen = seeds = 0.0
    for budget in np.unique(means.budget):
        here = means.budget == budget
        centring = np.eye(here.sum()) - 1 / here.sum()
        chosen += float(np.trace(centring @ added[np.ix_(here, here)]))
        seeds += float(np.trace(centring @ means.noise[np.ix_(here, here)]))
    return chosen / seeds if seeds > 0 else None


def enough_problems(num_problems: int, added: float) -> int:
    """The smallest number of held-out problems whose choice adds at most a quarter of the seeds'
    variance, where that of `num_problems` adds `added` times as much as seeds.

    Given: variance = added * num_problems / number; solve variance = 1/4 for the number.
    """
    return math.ceil(num_problems * added / _ENOUGH)
