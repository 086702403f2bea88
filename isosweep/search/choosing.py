"""The steps of the greatest expected value per added compute, one after another.

Where a search starts, how steps are valued and chosen, and what may still be spent; what it aims at
and when it ends is its own (`frontier`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair
from isosweep.plan.cells import PlannedRun
from isosweep.search.belief import Belief, form_belief
from isosweep.search.candidates import Question, open_runs, start
from isosweep.search.steps import Decision, Step
from isosweep.search.value import STEP_COST, VERDICT, Worth, after, outcomes, worth

# Steps listed for mode=status.
_LISTED = 5


# Why a search may end before everything was trained, by what it believes and what is left; None
# while it goes on.
Ends = Callable[[Question, Belief, FloatArray, Sequence["Offer"]], str | None]


def decided(
    asked: Question, telling: Sequence[CellReading], by: Callable[[Question, Belief], Decision]
) -> Decision:
    """What the start asks for; then, with a belief formed of the `telling` readings, `by`."""
    first = start_steps(asked)
    if first:
        return affordable_of(asked, first)
    if not open_runs(asked.plan, asked.at):
        if asked.at.pending:
            return Decision(steps=(), considered=(), stop=None)
        if not any(asked.at.reached.values()):
            return ended("no run that could be trained is left, and no reward is known of any")
        return ended(_all_over(asked))
    belief = form_belief(asked.plan, telling, asked.analysis, asked.seed)
    if belief is None:
        return affordable_of(asked, _in_order(asked))
    return by(asked, belief)


def _all_over(asked: Question) -> str:
    """Why no run is left."""
    at, runs = asked.at, asked.plan.runs
    short = sum(r.run_id in at.closed and at.reached[r.run_id] < r.milestones[-1] for r in runs)
    if not short:
        return "every run of the plan has been trained as far as it goes"
    return (
        f"no run is left that could be trained further: {short} of {len(runs)} collapsed, diverged "
        "or failed on the way"
    )


def ended(reason: str, considered: tuple[Step, ...] = ()) -> Decision:
    """Nothing more is asked for."""
    return Decision(steps=(), considered=considered, stop=reason)


def start_steps(asked: Question) -> list[Step]:
    """What is left of where every search starts."""
    runs = {run.run_id: run for run in asked.plan.runs}
    wanted = start(asked.plan)
    return [
        step_to(asked, runs[name], to, 0.0, "where every search starts")
        for name, to in wanted.items()
        if asked.at.asked[name] < to and name not in asked.at.closed
    ]


def _in_order(asked: Question) -> list[Step]:
    """Without a spread between seeds no value is known: the runs that are left, cheapest first."""
    why = "no spread between seeds is known yet, so that runs are trained in order"
    steps = []
    for run in open_runs(asked.plan, asked.at):
        at = asked.at.reached[run.run_id]
        to = next(milestone for milestone in run.milestones if milestone > at)
        steps.append(step_to(asked, run, to, 0.0, why))
    return sorted(steps, key=lambda step: step.compute)


def step_to(asked: Question, run: PlannedRun, to: float, value: float, why: str) -> Step:
    """Train `run` up to `to`."""
    added = to - asked.at.asked[run.run_id]
    return Step(run_id=run.run_id, milestone=to, compute=added, value=value, why=why)


def affordable_of(asked: Question, steps: list[Step]) -> Decision:
    """The first of them that search.max_compute pays for."""
    kept, left = [], asked.affordable
    for step in steps[: asked.count]:
        if step.compute <= left:
            kept.append(step)
            left -= step.compute
    stop = None if kept or not steps else _spent(asked)
    return Decision(steps=tuple(kept), considered=tuple(steps[:_LISTED]), stop=stop)


def _spent(asked: Question) -> str:
    limit = f"search.max_compute={asked.config.max_compute:g} {asked.plan.budget_unit}"
    if not asked.at.committed:
        return f"{limit} is less than any first step takes"
    left = max(asked.affordable, 0)
    return f"{limit} is spent, but for {left:.3g}, less than any step that is left takes"


def chosen_steps(asked: Question, belief: Belief, ends: Ends) -> Decision:
    """The steps of the greatest value per compute, one after another."""
    runs = {run.run_id: run for run in asked.plan.runs}
    for name, to in asked.at.pending.items():
        belief = after(belief, Pair.of(runs[name]), asked.at.reached[name], to)
    rng = np.random.default_rng(asked.seed)
    drawn = outcomes(belief, rng)
    considered: tuple[Step, ...] = ()
    chosen: list[Step] = []
    at = asked.at
    left = asked.affordable
    while len(chosen) < asked.count:
        now = replace(asked, at=at)
        offers = [o for run in open_runs(asked.plan, at) for o in _of_run(now, belief, run, drawn)]
        fitting = [offer for offer in offers if offer.step.compute <= left]
        if not fitting:
            break
        ranked = sorted(fitting, key=lambda offer: -offer.rate(asked))
        considered = considered or tuple(offer.step for offer in ranked[:_LISTED])
        reason = ends(now, belief, drawn, fitting)
        if reason is not None:
            if chosen or at.pending:
                break
            return ended(reason, considered)
        best = ranked[0].step
        chosen.append(best)
        left -= best.compute
        run = runs[best.run_id]
        belief = after(belief, Pair.of(run), at.reached[best.run_id], best.milestone)
        at = replace(at, asked={**at.asked, best.run_id: best.milestone})
    stop = None if chosen or asked.at.pending else _spent(asked)
    return Decision(steps=tuple(chosen), considered=considered, stop=stop)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A step, and its worth in reward: by the n chosen, and by the verdict named."""

    step: Step
    loss: float
    verdict: float

    def rate(self, asked: Question) -> float:
        """Value per compute, with what starting costs."""
        whole = max(run.milestones[-1] for run in asked.plan.runs)
        return self.step.value / (self.step.compute + STEP_COST * whole)


def _of_run(asked: Question, belief: Belief, run: PlannedRun, drawn: FloatArray) -> list[Offer]:
    """A step to each of the run's further milestones."""
    at, pair = asked.at.reached[run.run_id], Pair.of(run)
    found = worth(belief, pair, at, run.milestones[-1], drawn)
    offers = []
    for k, place in enumerate(found.reached):
        to = belief.budgets[place]
        if to in run.milestones:
            loss, verdict = in_reward(asked, found, k)
            why = (
                f"may change which n is best, n = {run.num_generations} among them"
                if loss > verdict
                else "tells most about whether n* grows"
            )
            step = step_to(asked, run, to, loss + verdict, why)
            offers.append(Offer(step=step, loss=loss, verdict=verdict))
    return offers


def in_reward(asked: Question, found: Worth, k: int) -> tuple[float, float]:
    """Worth of a step in reward: by the n chosen, and by the verdict named."""
    return float(found.loss[k]), VERDICT * asked.analysis.margin * float(found.verdict[k])
