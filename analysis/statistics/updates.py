"""What more updates on each rollout save in rollouts, and cost in compute.

After "Compute-Optimal Scaling for Value-Based Deep RL" (arXiv 2508.14881) and "Value-Based Deep RL
Scales Predictably" (2502.04327): the first crossing of a threshold by every run's reward, made
monotone by isotonic regression, against updates to data. ln D = a - beta ln U for the rollouts D
that reach it with U updates per batch of rollouts, and alike for compute; a is each seed's own,
since a seed draws the same problems whatever U is. Intervals are Student's, of what the line
leaves over, where those papers draw bootstraps over eight and more seeds: two or three are too few
to be drawn from. One threshold is taken: half of what the run that gains least has gained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats
from scipy.optimize import isotonic_regression

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive
from isosweep.analysis.curves import Curve
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.across import (
    MISFIT,
    Across,
    Group,
    Unidentified,
    number_set,
)
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.intervals import Interval, upper_share
from isosweep.evidence import MIN_SEEDS

_UPDATES = "recipe.num_iterations"


@dataclass(frozen=True, kw_only=True)
class Need:
    """What it takes to reach the threshold, against updates per batch of rollouts."""

    means: tuple[Positive, ...]
    """At each number of updates, geometric mean over seeds."""
    factor: Interval
    """By how much it changes with every doubling of the updates."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What it takes to reach one reward."""

    threshold: float
    """The reward."""
    rollouts: Need
    """Rollouts that it takes."""
    compute: Need
    """Compute that it takes, in the budgets' unit."""


@dataclass(frozen=True, kw_only=True)
class UpdatesLaw:
    """Updates to data of one (n, B)."""

    entries: tuple[str, ...]
    """Entries, by updates, ascending."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    updates: tuple[AtLeastOne, ...]
    """Updates on every batch of rollouts, ascending."""
    found: Needs | Unidentified
    """What they save and cost, or why that is not identified."""


def _curves(entry: Entry, _: float) -> dict[Pair, dict[int, Curve]]:
    """Curves with records, by (n, B) and seed."""
    found: dict[Pair, dict[int, Curve]] = {}
    for curve in entry.data.curves:
        if curve.steps.size:
            found.setdefault(Pair.of(curve.run), {})[curve.run.seed] = curve.until_collapse()
    return found


def _law(group: Group[dict[int, Curve]]) -> UpdatesLaw:
    updates = tuple(int(amount) for amount in group.amounts)
    seeds = sorted(set.intersection(*(set(of) for of in group.seen)))
    runs = [[of[seed] for seed in seeds] for of in group.seen]
    return UpdatesLaw(
        **group.labels,
        updates=updates,
        found=find_needs(updates, runs, group.margin, group.confidence),
    )


UPDATES = Across(
    varied=_UPDATES, amount=lambda entry: number_set(entry, _UPDATES), read=_curves, fit=_law
)


def find_needs(
    updates: Sequence[int], runs: Sequence[Sequence[Curve]], margin: float, confidence: float
) -> Needs | Unidentified:
    """What it takes, of curves (amounts, seeds); or why there is no law."""
    seeds = len(runs[0])
    if seeds < MIN_SEEDS:
        return Unidentified(kind="few seeds", found=seeds, least=MIN_SEEDS)
    curves = [
        (curve, np.asarray(isotonic_regression(curve.reward).x)) for of in runs for curve in of
    ]
    base = float(np.mean([rewards[0] for _, rewards in curves]))
    least = min(float(rewards[-1]) for _, rewards in curves)
    if least - base <= 2 * margin:
        return Unidentified(kind="little gain", found=max(0.0, least - base), least=2 * margin)
    threshold = (base + least) / 2
    rollouts = [
        _crossing(_batch(curve) * curve.generations.astype(float), rewards, threshold)
        for curve, rewards in curves
    ]
    compute = [_crossing(curve.compute, rewards, threshold) for curve, rewards in curves]
    of_rollouts, of_compute = (
        find_need(updates, np.array(needed).reshape(-1, seeds), confidence)
        for needed in (rollouts, compute)
    )
    if isinstance(of_rollouts, Unidentified):
        return of_rollouts
    if isinstance(of_compute, Unidentified):
        return of_compute
    return Needs(threshold=threshold, rollouts=of_rollouts, compute=of_compute)


def _batch(curve: Curve) -> int:
    return curve.run.num_generations * curve.run.problems_per_batch


def _crossing(spent: FloatArray, rewards: FloatArray, threshold: float) -> float:
    """What was spent when rewards that do not fall first reached the threshold; 0 where that was
    by the first record after step 0, between which and the start nothing is known."""
    after = int(np.argmax(rewards >= threshold))
    if after <= 1:
        return 0.0
    way = (threshold - rewards[after - 1]) / (rewards[after] - rewards[after - 1])
    return float(spent[after - 1] + way * (spent[after] - spent[after - 1]))


def find_need(updates: Sequence[int], needed: FloatArray, confidence: float) -> Need | Unidentified:
    """Of what was `needed` (amounts, seeds) with so many updates each; or why none."""
    if (needed <= 0).any():
        return Unidentified(kind="at once")
    amounts, seeds = needed.shape
    logs, x = np.log2(needed), np.log2(np.array(updates, dtype=np.float64))
    x -= x.mean()
    # A seed's own level is no matter of the updates.
    mean, own = logs.mean(axis=1), logs - logs.mean(axis=0)
    slope = float(x @ mean / (x @ x))
    level = own.mean(axis=1)
    off = float(seeds * ((level - slope * x) ** 2).sum())
    within = float(((own - level[:, None]) ** 2).sum())
    freedom = (amounts - 1) * (seeds - 1)
    if within < 1e-12:
        return Unidentified(kind="no spread")
    ratio = (off / (amounts - 2)) / (within / freedom)
    if special.fdtrc(amounts - 2, freedom, ratio) < MISFIT:
        return Unidentified(kind="no law")
    # What the line leaves over, of seeds and of amounts: a curve's bend counts as noise.
    freedom += amounts - 2
    error = math.sqrt((off + within) / freedom / seeds / float(x @ x))
    half = float(stats.t.ppf(upper_share(confidence), freedom)) * error
    return Need(
        means=tuple((2.0**mean).tolist()),
        factor=Interval(median=2.0**slope, low=2.0 ** (slope - half), high=2.0 ** (slope + half)),
    )
