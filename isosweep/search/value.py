"""What training a run further is worth: the knowledge gradient of n*(C), and of its verdict.

A reading y = H f + noise moves the believed mean by C_fH (C_HH + R)^-1 (y - H f), which before it
is known is Normal with mean 0. The loss of choosing an (n, B) is E[max f] - max E[f]; the first
term no reading changes in expectation, so the drop expected of the second is

    E[max(mean + moved)] - max(mean)

at every budget. What n*(C) does is a set of indicators in the same state; the chance that two draws
of it differ drops by the sum of their squared movements. A run that goes on says something of the
change since its last reading: its luck so far is known as well as the mean is, and its noise is
conditional on it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.pairs import Pair
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.belief import Belief
from isosweep.search.candidates import Standings, open_runs

# Reward, in margins, that it is worth to name what n*(C) does rightly and not wrongly.
VERDICT = 5.0
# Compute that starting, loading and evaluating cost a step, as a share of a whole run.
STEP_COST = 0.01
# Outcomes that a reading's worth is averaged over, with their opposites.
_OUTCOMES = 32


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Of training a run on, to each further budget: (budgets to go,) each.

    `reached`: index of the budget; `loss`: expected drop of the loss of choosing n, summed over all
    budgets, in reward; `verdict`: expected drop of the chance that two draws of it differ.
    """

    reached: IntArray
    loss: FloatArray
    verdict: FloatArray


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A run to train from `reached` to `milestone`, which adds `compute`; in the plan's unit.

    `loss`: reward that it is expected to save, summed over budgets; `verdict`: expected rise of the
    chance that two draws of the verdict agree. `pair`: the (n, B) that it is valued by; the nearest
    that something is believed of, where its own lies beyond all.
    """

    run: PlannedRun
    reached: float
    milestone: float
    compute: float
    loss: float
    verdict: float
    pair: Pair

    def named(self, margin: float) -> float:
        """What naming the verdict rightly is worth, in reward."""
        return VERDICT * margin * self.verdict

    def value(self, margin: float) -> float:
        """What it is worth in all, in reward."""
        return self.loss + self.named(margin)

    @property
    def like(self) -> int | None:
        """The n that it is valued by; None where that is its own."""
        n = self.pair.num_generations
        return None if n == self.run.num_generations else n


def offers(belief: Belief, run: PlannedRun, reached: float, drawn: FloatArray) -> list[Offer]:
    """The run to each of its milestones beyond `reached`."""
    pair, weight = Pair.of(run), 1.0
    if pair not in belief.pairs:
        alike = [p for p in belief.pairs if p.problems_per_batch == pair.problems_per_batch]
        n = pair.num_generations
        pair = min(alike or belief.pairs, key=lambda p: abs(p.num_generations - n))
        if pair.num_generations != n:
            # An n beyond the grid matters as far as the best one may lie there.
            weight = belief.ends.get(pair.num_generations, 0.0)
    found = worth(belief, pair, reached, run.milestones[-1], drawn)
    return [
        Offer(
            run=run,
            reached=reached,
            milestone=to,
            compute=to - reached,
            loss=weight * float(found.loss[k]),
            verdict=weight * float(found.verdict[k]),
            pair=pair,
        )
        for k, to in enumerate(belief.budgets[place] for place in found.reached)
        if to in run.milestones
    ]


def best_offers(
    plan: Plan,
    at: Standings,
    belief: Belief,
    margin: float,
    most: float,
    drawn: FloatArray,
    least: float = 0.0,
) -> Iterator[tuple[Standings, Belief, list[Offer]]]:
    """What `most` compute pays for and is worth `least`, by value per compute, with what starting
    costs; the first offer is taken before the next are made."""
    dearest = max(run.milestones[-1] for run in plan.runs)
    while True:
        fitting = [
            offer
            for run in open_runs(plan, at)
            for offer in offers(belief, run, at.reached[run.run_id], drawn)
            if offer.compute <= most and offer.value(margin) >= least
        ]
        if not fitting:
            return
        fitting.sort(key=lambda o: -o.value(margin) / (o.compute + STEP_COST * dearest))
        yield at, belief, fitting
        best = fitting[0]
        most -= best.compute
        belief = after(belief, best.pair, best.reached, best.milestone)
        at = replace(at, asked={**at.asked, best.run.run_id: best.milestone})


def outcomes(belief: Belief, rng: np.random.Generator) -> FloatArray:
    """Standard normal outcomes of readings at all budgets: (outcomes, budgets)."""
    drawn = rng.standard_normal((_OUTCOMES, len(belief.budgets)))
    return np.concatenate([drawn, -drawn])


def worth(belief: Belief, pair: Pair, reached: float, last: float, drawn: FloatArray) -> Worth:
    """Worth of training one run of `pair` from `reached` (0: not begun) to budgets up to `last`."""
    ahead, moved = _movement(belief, pair, reached, last)
    places, budgets = belief.mean.size, len(belief.budgets)
    mean = np.where(belief.offered, belief.mean.reshape(budgets, -1), -np.inf)
    kept = belief.offered.any(axis=1)
    now = float(mean[kept].max(axis=1).sum())
    shift = np.zeros((len(drawn), places))
    gains = []
    for step in range(len(ahead)):
        shift += drawn[:, [step]] * moved[:places, step]
        after = mean + shift.reshape(len(drawn), budgets, -1)
        gains.append(float(after[:, kept].max(axis=2).sum(axis=1).mean()) - now)
    verdict = np.cumsum((moved[places:] ** 2).sum(axis=0))
    return Worth(reached=ahead, loss=np.maximum(gains, 0.0), verdict=verdict)


def after(belief: Belief, pair: Pair, reached: float, last: float) -> Belief:
    """The belief once a run has gone on to `last`, whatever it shows: surer, of the same mean."""
    _, moved = _movement(belief, pair, reached, last)
    return replace(belief, covariance=belief.covariance - moved @ moved.T)


def worth_of_all(
    belief: Belief, left: Sequence[tuple[Pair, float, float]], drawn: FloatArray
) -> Worth:
    """Worth of all runs together, each a pair, where it stands and its last budget: what a search
    could still gain by all that is left."""
    budgets = np.array(belief.budgets)
    surer = belief
    for pair, reached, last in left:
        surer = after(surer, pair, reached, last)
    places = belief.mean.size
    gone = belief.covariance - surer.covariance
    root = _root(gone[:places, :places])
    rng = np.random.default_rng(0)
    half = rng.standard_normal((len(drawn), root.shape[1])) @ root.T
    shift = np.concatenate([half, -half]).reshape(2 * len(drawn), len(budgets), -1)
    mean = np.where(belief.offered, belief.mean.reshape(len(budgets), -1), -np.inf)
    kept = belief.offered.any(axis=1)
    gain = (mean + shift)[:, kept].max(axis=2).sum(axis=1).mean() - mean[kept].max(axis=1).sum()
    verdict = float(np.trace(gone[places:, places:]))
    return Worth(
        reached=np.array([len(budgets) - 1]),
        loss=np.maximum([float(gain)], 0.0),
        verdict=np.array([verdict]),
    )


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-8 * values[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _movement(
    belief: Belief, pair: Pair, reached: float, last: float
) -> tuple[IntArray, FloatArray]:
    """Budgets ahead, and how one standard deviation of each further reading, given those before,
    moves the state: (ahead,), (places + verdicts, ahead)."""
    budgets = np.array(belief.budgets)
    here = np.flatnonzero(belief.offered[:, belief.pairs.index(pair)])
    behind, ahead = (
        here[budgets[here] <= reached],
        here[(budgets[here] > reached) & (budgets[here] <= last)],
    )
    noise = belief.noise[belief.pairs.index(pair)]
    known, new = belief.place(behind, pair), belief.place(ahead, pair)
    cross = belief.covariance[:, new]
    own = noise[np.ix_(ahead, ahead)]
    spread = cross[new]
    if behind.size:
        follows = linalg.solve(
            noise[np.ix_(behind, behind)], noise[np.ix_(behind, ahead)], assume_a="pos"
        ).T  # (ahead, behind)
        own = own - follows @ noise[np.ix_(behind, ahead)]
        cross = cross - belief.covariance[:, known] @ follows.T
        spread = cross[new] - follows @ cross[known]
    total = spread + own
    jitter = 1e-9 * np.trace(total) / max(len(total), 1)
    root = np.linalg.cholesky((total + total.T) / 2 + jitter * np.eye(len(total)))
    return ahead, linalg.solve_triangular(root, cross.T, lower=True).T
