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
from isosweep.analysis.bounds import AtLeastOne, Positive, Sentence
from isosweep.analysis.curves import Curve
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.entries import Entry, groups_but_for
from isosweep.analysis.statistics.intervals import Interval, upper_share
from isosweep.evidence import MIN_SEEDS

# Through two numbers of updates every line passes.
MIN_AMOUNTS = 3
_UPDATES = "recipe.num_iterations"
# Chance of points that lie off their line as much, below which they lie on none.
_MISFIT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Need:
    """What it takes to reach the threshold, against updates per batch of rollouts."""

    means: tuple[Positive, ...]
    """At each number of updates, geometric mean over seeds."""
    factor: Interval
    """By how much it changes with every doubling of the updates."""

    @property
    def words(self) -> str:
        """The factor with its interval."""
        return self.factor.words


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
    threshold: float | None
    """The reward to be reached; null where runs gain too little."""
    rollouts: Need | None
    """Rollouts that it takes; null where no law is identified."""
    compute: Need | None
    """Compute that it takes, in the budgets' unit; null likewise."""
    reason: Sentence | None
    """Why not."""

    @property
    def needs(self) -> tuple[Need | None, Need | None]:
        """Of rollouts, and of compute."""
        return self.rollouts, self.compute

    @property
    def words(self) -> str:
        """What was found, as a sentence's second half."""
        if self.rollouts is None or self.compute is None or self.threshold is None:
            return (
                f"what more updates on each rollout save is not identified: {str(self.reason)[:-1]}"
            )
        return (
            f"with every doubling of the updates on each rollout, a reward of "
            f"{self.threshold:.3f} takes {self.rollouts.words} times the rollouts and "
            f"{self.compute.words} times the compute"
        )


def updates_laws(
    entries: Sequence[Entry], margin: float, confidence: float
) -> tuple[UpdatesLaw, ...]:
    """One for every (n, B) of entries that differ in nothing but how many updates they make on a
    batch of rollouts, of which there are three numbers or more."""
    laws: list[UpdatesLaw] = []
    for group in groups_but_for(entries, _UPDATES):
        amounts = {int(str(e.settings[_UPDATES])): e for e in group if _UPDATES in e.settings}
        if len(amounts) < MIN_AMOUNTS:
            continue
        seen = {amount: _curves(amounts[amount]) for amount in sorted(amounts)}
        names = tuple(amounts[amount].name for amount in seen)
        for pair in sorted(set.intersection(*(set(of) for of in seen.values()))):
            by_seed = [of[pair] for of in seen.values()]
            seeds = sorted(set.intersection(*(set(of) for of in by_seed)))
            runs = [[of[seed] for seed in seeds] for of in by_seed]
            laws.append(_law(names, pair, tuple(seen), runs, margin, confidence))
    return tuple(laws)


def _curves(entry: Entry) -> dict[Pair, dict[int, Curve]]:
    """Curves with records, by (n, B) and seed."""
    found: dict[Pair, dict[int, Curve]] = {}
    for curve in entry.data.curves:
        if curve.steps.size:
            found.setdefault(Pair.of(curve.run), {})[curve.run.seed] = curve.until_collapse()
    return found


def _law(
    names: tuple[str, ...],
    pair: Pair,
    updates: tuple[int, ...],
    runs: Sequence[Sequence[Curve]],
    margin: float,
    confidence: float,
) -> UpdatesLaw:
    """Of curves (amounts, seeds), the amounts of `updates` ascending."""
    found = find_needs(updates, runs, margin, confidence)
    threshold, rollouts, compute = (None, None, None) if isinstance(found, str) else found
    return UpdatesLaw(
        entries=names,
        **pair._asdict(),
        updates=updates,
        threshold=threshold,
        rollouts=rollouts,
        compute=compute,
        reason=found if isinstance(found, str) else None,
    )


def find_needs(
    updates: Sequence[int], runs: Sequence[Sequence[Curve]], margin: float, confidence: float
) -> tuple[float, Need, Need] | str:
    """The threshold, and the rollouts and compute that reach it, of curves (amounts, seeds); or why
    there is no law, in words."""
    seeds = len(runs[0])
    if seeds < MIN_SEEDS:
        return f"it takes {MIN_SEEDS} seeds that every number of updates has; {seeds} are shared."
    curves = [
        (curve, np.asarray(isotonic_regression(curve.reward).x)) for of in runs for curve in of
    ]
    base = float(np.mean([rewards[0] for _, rewards in curves]))
    least = min(float(rewards[-1]) for _, rewards in curves)
    if least - base <= 2 * margin:
        return f"a run gains {max(0.0, least - base):.3f}; it takes more than {2 * margin:g}."
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
    if isinstance(of_rollouts, str):
        return of_rollouts
    return of_compute if isinstance(of_compute, str) else (threshold, of_rollouts, of_compute)


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


def find_need(updates: Sequence[int], needed: FloatArray, confidence: float) -> Need | str:
    """Of what was `needed` (amounts, seeds) with so many updates each; or why none, in words."""
    if (needed <= 0).any():
        return (
            "a run is at the threshold by its first record after step 0; more "
            "evaluation.records_per_decade would show when."
        )
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
        return "the seeds agree to the last digit."
    ratio = (off / (amounts - 2)) / (within / freedom)
    if special.fdtrc(amounts - 2, freedom, ratio) < _MISFIT:
        return "what it takes goes by no power of the updates: the points lie off every line."
    # What the line leaves over, of seeds and of amounts: a curve's bend counts as noise.
    freedom += amounts - 2
    error = math.sqrt((off + within) / freedom / seeds / float(x @ x))
    half = float(stats.t.ppf(upper_share(confidence), freedom)) * error
    return Need(
        means=tuple((2.0**mean).tolist()),
        factor=Interval(median=2.0**slope, low=2.0 ** (slope - half), high=2.0 ** (slope + half)),
    )
