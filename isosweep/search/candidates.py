"""What a search is asked and answers: how far runs have come, and the steps that are left."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.pairs import Pair, by_pair
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.study import SearchConfig
from isosweep.plan.cells import Plan, PlannedRun

# Share of the whole grid's compute that the start of a search takes, at most.
START = 0.1
# Seeds of every (n, B) that a search starts with: without two no noise is known.
_START_SEEDS = 2
# Steps listed for mode=status.
LISTED = 5
# Statuses of runs that nothing more is asked of.
_CLOSED = ("diverged", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Step:
    """Train `run_id` up to `milestone`, which adds `compute`; both in the plan's budget unit.

    `value`: what that is worth, in reward; `loss`: the part of it that a better choice of n is
    expected to save, summed over budgets; the rest is for naming the verdict rightly. `why`: one
    clause in plain English.
    """

    run_id: str
    milestone: float
    compute: float
    value: float
    why: str
    loss: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to train next, best value per compute first; none of `steps`: the search stops.

    `considered`: the best few that were considered; `stop`: the reason, in words, without steps.
    `chances` of each verdict, and the `loss` of reward expected at the worst budget, are those
    believed when it was decided; None where nothing was believed yet.
    """

    steps: tuple[Step, ...] = ()
    considered: tuple[Step, ...] = ()
    stop: str | None = None
    chances: dict[str, float] | None = None
    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class Standings:
    """How far runs have come, by run id; 0.0: not begun.

    `reached`: last milestone that was read; `asked`: the same, or the milestone asked for; `spent`:
    compute of all records, in budget_unit; `closed`: runs that collapsed, diverged, failed or were
    given up.
    """

    reached: dict[str, float]
    asked: dict[str, float]
    spent: float
    closed: frozenset[str]

    @property
    def pending(self) -> dict[str, float]:
        """Milestones asked for and not reached yet."""
        return {run: to for run, to in self.asked.items() if to > self.reached[run]}

    @property
    def committed(self) -> float:
        """Compute spent and asked for."""
        return self.spent + sum(to - self.reached[run] for run, to in self.pending.items())


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is decided about.

    `plan`: the whole grid, of one variant, or of whatever a search decides about at once; `data`:
    what has been read of it, with the settings of its `analysis`; `count`: how many steps are
    wanted; `seed`: of what is drawn to decide.
    """

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
        return math.inf if most is None else most - self.at.committed

    def pay_for(self, steps: Iterable[Step]) -> list[Step]:
        """Return the first `count` steps that the affordable compute pays for together."""
        left, kept = self.affordable, list[Step]()
        for step in steps:
            if len(kept) < self.count and step.compute <= left:
                kept.append(step)
                left -= step.compute
        return kept


def standings(
    plan: Plan,
    data: SweepData,
    pending: Mapping[str, float],
    gave_up: Collection[str] = (),
) -> Standings:
    """How far the runs of `plan` have come, by `data`, what was asked of them besides, and which of
    them were given up."""
    reached = {run.run_id: 0.0 for run in plan.runs}
    fallen = set()
    planned = {(cell.run_id, cell.budget) for cell in plan.cells}
    for reading in data.readings:
        cell = reading.cell
        if reading.fallen is not None:
            fallen.add(cell.run_id)
        read = reading.reward is not None or reading.fallen is not None
        if read and (cell.run_id, cell.budget) in planned:
            reached[cell.run_id] = max(reached[cell.run_id], cell.budget)
    ended = {curve.run.run_id for curve in data.curves if curve.ending.status in _CLOSED}
    asked = {name: max(at, pending.get(name, 0.0)) for name, at in reached.items()}
    spent = sum(float(curve.compute[-1]) for curve in data.curves if curve.compute.size)
    return Standings(
        reached=reached,
        asked=asked,
        spent=spent,
        closed=frozenset(fallen | (ended - pending.keys()) | (reached.keys() & {*gave_up})),
    )


def rewards(readings: Iterable[CellReading]) -> dict[str, dict[float, float]]:
    """Held-out reward by budget of every run that was read; of one that fell its last."""
    found: dict[str, dict[float, float]] = {}
    for reading in readings:
        reward = reading.fallen if reading.reward is None else reading.reward
        if reward is not None:
            found.setdefault(reading.cell.run_id, {})[reading.cell.budget] = reward
    return found


def open_runs(plan: Plan, at: Standings) -> list[PlannedRun]:
    """Runs of which more may be asked: those begun and not at their end, and of every (n, B) the
    first seed that is not begun."""
    found = []
    for runs in by_pair(plan.runs, lambda run: run).values():
        fresh = None
        for run in sorted(runs, key=lambda run: run.seed):
            name = run.run_id
            if name in at.closed or at.asked[name] > at.reached[name]:
                continue
            if at.reached[name] == 0.0:
                fresh = fresh or run
            elif at.reached[name] < run.milestones[-1]:
                found.append(run)
        if fresh is not None:
            found.append(fresh)
    return found


def start(plan: Plan) -> dict[str, float]:
    """Milestones that a search starts with, by run id: of every (n, B) two seeds.

    To the milestone, the same for all, up to which they take a tenth of the grid's compute; those
    that begin later, one seed to their first. Where the first milestone takes more, as it does with
    one budget, a second seed of three (n, B) alone: enough to know what seeds differ by.
    """
    whole = sum(run.milestones[-1] for run in plan.runs)
    chosen = _start_to(plan, plan.budgets[0])
    if sum(chosen.values()) > START * whole:
        return _start_to(plan, plan.budgets[0], _spread_out(plan))
    for budget in plan.budgets[1:]:
        wanted = _start_to(plan, budget)
        if sum(wanted.values()) > START * whole:
            break
        chosen = wanted
    return chosen


def _start_to(plan: Plan, budget: float, twice: Collection[Pair] | None = None) -> dict[str, float]:
    """`twice`: of which (n, B) two seeds; None: of all."""
    wanted: dict[str, float] = {}
    for pair, runs in by_pair(plan.runs, lambda run: run).items():
        seeds = _START_SEEDS if twice is None or pair in twice else 1
        for number, run in enumerate(sorted(runs, key=lambda run: run.seed)[:seeds]):
            passed = [milestone for milestone in run.milestones if milestone <= budget]
            if passed or number == 0:
                wanted[run.run_id] = passed[-1] if passed else run.milestones[0]
    return wanted


def _spread_out(plan: Plan) -> list[Pair]:
    """The first, the middle and the last of the (n, B) that reach the first budget."""
    first = plan.budgets[0]
    early = sorted({Pair.of(run) for run in plan.runs if run.milestones[0] <= first})
    return [early[k] for k in sorted({0, len(early) // 2, len(early) - 1})] if early else []
