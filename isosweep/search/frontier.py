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

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.judgement import judge
from isosweep.evidence import MIN_GENERATIONS
from isosweep.search.belief import VERDICTS, Belief
from isosweep.search.candidates import Question
from isosweep.search.choosing import (
    Offer,
    affordable_of,
    chosen_steps,
    decided,
    ended,
    in_reward,
    step_to,
)
from isosweep.search.steps import Decision, Step
from isosweep.search.value import worth_of_all

# A search ends where the whole grid's compute, spent at the best rate left, would be worth less
# than so many margins; once it has spent more than this share of the grid, the more the more it
# has: what is not decided with that a whole grid may leave open, too.
_WORTH, _SHARE = 2.5, 0.2
# Seeds of three n at the largest budget before the analysis is asked for its verdict, which has to
# be the belief's: of many looks at growing data one would claim by chance what the belief does not
# share.
_SEEDS = 2
# An n that is the judged one at a large budget with this chance, and its neighbours, have to
# be run there before a verdict that the belief shares can be the analysis's own.
_LIKELY = 0.1
# Of such runs not so many are asked for at once as there are places: the first few may be enough.
_AT_ONCE = 4
# Budgets of a plan from which on decisions rest on these alone: the smaller ones that its runs are
# read at as well say little more, and take most of the time.
_ENOUGH_BUDGETS = 5


def decide(asked: Question) -> Decision:
    """The next steps, or why there is none. A second or two, more with many (n, B)."""
    return decided(asked, _telling(asked), _by)


def _by(asked: Question, belief: Belief) -> Decision:
    """What the belief says is to be done."""
    chances = dict(zip(VERDICTS, belief.chances.tolist(), strict=True))
    return replace(_next(asked, belief), chances=chances, loss=float(belief.losses.max()))


def _next(asked: Question, belief: Belief) -> Decision:
    sure = belief.sure and belief.losses.max() <= asked.analysis.margin
    reason = _settled(asked, belief) if sure else None
    if reason is not None:
        return ended(reason)
    likely = _likely(belief)
    missing = _lacking(asked, likely) if sure else []
    if not missing:
        decision = chosen_steps(asked, belief, _too_little)
        if decision.stop is None:
            return decision
        # Before it ends the largest budget is to be read at least.
        missing = [] if sure else _lacking(asked, likely[:MIN_GENERATIONS])
        if not missing:
            return decision
    return affordable_of(asked, missing[:_AT_ONCE])


def _telling(asked: Question) -> list[CellReading]:
    """The readings that decisions rest on."""
    own = asked.plan.budgets
    kept = asked.data.readings
    return [r for r in kept if len(own) < _ENOUGH_BUDGETS or r.cell.budget in own]


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
        steps += [step_to(asked, run, last, 0.0, why) for run in runs[: max(0, _SEEDS - done[n])]]
    return steps


def _too_little(
    asked: Question, belief: Belief, drawn: FloatArray, offers: Sequence[Offer]
) -> str | None:
    """Why nothing that is left is worth its compute, or None.

    Where no budget is expected to lose more than the margin, a better n counts for nothing here.
    """
    margin, at = asked.analysis.margin, asked.at
    lost = belief.losses.max() > margin
    whole = sum(run.milestones[-1] for run in asked.plan.runs)
    wanted = _WORTH * max(1.0, at.committed / whole / _SHARE)
    least = wanted * margin / whole
    if any(offer.verdict + lost * offer.loss >= least * offer.step.compute for offer in offers):
        return None
    # Where noise is large one run may say nothing, and all of them together something.
    left = [
        (Pair.of(run), at.asked[run.run_id], run.milestones[-1])
        for run in asked.plan.runs
        if run.run_id not in at.closed and at.asked[run.run_id] < run.milestones[-1]
    ]
    loss, verdict = in_reward(asked, worth_of_all(belief, left, drawn), -1)
    if verdict + lost * loss >= least * sum(last - reached for _, reached, last in left):
        return None
    return (
        "for the whole grid's compute, what is left would be worth less than "
        f"{wanted * margin:.2g} of reward ({wanted:.2g} x analysis.margin)"
    )
