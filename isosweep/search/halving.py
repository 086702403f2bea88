"""Decides which values of a setting to train next, at one cell, and how far: `search=tune`.

Successive halving (arXiv 1502.07943) over the milestones, with two seeds of every value, so that
what falls behind is not trained further; as many go on as the compute pays for. Values are ranked
by the reward surface over the setting's scale (`analysis.tuned`), so that neighbours inform each
other. What is left is spent on further seeds of those that may be the best at the largest budget.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isosweep.analysis.curves import CellReading
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.plan.cells import PlannedRun
from isosweep.search.candidates import Question
from isosweep.search.choosing import affordable_of, ended, step_to
from isosweep.search.steps import Decision, Step

# Seeds of every value that goes on.
SEEDS = 2
# Values that reach the largest budget, at least.
_LAST = 2
# Shares of the values that go on from one milestone to the next, the most that is affordable.
_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
# A search ends where no more than this share of the margin is expected to be lost, and further
# seeds go to values that are the best with this chance.
_LOST, _LIKELY = 0.1, 0.05


def decide(asked: Question) -> Decision:
    """The next steps at one cell, a `TunedCell`, or why there is none. Nothing is drawn."""
    plan = asked.plan
    kept = sorted(by_pair(plan.runs, lambda run: run))
    for number, (milestone, size) in enumerate(zip(plan.budgets, rungs(asked), strict=True)):
        if number:
            kept = _ranked(asked, kept, plan.budgets[number - 1])[:size]
        steps = _missing(asked, kept, milestone)
        if steps:
            return affordable_of(asked, steps)
        if any(_waits(asked, run, milestone) for run in _first_seeds(asked, kept)):
            return Decision(steps=(), considered=(), stop=None)
    return _further_seeds(asked)


def rungs(asked: Question) -> list[int]:
    """How many values are trained to each of the plan's budgets, ascending."""
    pairs = by_pair(asked.plan.runs, lambda run: run)
    limit = asked.config.max_compute
    sizes = [len(pairs)] * len(asked.plan.budgets)
    for share in (1.0, *_SHARES):
        sizes = [max(_LAST, math.ceil(len(pairs) * share**k)) for k in range(len(sizes))]
        sizes = [min(size, len(pairs)) for size in sizes]
        if limit is None or _compute(asked.plan.budgets, sizes) <= limit:
            break
    return sizes


def _compute(budgets: Sequence[float], sizes: Sequence[int]) -> float:
    before = (0.0, *budgets)
    added = (size * (b - a) for a, b, size in zip(before, budgets, sizes, strict=False))
    return SEEDS * math.fsum(added)


def _first_seeds(asked: Question, pairs: Sequence[Pair]) -> list[PlannedRun]:
    """The runs that are compared, of each of the pairs."""
    runs = by_pair(asked.plan.runs, lambda run: run)
    by_seed = (sorted(runs[pair], key=lambda run: run.seed) for pair in pairs)
    return [run for mine in by_seed for run in mine[:SEEDS]]


def _goes_to(run: PlannedRun, milestone: float) -> float:
    """How far a run goes on its way to `milestone`; 0 where its first one lies beyond."""
    return max((m for m in run.milestones if m <= milestone), default=0.0)


def _missing(asked: Question, pairs: Sequence[Pair], milestone: float) -> list[Step]:
    why = (
        "where every search starts"
        if milestone == asked.plan.budgets[0]
        else f"among the best {len(pairs)} so far"
    )
    return [
        step_to(asked, run, _goes_to(run, milestone), 0.0, why)
        for run in _first_seeds(asked, pairs)
        if asked.at.asked[run.run_id] < _goes_to(run, milestone)
        and run.run_id not in asked.at.closed
    ]


def _waits(asked: Question, run: PlannedRun, milestone: float) -> bool:
    reached = asked.at.reached[run.run_id]
    return reached < _goes_to(run, milestone) and run.run_id not in asked.at.closed


def _ranked(asked: Question, pairs: Sequence[Pair], budget: float) -> list[Pair]:
    """The pairs by what the first seeds show up to `budget`, the best first.

    Those that cannot be read there yet come first, and those of which all runs fell come last.
    """
    own = {run.run_id for run in _first_seeds(asked, pairs)}
    seen = [
        reading
        for reading in asked.data.readings
        if reading.cell.run_id in own and reading.cell.budget <= budget
    ]
    rewards = _rewards(asked, seen, budget)
    later = {Pair.of(run) for run in asked.plan.runs if not _goes_to(run, budget)}
    found = {pair: math.inf if pair in later else rewards.get(pair, -math.inf) for pair in pairs}
    return sorted(pairs, key=lambda pair: -found[pair])


def _rewards(asked: Question, readings: Sequence[CellReading], budget: float) -> dict[Pair, float]:
    """Reward to expect of every pair that was read at `budget`."""
    data = replace(asked.data, readings=tuple(readings))
    surface, frontier = fit_budgets(data, asked.analysis)
    for k, at in enumerate(frontier.budgets):
        if at.budget == budget:
            means = [cell.mean for cell in at.cells]
            if surface is not None:
                means = surface.at_cells(surface.draws[:, k], at.cells).mean(axis=0).tolist()
            return {Pair.of(cell): mean for cell, mean in zip(at.cells, means, strict=True)}
    return {}


def _further_seeds(asked: Question) -> Decision:
    """Seeds of the values that may be the best at the largest budget, the likeliest first."""
    last = asked.plan.budgets[-1]
    surface, frontier = fit_budgets(asked.data, asked.analysis)
    if surface is None or not frontier.budgets or frontier.budgets[-1].budget < last:
        return ended("no value that is left could be trained to the largest budget")
    cells = frontier.budgets[-1].cells
    rewards = surface.at_cells(surface.draws[:, -1], cells)
    loss = float(rewards.max(axis=1).mean() - rewards.mean(axis=0).max())
    if loss <= _LOST * asked.analysis.margin:
        reason = (
            f"{loss:.2g} of reward is expected to be lost at the largest budget by the value that "
            f"seems best, less than {_LOST:g} of analysis.margin={asked.analysis.margin:g}"
        )
        return replace(ended(reason), loss=loss)
    chances = np.bincount(rewards.argmax(axis=1), minlength=len(cells)) / len(rewards)
    likely = {Pair.of(cell): float(chance) for cell, chance in zip(cells, chances, strict=True)}
    left = [
        run
        for run in asked.plan.runs
        if likely.get(Pair.of(run), 0.0) >= _LIKELY
        and asked.at.asked[run.run_id] < last == run.milestones[-1]
        and run.run_id not in asked.at.closed
    ]
    left.sort(key=lambda run: (run.seed, -likely[Pair.of(run)]))
    steps = [
        step_to(asked, run, last, 0.0, f"it may be the best ({likely[Pair.of(run)]:.0%})")
        for run in left
    ]
    if steps:
        return replace(affordable_of(asked, steps), loss=loss)
    if asked.at.pending:
        return Decision(steps=(), considered=(), stop=None, loss=loss)
    reason = f"every seed of the values that may be the best is trained; {loss:.2g} of reward is "
    return replace(ended(f"{reason}expected to be lost by the one that seems best"), loss=loss)
