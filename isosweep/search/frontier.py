"""Decides which runs to train next, and how far: `search=frontier`.

A pure function of what has been read: the same readings, pending steps and seed give the same
decision, so that a search can be stopped and gone on with anywhere. It starts with two seeds of
every (n, B) to a milestone that a tenth of the grid's compute pays for; whatever else was trained
counts as well. From then on each step is the one of the greatest expected value per added compute
(`value`), with those before it and those pending taken into account.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.verdict import judge
from isosweep.evidence import MIN_GENERATIONS
from isosweep.plan.cells import PlannedRun
from isosweep.search.belief import VERDICTS, Belief, form_belief
from isosweep.search.candidates import (
    LISTED,
    Decision,
    Question,
    Standings,
    Step,
    open_runs,
    start,
)
from isosweep.search.value import VERDICT, after, best_offers, outcomes, worth_of_all

# A search ends where the whole grid's compute, spent at the best rate left, would be worth less
# than so many margins; once it has spent more than this share of the grid, the more the more it
# has: what is not decided with that a whole grid may leave open, too.
_WORTH, _SHARE = 2.5, 0.2
# Seeds of three n at the largest budget before the analysis is asked for its verdict, which has to
# be the belief's: of many looks at growing data one would claim by chance what the belief does not
# share.
_SEEDS = 2
# An n that is the judged or the best one at a large budget with this chance, and its neighbours,
# have to be run there before a verdict that the belief shares can be the analysis's own.
_LIKELY = 0.1
# Of such runs not so many are asked for at once as there are places: the first few may be enough.
_AT_ONCE = 4
# Budgets of a plan from which on decisions rest on these alone: the smaller ones that its runs are
# read at as well say little more, and take most of the time.
_ENOUGH_BUDGETS = 5


def decide(asked: Question) -> Decision:
    """The next steps, or why there is none. A second or two, more with many (n, B)."""
    first = _start_steps(asked)
    if first:
        return _paid_for(asked, first)
    if not open_runs(asked.plan, asked.at):
        return Decision(stop=None if asked.at.pending else _all_over(asked))
    own = asked.plan.budgets
    few = len(own) < _ENOUGH_BUDGETS
    readings = [each for each in asked.data.readings if few or each.cell.budget in own]
    belief = form_belief(asked.plan, readings, asked.analysis, asked.seed)
    if belief is None:
        return _paid_for(asked, _in_order(asked))
    chances = dict(zip(VERDICTS, belief.chances.tolist(), strict=True))
    return replace(_next(asked, belief), chances=chances, loss=float(belief.losses.max()))


def _all_over(asked: Question) -> str:
    """Why no run is left."""
    at, runs = asked.at, asked.plan.runs
    if not any(at.reached.values()):
        return "no run that could be trained is left, and no reward is known of any"
    short = sum(r.run_id in at.closed and at.reached[r.run_id] < r.milestones[-1] for r in runs)
    if not short:
        return "every run of the plan has been trained as far as it goes"
    return (
        f"no run is left that could be trained further: {short} of {len(runs)} collapsed, diverged "
        "or failed on the way"
    )


def _start_steps(asked: Question) -> list[Step]:
    """What is left of where every search starts."""
    runs = {run.run_id: run for run in asked.plan.runs}
    return [
        _step_to(asked, runs[name], to, "where every search starts")
        for name, to in start(asked.plan).items()
        if asked.at.asked[name] < to and name not in asked.at.closed
    ]


def _in_order(asked: Question) -> list[Step]:
    """Without a spread between seeds no value is known: the runs that are left, cheapest first."""
    why = "no spread between seeds is known yet, so that runs are trained in order"
    steps = [
        _step_to(asked, run, min(to for to in run.milestones if to > at), why)
        for run in open_runs(asked.plan, asked.at)
        for at in [asked.at.reached[run.run_id]]
    ]
    return sorted(steps, key=lambda step: step.compute)


def _step_to(asked: Question, run: PlannedRun, to: float, why: str) -> Step:
    """Train `run` up to `to`, whatever that is worth."""
    added = to - asked.at.asked[run.run_id]
    return Step(run_id=run.run_id, milestone=to, compute=added, value=0.0, why=why)


def _paid_for(asked: Question, steps: list[Step]) -> Decision:
    """The first of them that search.max_compute pays for."""
    kept = asked.pay_for(steps[: asked.count])
    stop = None if kept or not steps else _spent(asked)
    return Decision(steps=tuple(kept), considered=tuple(steps[:LISTED]), stop=stop)


def _spent(asked: Question) -> str:
    limit = f"search.max_compute={asked.config.max_compute:g} {asked.plan.budget_unit}"
    if not asked.at.committed:
        return f"{limit} is less than any first step takes"
    left = max(asked.affordable, 0)
    return f"{limit} is spent, but for {left:.3g}, less than any step that is left takes"


def _next(asked: Question, belief: Belief) -> Decision:
    sure = belief.sure and belief.losses.max() <= asked.analysis.margin
    reason = _settled(asked, belief) if sure else None
    if reason is not None:
        return Decision(stop=reason)
    likely = _likely(belief)
    missing = _lacking(asked, likely) if sure else []
    if not missing:
        decision = _best_steps(asked, belief)
        if decision.stop is None:
            return decision
        # Before it ends the largest budget is to be read at least.
        missing = [] if sure else _lacking(asked, likely[:MIN_GENERATIONS])
        if not missing:
            return decision
    return _paid_for(asked, missing[:_AT_ONCE])


def _best_steps(asked: Question, belief: Belief) -> Decision:
    """The steps of the greatest value per compute, one after another."""
    at, margin = asked.at, asked.analysis.margin
    runs = {run.run_id: run for run in asked.plan.runs}
    for name, to in at.pending.items():
        belief = after(belief, Pair.of(runs[name]), at.reached[name], to)
    drawn = outcomes(belief, np.random.default_rng(asked.seed))
    turns = best_offers(asked.plan, at, belief, margin, asked.affordable, drawn)
    considered: tuple[Step, ...] = ()
    chosen: list[Step] = []
    for now, surer, offers in islice(turns, asked.count):
        considered = considered or tuple(offers[:LISTED])
        reason = _too_little(asked, now, surer, drawn, offers)
        if reason is not None:
            if chosen or at.pending:
                break
            return Decision(considered=considered, stop=reason)
        chosen.append(offers[0])
    stop = None if chosen or at.pending else _spent(asked)
    return Decision(steps=tuple(chosen), considered=considered, stop=stop)


def _settled(asked: Question, belief: Belief) -> str | None:
    """Why nothing more has to be known, or None; from what was read, and a belief that is sure."""
    margin = asked.analysis.margin
    last = Counter(
        reading.cell.num_generations
        for reading in asked.data.readings
        if reading.cell.budget == asked.plan.budgets[-1] and reading.reward is not None
    )
    known = sum(seeds >= _SEEDS for seeds in last.values())
    if known < MIN_GENERATIONS:
        return None
    verdict = judge(asked.data, asked.analysis)[2].verdict
    if not belief.shares(verdict):
        return None
    return (
        f"the verdict is decided ({verdict}, chance {belief.chances.max():.0%}), and at no budget "
        f"is more than {margin:g} of reward lost by the n that seems best (at most "
        f"{belief.losses.max():.2g} is expected)"
    )


def _likely(belief: Belief) -> list[int]:
    """The n that may be the judged one at the largest budgets, and their neighbours, likeliest
    first."""
    grid = sorted(belief.ends)
    chance = [belief.ends[n] for n in grid]
    near = {n: max(chance[max(0, k - 1) : k + 2]) for k, n in enumerate(grid)}
    found = [n for n in grid if near[n] >= _LIKELY]
    return sorted(found, key=lambda n: (-near[n], -belief.ends[n]))


def _lacking(asked: Question, generations: list[int]) -> list[Step]:
    """Runs to the largest budget, until each of these n has `_SEEDS` seeds there."""
    last = asked.plan.budgets[-1]
    done = Counter(
        run.num_generations for run in asked.plan.runs if asked.at.asked[run.run_id] >= last
    )
    why = "what is said of the largest budget rests on it"
    steps = []
    for n in generations:
        runs = [
            run
            for run in asked.plan.runs
            if run.num_generations == n
            and run.milestones[-1] == last
            and run.run_id not in asked.at.closed
            and asked.at.asked[run.run_id] < last
        ]
        runs.sort(key=lambda run: (-asked.at.asked[run.run_id], run.seed))
        steps += [_step_to(asked, run, last, why) for run in runs[: max(0, _SEEDS - done[n])]]
    return steps


def _too_little(
    asked: Question, at: Standings, belief: Belief, drawn: FloatArray, offers: Sequence[Step]
) -> str | None:
    """Why nothing that is left is worth its compute, or None.

    Where no budget is expected to lose more than the margin, a better n counts for nothing here.
    """
    margin = asked.analysis.margin
    lost = belief.losses.max() > margin
    whole = sum(run.milestones[-1] for run in asked.plan.runs)
    wanted = _WORTH * max(1.0, at.committed / whole / _SHARE)
    least = wanted * margin / whole
    if any(o.value - (not lost) * o.loss >= least * o.compute for o in offers):
        return None
    # Where noise is large one run may say nothing, and all of them together something.
    left = [
        (Pair.of(run), at.asked[run.run_id], run.milestones[-1])
        for run in asked.plan.runs
        if run.run_id not in at.closed and at.asked[run.run_id] < run.milestones[-1]
    ]
    loss, verdict = worth_of_all(belief, left, drawn)
    compute = sum(last - reached for _, reached, last in left)
    if VERDICT * margin * verdict + lost * loss >= least * compute:
        return None
    return (
        "for the whole grid's compute, what is left would be worth less than "
        f"{wanted * margin:.2g} of reward ({wanted:.2g} x analysis.margin)"
    )
