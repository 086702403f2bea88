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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Positive, Sentence, Share
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.entries import Entry, groups_but_for
from isosweep.analysis.statistics.intervals import Interval, upper_share
from isosweep.evidence import MIN_SEEDS
from isosweep.words.numbers import short

# Two numbers of passes show a difference, and not where it begins.
MIN_AMOUNTS = 3
_PROBLEMS = "task.num_train_problems"
_DRAWS = 4000
# Chance of rewards that rise with reuse as much below which they do rise.
_MISFIT = 1e-3
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
    onset: Onset | None
    """Null where it is not identified."""
    reason: Sentence | None
    """Why not."""

    @property
    def words(self) -> str:
        """What was found, as a sentence's second half."""
        if self.onset is None:
            return f"what reuse costs is not identified: {str(self.reason)[:-1]}"
        last, cost = self.passes[-1], f"cost more than {self.margin:g} of reward"
        harmless, harmful = self.onset.harmless, self.onset.harmful
        if harmful is not None:
            begins = "" if self.onset.median is None else f"{short(self.onset.median)} "
            return f"reuse begins to {cost} at {begins}[{short(harmless)}, {short(harmful)}] passes"
        if harmless == last:
            return f"no reuse that was run, up to {short(last)} passes, begins to {cost}"
        return (
            f"up to {short(harmless)} passes reuse does not {cost}; that it does within "
            f"{short(last)} has a probability of {self.onset.probability:.0%}"
        )


def reuse_laws(entries: Sequence[Entry], margin: float, confidence: float) -> tuple[ReuseLaw, ...]:
    """One for every (n, B) of entries that differ in nothing but their number of training problems,
    of which there are three or more."""
    laws: list[ReuseLaw] = []
    for group in groups_but_for(entries, _PROBLEMS):
        numbers = {int(str(e.settings[_PROBLEMS])): e for e in group if _PROBLEMS in e.settings}
        if len(numbers) < MIN_AMOUNTS:
            continue
        seen = {number: _seen(numbers[number], number) for number in sorted(numbers, reverse=True)}
        names = tuple(numbers[number].name for number in seen)
        shared = set.intersection(*(set(at) for at in seen.values()))
        last: dict[Pair, float] = {}
        for pair, budget in shared:
            last[pair] = max(budget, last.get(pair, 0.0))
        for pair, budget in sorted(last.items()):
            runs = [at[pair, budget] for at in seen.values()]
            laws.append(_law(names, pair, budget, runs, margin, confidence))
    return tuple(laws)


# Of one (n, B) at one budget, by seed: passes over the training problems, and the reward.
_Runs = dict[int, tuple[float, float]]


def _seen(entry: Entry, problems: int) -> dict[tuple[Pair, float], _Runs]:
    """Every run of an entry at every budget that it was read at; what is left of one that fell."""
    curves = {curve.run.run_id: curve for curve in entry.data.curves}
    found: dict[tuple[Pair, float], _Runs] = {}
    for reading in entry.data.readings:
        cell, reward = reading.cell, reading.fallen if reading.reward is None else reading.reward
        if reward is not None:
            curve = curves[cell.run_id]
            batches = float(np.interp(cell.budget, curve.compute, curve.generations))
            passes = batches * cell.problems_per_batch / problems
            found.setdefault((Pair.of(cell), cell.budget), {})[cell.seed] = passes, reward
    return found


def _law(
    names: tuple[str, ...],
    pair: Pair,
    budget: float,
    runs: Sequence[_Runs],
    margin: float,
    confidence: float,
) -> ReuseLaw:
    """Of the runs of each entry, by passes, ascending."""
    seeds = sorted(set.intersection(*(set(of) for of in runs)))
    passes = np.array([np.mean([at for at, _ in of.values()]) for of in runs])
    rewards = np.array([[of[seed][1] for seed in seeds] for of in runs])
    onset = find_onset(passes, rewards, margin, confidence)
    reason = onset if isinstance(onset, str) else None
    return ReuseLaw(
        entries=names,
        **pair._asdict(),
        budget=budget,
        margin=margin,
        passes=tuple(passes.tolist()),
        means=tuple(math.fsum(r for _, r in of.values()) / len(of) for of in runs),
        onset=None if isinstance(onset, str) else onset,
        reason=reason,
    )


def find_onset(
    passes: FloatArray, rewards: FloatArray, margin: float, confidence: float, seed: int = 0
) -> Onset | str:
    """Of `passes` (amounts,), ascending, and `rewards` (amounts, seeds); or why none, in words."""
    amounts, seeds = rewards.shape
    if seeds < MIN_SEEDS:
        return f"it takes {MIN_SEEDS} seeds that every number of problems has; {seeds} are shared."
    mean = rewards.mean(axis=1)
    # What a seed does to all amounts alike is no difference between them.
    rest = rewards - mean[:, None] - rewards.mean(axis=0) + rewards.mean()
    freedom = (amounts - 1) * (seeds - 1)
    error = math.sqrt(float((rest**2).sum()) / freedom / seeds)
    if error < 1e-9:
        return "the seeds agree to the last digit."
    rising = float(((mean + _isotonic(-mean[None])[0]) ** 2).sum()) / error**2
    if special.fdtrc(amounts - 1, freedom, rising / (amounts - 1)) < _MISFIT:
        return "the rewards rise as reuse grows."
    rng = np.random.default_rng(seed)
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
