"""What training did to single problems: which it solves now, and which it has unlearned.

Easy problems gain by sharpening (answers that were right sometimes become right always), hard
ones by coverage (some answer becomes right), and problems interfere: a gain on one can be another
one's loss (IsoCompute Playbook, arXiv 2603.12151).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import IntArray
from isosweep.analysis.bounds import AtLeastOne, Share
from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.heldout import changes, score

# One-sided chance of a normal variable beyond `isosweep.heldout.CHANGED` standard errors.
CHANCE = 0.0228


@dataclass(frozen=True, kw_only=True)
class ProblemChange:
    """Problems of one (n, B) at the largest budget against the base model, seeds together.

    All are shares of the held-out problems. Clearly: beyond noise (`isosweep.heldout.changes`).
    Rises and falls include noise, so that gained - lost is the change of the reward.
    """

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    problems_per_batch: AtLeastOne
    """Problems per batch, B."""
    num_seeds: AtLeastOne
    """Runs put together."""
    none: Share
    """No sample right."""
    all: Share
    """Every sample right."""
    better: Share
    """Success rate clearly above the base model's."""
    worse: Share
    """Clearly below."""
    gained: Share
    """Summed rises of all problems' rates, per problem."""
    lost: Share
    """Summed falls."""


def problem_changes(data: SweepData, frontier: Frontier) -> tuple[ProblemChange, ...]:
    """One for each n at its best B at the largest budget that was read; () without records."""
    return tuple(_change(*each) for each in _with_base(data, frontier))


def _with_base(data: SweepData, frontier: Frontier) -> Iterator[tuple[list[Curve], float]]:
    """The runs of every n that have a step 0, and the budget; none where their problems differ, or
    are not known."""
    for curves, budget in _at_best(data, frontier):
        based = [curve for curve in curves if curve.base_reward is not None]
        # Runs whose records were left out may have other problems: they cannot be put together.
        sizes = {curve.successes.shape[1] for curve in based}
        if len(sizes) == 1 and 0 not in sizes:
            yield based, budget


def _at_best(data: SweepData, frontier: Frontier) -> Iterator[tuple[list[Curve], float]]:
    """The runs of every n at its best B at the largest budget, and that: those that have come
    there, and had not collapsed."""
    for at in frontier.budgets[-1:]:
        here = (reading for reading in data.readings if reading.cell.budget == at.budget)
        read = {reading.cell.run_id for reading in here if reading.reward is not None}
        curves = [curve.until_collapse() for curve in data.curves if curve.run.run_id in read]
        for choice in at.choices:
            pair = Pair.of(choice.cell)
            yield [curve for curve in curves if Pair.of(curve.run) == pair], at.budget


def _change(curves: list[Curve], budget: float) -> ProblemChange:
    samples = sum(curve.samples_per_problem for curve in curves)
    successes = _summed(curves, budget)
    # The base model's samples are the same in every run: they count once.
    base_samples = curves[0].samples_per_problem
    changed = changes(successes, samples, curves[0].successes[0], base_samples)
    return ProblemChange(
        **Pair.of(curves[0].run)._asdict(),
        num_seeds=len(curves),
        none=float((successes == 0).mean()),
        all=float((successes == samples).mean()),
        better=float(changed.better.mean()),
        worse=float(changed.worse.mean()),
        gained=float(np.maximum(changed.gain, 0).mean()),
        lost=float(np.maximum(-changed.gain, 0).mean()),
    )


def _at(curve: Curve, budget: float) -> IntArray:
    """Successes of every problem at the record nearest to `budget`: (problems,)."""
    return np.asarray(curve.successes[int(np.argmin(np.abs(curve.compute - budget)))])


def _summed(curves: list[Curve], budget: float) -> IntArray:
    """Successes of every problem, over the runs together: (problems,)."""
    return np.asarray(np.sum([_at(curve, budget) for curve in curves], axis=0))


@dataclass(frozen=True, kw_only=True)
class ScoresOfN:
    """avg@k, best@k (any sample right) and worst@k (all right), mean over runs of one (n, B)."""

    num_generations: int
    problems_per_batch: int
    num_seeds: int
    samples_per_problem: int
    avg: float
    best: float
    worst: float


def scores_by_n(data: SweepData, frontier: Frontier) -> tuple[ScoresOfN, ...]:
    """One for each n at its best B, at the largest budget, over the runs that were read there."""
    return tuple(
        _scores([(_at(curve, budget), curve.samples_per_problem) for curve in curves], curves[0])
        for curves, budget in _at_best(data, frontier)
        if len({curve.samples_per_problem for curve in curves}) == 1 and curves[0].counted
    )


def base_scores(data: SweepData) -> ScoresOfN | None:
    """The base model's, from the first run with a record at step 0; it is the same in all."""
    for curve in data.curves:
        if curve.base_reward is not None and curve.counted:
            return _scores([(curve.successes[0], curve.samples_per_problem)], curve)
    return None


def _scores(rows: list[tuple[IntArray, int]], of: Curve) -> ScoresOfN:
    """`rows`: successes (problems,) and samples per problem of each run; `of`: one of the runs.

    Scored run by run: best@k over the samples of several runs together would be another k.
    """
    scores = [score(successes, samples) for successes, samples in rows]
    return ScoresOfN(
        **Pair.of(of.run)._asdict(),
        num_seeds=len(rows),
        samples_per_problem=rows[0][1],
        avg=float(np.mean([each.avg for each in scores])),
        best=float(np.mean([each.best for each in scores])),
        worst=float(np.mean([each.worst for each in scores])),
    )
