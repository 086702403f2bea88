"""What is believed of every planned (n, B) at every budget, and of the verdict, as one Gaussian.

Draws of the reward surface are an ensemble: their mean and covariance, over all places and over
the indicators of what n*(C) does in each draw, carry what a further run would change in one step of
linear algebra (an ensemble Kalman update). Weighing the draws anew by fantasised readings instead
would leave one draw with all the weight once a few runs are pending.

The surface knows nothing of how the level of all n together goes on beyond the last budget that a
run has reached: there it gets a random walk with drift, so that a single run says something. What n
changes has there the spread that the surface's kernels allow: unseen places are wide, not low.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from isosweep.analysis.arrays import BoolArray, FloatArray, IntArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair
from isosweep.analysis.readings import LEAST_STEPS
from isosweep.analysis.statistics.collapses import with_fallen
from isosweep.analysis.statistics.growth import COURSES, courses, end_places
from isosweep.analysis.statistics.noise import Means, gather_means
from isosweep.analysis.statistics.surface import Surface, fit_surface, smallest_within
from isosweep.config.analysis import AnalysisConfig
from isosweep.costs.steps import steps_for
from isosweep.plan.cells import Plan

# What the judged n may do over the budgets (`AnalysisConfig.quantity`), and that n may not matter.
VERDICTS = (*COURSES, "n does not matter")
# Chance of its likeliest verdict from which on a belief is sure of it.
SURE = 0.85
# Of the rise of the level in the last decade that was seen, what is expected of the next, and the
# spread around it in a decade.
_DRIFT, _WALK = 0.7, 0.5
# Share of a run's luck at a budget that nobody has reached which is not its luck at the last one.
_FRESH = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """Mean and covariance of rewards at all places, and of the verdict.

    A place is budget x pair, in that order: places = budgets * pairs. `offered`: (budgets, pairs),
    where a run can be read. `mean`: (places,); `covariance`: (places + verdicts, places +
    verdicts); `chances`: (verdicts,) of each of `VERDICTS`. `noise`: (pairs, budgets, budgets)
    covariance of one run's rewards, without what all runs of a seed share. `losses`: (budgets,)
    expected at each by choosing what seems best. `ends`: chance that an n, of those planned, is the
    judged or the best one at some of the largest budgets, by n.
    """

    budgets: tuple[float, ...]
    pairs: tuple[Pair, ...]
    offered: BoolArray
    mean: FloatArray
    covariance: FloatArray
    chances: FloatArray
    noise: FloatArray
    losses: FloatArray
    ends: dict[int, float]

    @property
    def sure(self) -> bool:
        """Whether it has a verdict."""
        return float(self.chances.max()) >= SURE

    def shares(self, verdict: str) -> bool:
        """Whether it is sure of the verdict that an analysis has come to.

        `steady` is the analysis's alone: constant, with the beginning open. A verdict that is
        probable is none yet: no belief shares it, and a search goes on.
        """
        likeliest = VERDICTS[int(self.chances.argmax())]
        agrees = verdict == likeliest or (verdict, likeliest) == ("steady", "constant")
        return agrees and self.sure

    def place(self, budgets: IntArray, pair: Pair) -> IntArray:
        """Places of a pair at budgets, by index: (budgets,)."""
        return np.asarray(budgets * len(self.pairs) + self.pairs.index(pair))


def form_belief(
    plan: Plan, readings: Sequence[CellReading], config: AnalysisConfig, seed: int
) -> Belief | None:
    """What `readings` say of `plan`; None where no two seeds can be compared."""
    means = gather_means(readings)
    if means is None:
        return None
    budgets = tuple(sorted({*means.budgets, *plan.budgets}))
    seen = np.isin(np.array(budgets), means.budgets)
    with threadpool_limits(limits=1, user_api="blas"):
        surface = with_fallen(fit_surface(_at_budgets(means, budgets), seed), readings)
        rng = np.random.default_rng(seed)
        surface = replace(surface, draws=_with_levels(surface, means, seen, rng))
        return _gaussian(plan, surface, means, seen, config)


def _at_budgets(means: Means, budgets: tuple[float, ...]) -> Means:
    """The means, among further budgets at which none is known."""
    place = np.searchsorted(np.array(budgets), np.array(means.budgets))
    return replace(means, budgets=budgets, budget=place[means.budget])


def _with_levels(
    surface: Surface, means: Means, seen: BoolArray, rng: np.random.Generator
) -> FloatArray:
    """The draws, with the mean over n and B of budgets not seen going on from those that were."""
    draws, decades = surface.draws.copy(), np.log10(surface.budgets)
    level = draws.mean(axis=(2, 3))  # (draws, budgets)
    known = np.flatnonzero(seen)
    last, first = known[-1], known[0]
    # Over a decade, or what of it was seen.
    back = known[np.argmin(np.abs(decades[known[:-1]] - decades[last] + 1))] if last > first else 0
    span = decades[last] - decades[back]
    rate = (level[:, last] - level[:, back]) / span if span > 0 else np.zeros(len(level))
    spread = abs(float(rate.mean())) * _WALK + float(means.seed_sd[-1])
    for k in np.flatnonzero(~seen):
        if k > last:
            step = decades[k] - decades[k - 1]
            drawn = rng.standard_normal(len(level)) * spread * math.sqrt(step)
            wanted = level[:, k - 1] + _DRIFT * rate * step + drawn
        else:
            around = known[np.argmin(np.abs(known - k))]
            wanted = level[:, around] + rate * (decades[k] - decades[around])
        draws[:, k] += (wanted - level[:, k])[:, None, None]
        level[:, k] = wanted
    return np.asarray(draws)


def _gaussian(
    plan: Plan, surface: Surface, means: Means, seen: BoolArray, config: AnalysisConfig
) -> Belief:
    pairs = tuple(sorted({Pair.of(run) for run in plan.runs}))
    offered = _offered(plan, surface.budgets, pairs)
    rows = [surface.column(pair.num_generations) for pair in pairs]
    several = len(surface.batches) > 1
    columns = [
        surface.batches.index(pair.problems_per_batch)
        if several and pair.problems_per_batch in surface.batches
        else 0
        for pair in pairs
    ]
    rewards = surface.draws[:, :, rows, columns]  # (draws, budgets, pairs)
    verdicts, ends = _verdicts(surface, pairs, offered, rewards, config)
    named = verdicts[:, None] == np.arange(len(VERDICTS))
    state = np.concatenate([rewards.reshape(len(rewards), -1), named], axis=1)
    mean = state.mean(axis=0)
    away = state - mean
    places = mean.size - len(VERDICTS)
    # Where no pair can be read nothing is lost by choosing.
    some: BoolArray = np.asarray(offered.any(axis=1))
    best = np.where(offered, rewards, -np.inf)[:, some]
    losses = np.zeros(len(some))
    losses[some] = best.max(axis=2).mean(axis=0) - best.mean(axis=0).max(axis=1)
    return Belief(
        budgets=surface.budgets,
        pairs=pairs,
        offered=offered,
        mean=mean[:places],
        covariance=away.T @ away / (len(state) - 1),
        chances=mean[places:],
        noise=_noise(means, seen, pairs),
        losses=losses,
        ends=ends,
    )


def _offered(plan: Plan, budgets: tuple[float, ...], pairs: tuple[Pair, ...]) -> BoolArray:
    """Where a run of each pair can be read: (budgets, pairs)."""
    found = np.zeros((len(budgets), len(pairs)), dtype=bool)
    # An analysed plan has further budgets, with cells of the runs alone that were read there.
    known, own = np.array(budgets), {at for run in plan.runs for at in run.milestones}
    for cell in plan.cells:
        q = pairs.index(Pair.of(cell))
        # Between the plan's own budgets a run is read where it has taken a few steps.
        steps = steps_for(known, cell.cost_of_step, 1)
        between = np.array([budget not in own for budget in budgets])
        found[:, q] |= (known == cell.budget) | (
            between & (known < cell.budget) & (steps >= LEAST_STEPS)
        )
    return found


def _verdicts(
    surface: Surface,
    pairs: tuple[Pair, ...],
    offered: BoolArray,
    rewards: FloatArray,
    config: AnalysisConfig,
) -> tuple[IntArray, dict[int, float]]:
    """What the judged n does in each draw, as places in `VERDICTS`: (draws,); and `Belief.ends`."""
    kept: BoolArray = np.asarray(offered.any(axis=1))
    log2_n = np.log2([pair.num_generations for pair in pairs])
    ranges = [(log2_n[row].min(), log2_n[row].max()) for row in offered[kept]]
    axis = surface.log2_n
    inside = np.array([(axis >= low - 1e-9) & (axis <= high + 1e-9) for low, high in ranges])
    by_n = np.where(inside, surface.draws.max(axis=3)[:, kept], -np.inf)
    judged = smallest_within(by_n, axis, config.tolerance)
    grid = np.unique(log2_n)
    edge = float(grid[-2:].mean()) if len(grid) > 1 else math.inf
    budgets = tuple(b for b, keep in zip(surface.budgets, kept.tolist(), strict=True) if keep)
    found = courses(judged, budgets, edge, config.growth_bound)
    cost = _costs(pairs, offered, rewards).max(axis=(1, 2))
    # Whether the judged n is censored depends on where the best one lies, too.
    both = np.stack([judged, smallest_within(by_n, axis, 0.0)], axis=2)
    last = both[:, end_places(budgets)] if len(budgets) > 1 else both
    near = grid[np.abs(last.reshape(len(last), -1, 1) - grid).argmin(axis=2)]
    ends = {round(2.0**n): float((near == n).any(axis=1).mean()) for n in grid.tolist()}
    return np.where(cost <= config.margin, VERDICTS.index("n does not matter"), found), ends


def _costs(pairs: tuple[Pair, ...], offered: BoolArray, rewards: FloatArray) -> FloatArray:
    """What each n loses against the best, at its best B: (draws, budgets, n); 0 if not offered."""
    generations = sorted({pair.num_generations for pair in pairs})
    reward = np.where(offered, rewards, -np.inf)
    of_n = np.array([pair.num_generations for pair in pairs])
    by_n = np.stack([reward[:, :, of_n == n].max(axis=2) for n in generations], axis=2)
    best = np.maximum(by_n.max(axis=2, keepdims=True), -1e9)
    return np.where(np.isfinite(by_n), best - by_n, 0.0)


def _noise(means: Means, seen: BoolArray, pairs: tuple[Pair, ...]) -> FloatArray:
    """Covariance over all budgets of one run's rewards, of every pair: (pairs, budgets, budgets).

    At a budget that was not seen a run's luck is that at the nearest one before, all but a part.
    """
    known = np.flatnonzero(seen)
    nearest = np.maximum(np.searchsorted(known, np.arange(len(seen)), side="right") - 1, 0)
    shared = means.covariance[np.ix_(nearest, nearest)]
    fresh = np.where(seen, 0.0, _FRESH)
    kept = np.sqrt(1 - fresh)
    shared = shared * np.outer(kept, kept) + np.diag(fresh * np.diag(shared))
    own = means.spread / means.seed_sd[means.budget]
    several = bool(means.log2_batch.any())
    found = []
    for n, B in pairs:
        log2_batch = math.log2(B) if several else 0.0
        away = np.abs(means.log2_n - math.log2(n)) + 1e-3 * np.abs(means.log2_batch - log2_batch)
        mine = np.flatnonzero(away <= away.min() + 1e-9)
        at = mine[np.abs(means.budget[mine] - nearest[:, None]).argmin(axis=1)]
        found.append(shared * np.outer(own[at], own[at]))
    return (1 - means.common) * np.array(found)
