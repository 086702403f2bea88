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
from isosweep.search.candidates import Standings, Step, open_runs

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


def offers(
    belief: Belief, run: PlannedRun, reached: float, margin: float, drawn: FloatArray
) -> list[Step]:
    """Return the steps of a run to each of its milestones beyond `reached`."""
    found, steps = worth(belief, Pair.of(run), reached, run.milestones[-1], drawn), []
    for k, to in enumerate(belief.budgets[place] for place in found.reached):
        loss, named = float(found.loss[k]), VERDICT * margin * float(found.verdict[k])
        why = (
            f"may change which n is best, n = {run.num_generations} among them"
            if loss > named
            else "tells most about whether n* grows"
        )
        if to in run.milestones:
            step = Step(
                run_id=run.run_id,
                milestone=to,
                compute=to - reached,
                value=loss + named,
                why=why,
                loss=loss,
            )
            steps.append(step)
    return steps


def best_offers(
    plan: Plan, at: Standings, belief: Belief, margin: float, most: float, drawn: FloatArray
) -> Iterator[tuple[Standings, Belief, list[Step]]]:
    """Yield the steps that `most` compute pays for, best value per compute first, with what
    starting costs; the first is taken before the next are valued."""
    runs = {run.run_id: run for run in plan.runs}
    dearest = max(run.milestones[-1] for run in plan.runs)
    while True:
        fitting = [
            step
            for run in open_runs(plan, at)
            for step in offers(belief, run, at.reached[run.run_id], margin, drawn)
            if step.compute <= most
        ]
        if not fitting:
            return
        fitting.sort(key=lambda step: -step.value / (step.compute + STEP_COST * dearest))
        yield at, belief, fitting
        best = fitting[0]
        most -= best.compute
        belief = after(belief, Pair.of(runs[best.run_id]), at.reached[best.run_id], best.milestone)
        at = replace(at, asked={**at.asked, best.run_id: best.milestone})


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
) -> tuple[float, float]:
    """Return `Worth.loss` and `Worth.verdict` of all runs together, each a pair, where it stands
    and its last budget: what a search could still gain by all that is left."""
    surer = belief
    for pair, reached, last in left:
        surer = after(surer, pair, reached, last)
    places, budgets = belief.mean.size, len(belief.budgets)
    gone = belief.covariance - surer.covariance
    values, vectors = np.linalg.eigh(gone[:places, :places])
    kept = values > 1e-8 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    half = np.random.default_rng(0).standard_normal((len(drawn), root.shape[1])) @ root.T
    shift = np.concatenate([half, -half]).reshape(2 * len(drawn), budgets, -1)
    mean = np.where(belief.offered, belief.mean.reshape(budgets, -1), -np.inf)
    some = belief.offered.any(axis=1)
    gain = (mean + shift)[:, some].max(axis=2).sum(axis=1).mean() - mean[some].max(axis=1).sum()
    return max(0.0, float(gain)), float(np.trace(gone[places:, places:]))


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
