"""Decides which runs to train next, and how far: `search=frontier`.

A pure function of what has been read: the same readings, pending steps and seed give the same
decision, so that a search can be stopped and gone on with anywhere. It starts with two seeds of
every (n, B) to a milestone that a tenth of the grid's compute pays for; whatever else was trained
counts as well. From then on each step is the one of the greatest expected value per added compute
(`value`), with those before it and those pending taken into account.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.evidence import MIN_GENERATIONS
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.judgement import judge
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.search import SearchConfig
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.belief import SURE, VERDICTS, Belief, form_belief
from isosweep.search.candidates import Standings, carried, open_runs, standings, start
from isosweep.search.steps import Decision, Step
from isosweep.search.value import STEP_COST, VERDICT, Worth, after, outcomes, worth, worth_of_all

# A search ends where the whole grid's compute, spent at the best rate left, would be worth less
# than so many margins.
_WORTH = 2.5
# Seeds of three n at the largest budget before the analysis is asked for its verdict, which has to
# be the belief's: of many looks at growing data one would claim by chance what the belief does not
# share. And the most seeds that are asked for to that end.
_SEEDS, _MOST_SEEDS = 2, 3
# An n that is the best at one of the largest budgets with this chance, and its neighbours, have to
# be run there before a verdict that the belief shares can be the analysis's own.
_LIKELY = 0.05
# Of such runs not so many are asked for at once as there are places: the first few may be enough.
_AT_ONCE = 4
# Budgets of a plan from which on decisions rest on these alone: the smaller ones that its runs are
# read at as well say little more, and take most of the time.
_ENOUGH_BUDGETS = 5
# Steps listed for mode=status.
_LISTED = 5


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is decided about; `data` with runs that fell carried on."""

    plan: Plan
    data: SweepData
    at: Standings
    config: SearchConfig
    analysis: AnalysisConfig
    count: int
    seed: int

    @property
    def affordable(self) -> float:
        """Compute that may still be asked for."""
        most = self.config.max_compute
        return np.inf if most is None else most - self.at.committed


def decide(
    plan: Plan,
    data: SweepData,
    pending: Mapping[str, float],
    config: SearchConfig,
    analysis_config: AnalysisConfig,
    count: int,
    seed: int,
) -> Decision:
    """The next `count` steps, or why there is none.

    `plan`: the whole grid, of one variant; `data`: what has been read of it; `pending`: milestones
    asked for and not reached yet, by run id; `seed`: of the surface's draws. A second or two, more
    with many (n, B).
    """
    asked = _Question(
        plan=plan,
        data=replace(data, readings=carried(data.readings)),
        at=standings(plan, data, pending),
        config=config,
        analysis=replace(analysis_config, method="isosweep"),
        count=count,
        seed=seed,
    )
    first = _start_steps(asked)
    if first:
        return _affordable(asked, first)
    if not open_runs(plan, asked.at):
        if asked.at.pending:
            return Decision(steps=(), considered=(), stop=None)
        if not any(asked.at.reached.values()):
            return _stop("no run that could be trained is left, and no reward is known of any")
        return _stop("every run of the plan has been trained as far as it goes")
    belief = form_belief(plan, _telling(asked), asked.analysis, seed)
    if belief is None:
        return _affordable(asked, _in_order(asked))
    chances = dict(zip(VERDICTS, belief.chances.tolist(), strict=True))
    return replace(_by(asked, belief), chances=chances, loss=float(belief.losses.max()))


def _by(asked: _Question, belief: Belief) -> Decision:
    """What the belief says is to be done."""
    reason = _settled(asked, belief)
    if reason is not None:
        return _stop(reason)
    sure = belief.chances.max() >= SURE and belief.losses.max() <= asked.analysis.margin
    likely = _likely(belief)
    missing = _lacking(asked, likely, _SEEDS) if sure else []
    if not missing:
        decision = _chosen(asked, belief)
        if decision.stop is None:
            return decision
        # Before it ends: what the belief is sure of a further seed may show the analysis too, and
        # of what it is not sure the largest budget is to be read at least.
        further = (likely, _MOST_SEEDS) if sure else (likely[:MIN_GENERATIONS], _SEEDS)
        missing = _lacking(asked, *further)
        if not missing:
            return decision
    return _affordable(asked, missing[:_AT_ONCE])


def _telling(asked: _Question) -> list[CellReading]:
    """The readings that decisions rest on."""
    own = asked.plan.budgets
    kept = asked.data.readings
    return [r for r in kept if len(own) < _ENOUGH_BUDGETS or r.cell.budget in own]


def _stop(reason: str, considered: tuple[Step, ...] = ()) -> Decision:
    return Decision(steps=(), considered=considered, stop=reason)


def _start_steps(asked: _Question) -> list[Step]:
    runs = {run.run_id: run for run in asked.plan.runs}
    wanted = start(asked.plan)
    return [
        _step(asked, runs[name], to, 0.0, "where every search starts")
        for name, to in wanted.items()
        if asked.at.asked[name] < to and name not in asked.at.closed
    ]


def _in_order(asked: _Question) -> list[Step]:
    """Without a spread between seeds no value is known: the runs that are left, cheapest first."""
    why = "no spread between seeds is known yet, so that runs are trained in order"
    steps = []
    for run in open_runs(asked.plan, asked.at):
        at = asked.at.reached[run.run_id]
        to = next(milestone for milestone in run.milestones if milestone > at)
        steps.append(_step(asked, run, to, 0.0, why))
    return sorted(steps, key=lambda step: step.compute)


def _step(asked: _Question, run: PlannedRun, to: float, value: float, why: str) -> Step:
    added = to - asked.at.asked[run.run_id]
    return Step(run_id=run.run_id, milestone=to, compute=added, value=value, why=why)


def _affordable(asked: _Question, steps: list[Step]) -> Decision:
    """The first of them that search.max_compute pays for."""
    kept, left = [], asked.affordable
    for step in steps[: asked.count]:
        if step.compute <= left:
            kept.append(step)
            left -= step.compute
    stop = None if kept or not steps else _spent(asked)
    return Decision(steps=tuple(kept), considered=tuple(steps[:_LISTED]), stop=stop)


def _spent(asked: _Question) -> str:
    limit = f"search.max_compute={asked.config.max_compute:g} {asked.plan.budget_unit}"
    if not asked.at.committed:
        return f"{limit} is less than any first step takes"
    left = max(asked.affordable, 0)
    return f"{limit} is spent, but for {left:.3g}, less than any step that is left takes"


def _settled(asked: _Question, belief: Belief) -> str | None:
    """Why nothing more has to be known, or None; from what was read alone."""
    margin = asked.analysis.margin
    last = Counter(
        reading.cell.num_generations
        for reading in asked.data.readings
        if reading.cell.budget == asked.plan.budgets[-1] and reading.reward is not None
    )
    known = sum(seeds >= _SEEDS for seeds in last.values())
    unsure = belief.chances.max() < SURE or belief.losses.max() > margin
    if unsure or known < MIN_GENERATIONS:
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
    """The n that may be the best at the largest budgets, and their neighbours, likeliest first."""
    grid = sorted(belief.ends)
    chance = [belief.ends[n] for n in grid]
    near = {n: max(chance[max(0, k - 1) : k + 2]) for k, n in enumerate(grid)}
    found = [n for n in grid if near[n] >= _LIKELY]
    return sorted(found, key=lambda n: (-near[n], -belief.ends[n]))


def _lacking(asked: _Question, generations: list[int], seeds: int) -> list[Step]:
    """Runs to the largest budget, until each of these n has so many seeds there."""
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
        steps += [_step(asked, run, last, 0.0, why) for run in runs[: max(0, seeds - done[n])]]
    return steps


def _chosen(asked: _Question, belief: Belief) -> Decision:
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
        reason = _too_little(now, belief, drawn, fitting)
        if reason is not None:
            if chosen or at.pending:
                break
            return _stop(reason, considered)
        best = ranked[0].step
        chosen.append(best)
        left -= best.compute
        run = runs[best.run_id]
        belief = after(belief, Pair.of(run), at.reached[best.run_id], best.milestone)
        at = replace(at, asked={**at.asked, best.run_id: best.milestone})
    stop = None if chosen or asked.at.pending else _spent(asked)
    return Decision(steps=tuple(chosen), considered=considered, stop=stop)


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """A step, and its worth in reward: by the n chosen, and by the verdict named."""

    step: Step
    loss: float
    verdict: float

    def rate(self, asked: _Question) -> float:
        """Value per compute, with what starting costs."""
        whole = max(run.milestones[-1] for run in asked.plan.runs)
        return self.step.value / (self.step.compute + STEP_COST * whole)


def _of_run(asked: _Question, belief: Belief, run: PlannedRun, drawn: np.ndarray) -> list[_Offer]:
    """A step to each of the run's further milestones."""
    at, pair = asked.at.reached[run.run_id], Pair.of(run)
    found = worth(belief, pair, at, run.milestones[-1], drawn)
    offers = []
    for k, place in enumerate(found.reached):
        to = belief.budgets[place]
        if to in run.milestones:
            loss, verdict = _in_reward(asked, found, k)
            why = (
                f"may change which n is best, n = {run.num_generations} among them"
                if loss > verdict
                else "tells most about whether n* grows"
            )
            step = _step(asked, run, to, loss + verdict, why)
            offers.append(_Offer(step=step, loss=loss, verdict=verdict))
    return offers


def _in_reward(asked: _Question, found: Worth, k: int) -> tuple[float, float]:
    return float(found.loss[k]), VERDICT * asked.analysis.margin * float(found.verdict[k])


def _too_little(
    asked: _Question, belief: Belief, drawn: np.ndarray, offers: list[_Offer]
) -> str | None:
    """Why nothing that is left is worth its compute, or None.

    Where no budget is expected to lose more than the margin, a better n counts for nothing here.
    """
    margin, at = asked.analysis.margin, asked.at
    lost = belief.losses.max() > margin
    whole = sum(run.milestones[-1] for run in asked.plan.runs)
    least = _WORTH * margin / whole
    if any(offer.verdict + lost * offer.loss >= least * offer.step.compute for offer in offers):
        return None
    # Where noise is large one run may say nothing, and all of them together something.
    left = [
        (Pair.of(run), at.asked[run.run_id], run.milestones[-1])
        for run in asked.plan.runs
        if run.run_id not in at.closed and at.asked[run.run_id] < run.milestones[-1]
    ]
    loss, verdict = _in_reward(asked, worth_of_all(belief, left, drawn), -1)
    if verdict + lost * loss >= least * sum(last - reached for _, reached, last in left):
        return None
    return (
        "for the whole grid's compute, what is left would be worth less than "
        f"{_WORTH * margin:g} of reward ({_WORTH:g} x analysis.margin)"
    )
