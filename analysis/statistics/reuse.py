"""How often problems may be trained on before the held-out reward pays for it.

At equal updates on equally many draws, fewer training problems are each drawn more often: so many
passes. "Scaling Behaviors of LLM RL Post-Training" (arXiv 2509.25300, figure 7b) finds up to about
25 passes harmless, and 100 harmful. No form of the loss is assumed but that it does not fall as
reuse grows: mean rewards are drawn with the noise that seeds show, each draw is made monotone by
isotonic regression, and its loss, against the fewest passes, crosses the margin between two numbers
of passes that were run. Where between them is not measured: the loss sets in at once in some draws,
anywhere there; in the others it goes with a power of the way in log passes, whose logarithm is
standard normal.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Share
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

_PROBLEMS = "task.num_train_problems"
_DRAWS = 4000
# Share of draws in which the loss sets in at once. Of cliffs 81 to 86% are held so, and of smooth
# losses, which this makes wider, 92 to 98% (`benchmarks/laws.py`).
_CLIFF = 0.25


@dataclass(frozen=True, kw_only=True)
class Onset:
    """Where reuse begins to cost more than the margin, in passes over the training problems."""

    harmless: Positive
    """Up to there the loss is within the margin: the lower end of the interval, or the most passes
    that were run."""
    harmful: Positive | None
    """Beyond there it is more: the upper end; null where it may be so nowhere."""
    median: Positive | None
    """Where it begins; null where it rather does nowhere."""
    probability: Share
    """That it begins within what was run."""
    rewards: tuple[Interval, ...]
    """Reward at every number of passes, where it does not rise with reuse."""


@dataclass(frozen=True, kw_only=True)
class ReuseLaw:
    """What reuse costs one (n, B) at the largest budget that all have reached."""

    entries: tuple[str, ...]
    """Entries, by passes, ascending."""
    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    budget: Positive
    """In the budgets' unit."""
    margin: Positive
    """Loss too small to matter. Reward."""
    passes: tuple[Positive, ...]
    """How often each training problem was drawn by then, ascending."""
    means: tuple[float, ...]
    """Measured reward, mean over seeds; runs that fell count."""
    found: Onset | Unidentified
    """Where reuse begins to cost, or why that is not identified."""


# Of one (n, B) at one budget, by seed: passes over the training problems, and the reward.
_Runs = dict[int, tuple[float, float]]


def _seen(entry: Entry, problems: float) -> dict[Pair, dict[float, _Runs]]:
    """Every run of an entry at every budget that it was read at; what is left of one that fell."""
    curves = {curve.run.run_id: curve for curve in entry.data.curves}
    found: dict[Pair, dict[float, _Runs]] = {}
    for reading in entry.data.readings:
        cell, reward = reading.cell, reading.fallen if reading.reward is None else reading.reward
        if reward is not None:
            curve = curves[cell.run_id]
            batches = float(np.interp(cell.budget, curve.compute, curve.generations))
            passes = batches * cell.problems_per_batch / problems
            runs = found.setdefault(Pair.of(cell), {}).setdefault(cell.budget, {})
            runs[cell.seed] = passes, reward
    return found


def _law(group: Group[Pair, int, dict[float, _Runs]]) -> ReuseLaw | None:
    shared = set.intersection(*(set(of) for of in group.seen))
    if not shared:
        return None
    runs = [of[max(shared)] for of in group.seen]
    seeds = sorted(set.intersection(*(set(of) for of in runs)))
    passes = np.array([np.mean([at for at, _ in of.values()]) for of in runs])
    rewards = np.array([[of[seed][1] for seed in seeds] for of in runs])
    return ReuseLaw(
        **group.labels,
        budget=max(shared),
        margin=group.margin,
        passes=tuple(passes.tolist()),
        means=tuple(math.fsum(r for _, r in of.values()) / len(of) for of in runs),
        found=find_onset(passes, rewards, group.margin, group.confidence),
    )


# The most problems have the fewest passes.
REUSE = Across(
    varied=(_PROBLEMS,),
    amount=lambda entry: number_set(entry, _PROBLEMS),
    read=_seen,
    fit=_law,
    descending=True,
)


def find_onset(
    passes: FloatArray, rewards: FloatArray, margin: float, confidence: float
) -> Onset | Unidentified:
    """Of `passes` (amounts,), ascending, and `rewards` (amounts, seeds); or why none."""
    amounts, seeds = rewards.shape
    if seeds < MIN_SEEDS:
        return Unidentified(kind="few seeds", found=seeds, least=MIN_SEEDS)
    mean = rewards.mean(axis=1)
    # What a seed does to all amounts alike is no difference between them.
    rest = rewards - mean[:, None] - rewards.mean(axis=0) + rewards.mean()
    freedom = (amounts - 1) * (seeds - 1)
    error = math.sqrt(float((rest**2).sum()) / freedom / seeds)
    if error < 1e-9:
        return Unidentified(kind="no spread")
    # Chance of rewards that rise with reuse as much.
    rising = float(((mean + _isotonic(-mean[None])[0]) ** 2).sum()) / error**2
    if special.fdtrc(amounts - 1, freedom, rising / (amounts - 1)) < MISFIT:
        return Unidentified(kind="no law")
    rng = np.random.default_rng(0)
    scale = error * np.sqrt(freedom / rng.chisquare(freedom, (_DRAWS, 1)))
    falling = -_isotonic(-mean + scale * rng.standard_normal((_DRAWS, amounts)))
    begins = _crossings(np.log2(passes), falling[:, :1] - falling, margin, rng)
    shares = 1 - upper_share(confidence), 0.5, upper_share(confidence)
    # Not interpolated: a draw without a crossing begins nowhere.
    low, median, high = np.quantile(begins, shares, method="inverted_cdf").tolist()
    return Onset(
        harmless=min(low, float(passes[-1])),
        harmful=high if math.isfinite(high) else None,
        median=median if math.isfinite(median) else None,
        probability=float(np.isfinite(begins).mean()),
        rewards=Interval.centrals(falling, confidence),
    )


def _crossings(
    log2_passes: FloatArray, loss: FloatArray, margin: float, rng: np.random.Generator
) -> FloatArray:
    """Passes at which each loss (draws, amounts) crosses the margin: (draws,); inf where none."""
    over = loss > margin
    crosses = over.any(axis=1)
    after = np.where(crosses, over.argmax(axis=1), 1)
    rows = np.arange(len(loss))
    below, above = loss[rows, after - 1], loss[rows, after]
    way = np.where(crosses, (margin - below) / np.where(crosses, above - below, 1.0), 0.5)
    way = way ** np.exp(rng.standard_normal(len(loss)))
    way = np.where(rng.random(len(loss)) < _CLIFF, rng.random(len(loss)), way)
    at = log2_passes[after - 1] + way * (log2_passes[after] - log2_passes[after - 1])
    return np.asarray(np.where(crosses, 2.0**at, np.inf))


def _isotonic(values: FloatArray) -> FloatArray:
    """Least squares that do not fall along each row: (draws, amounts).

    By the largest, over where a stretch begins, of the smallest mean over where it ends.
    """
    draws, amounts = values.shape
    sums = np.concatenate([np.zeros((draws, 1)), values.cumsum(axis=1)], axis=1)
    fitted = np.full(values.shape, -np.inf)
    for begin in range(amounts):
        lengths = np.arange(1, amounts - begin + 1)
        means = (sums[:, begin + 1 :] - sums[:, begin : begin + 1]) / lengths
        # Of stretches that reach at least as far as each place.
        least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        fitted[:, begin:] = np.maximum(fitted[:, begin:], least)
    return fitted
