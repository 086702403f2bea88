"""What further runs of a sweep would be worth, in its own plan and just beyond it.

Nothing is read or written here. Readings of the sweep say what is believed; candidates are those of
a `wide` plan, which has the sweep's own runs, further seeds, and n in between and beyond. They are
valued as a search values its steps, and taken greedily.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.verdict import OpenEnd, Verdict, behind, judge, open_end
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan
from isosweep.search.belief import VERDICTS, Belief, form_belief
from isosweep.search.candidates import standings
from isosweep.search.value import Offer, after, best_offers, offers, outcomes

StopKind = Literal["no spread", "behind", "out of reach", "decided", "not worth"]
# Margins below which a step is not worth proposing.
_LEAST = 0.01
# Of the largest n those among which the best one is near the edge.
_NEAR_EDGE = 2


@dataclass(frozen=True, kw_only=True)
class Proposed(Offer):
    """An offer, and the chance that two draws of the verdict agree once this and all before it are
    trained."""

    agree: float


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Why nothing is proposed: a kind, with its numbers.

    no spread: no two runs of one (n, B) were read at a budget. behind: the n that is judged may be
    among `n`, no run of which has reached `budget`. out of reach: it may lie at an open `end`, and
    no run of `n` beyond it is within the limits. decided: analysis and belief agree on `verdict`,
    of this `chance`, and at no budget is more than `margin` of reward expected to be lost. not
    worth: no run within the limits is worth its compute.
    """

    kind: StopKind
    n: tuple[int, ...] = ()
    budget: float | None = None
    end: OpenEnd | None = None
    verdict: Verdict | None = None
    chance: float | None = None
    margin: float | None = None


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What to train next of one variant, best value for compute first.

    `stop`: why nothing is proposed; None with `steps`. `belief`: what is believed now, None where
    the sweep's own runs come first; `loss`: reward expected to be lost at the worst of the sweep's
    budgets.
    """

    steps: tuple[Proposed, ...] = ()
    stop: Stop | None = None
    belief: Belief | None = None
    loss: float | None = None

    @property
    def chances(self) -> dict[str, float]:
        """The chance of each verdict now; none without a belief."""
        if self.belief is None:
            return {}
        return dict(zip(VERDICTS, self.belief.chances.tolist(), strict=True))

    @property
    def agree(self) -> float:
        """The chance that two draws of the verdict agree now."""
        return 0.0 if self.belief is None else _agreement(self.belief)


def first_n(data: SweepData, config: AnalysisConfig) -> int | None:
    """The n outside of the grid that comes before all else, as the report has it; None: none."""
    _, frontier, saturation = judge(data, config)
    end = open_end(saturation.verdict, frontier, saturation.quantity)
    return end.further if end else None


def widened(plan: Plan, data: SweepData) -> tuple[int, ...]:
    """Further n to consider: between the likeliest best n and its neighbours, and where that is one
    of the two largest, twice the largest: whether growth has ended shows well above the end."""
    best = best_n(data)
    grid = sorted({run.num_generations for run in plan.runs})
    if best is None:
        return ()
    place = grid.index(best)
    beside = [grid[k] for k in (place - 1, place + 1) if 0 <= k < len(grid)]
    between = {2 * round((best * other) ** 0.5 / 2) for other in beside}
    above = {2 * grid[-1]} if place >= len(grid) - _NEAR_EDGE else set()
    return tuple(sorted((between | above) - set(grid) - {0}))


def best_n(data: SweepData) -> int | None:
    """n of the best mean reward at the largest budget that was read; None without readings."""
    read = [r for r in data.readings if r.reward is not None and r.cell.budget in data.plan.budgets]
    if not read:
        return None
    last = max(r.cell.budget for r in read)
    rewards: dict[tuple[int, int], list[float]] = {}
    for reading in read:
        if reading.cell.budget == last and reading.reward is not None:
            cell = reading.cell
            pair = (cell.num_generations, cell.problems_per_batch)
            rewards.setdefault(pair, []).append(reading.reward)
    return max(rewards, key=lambda pair: float(np.mean(rewards[pair])))[0]


def propose(
    own: SweepData, wide: SweepData, config: AnalysisConfig, most: float, seed: int
) -> Proposal:
    """The runs of `wide` worth most for at most so much compute.

    `own`: the sweep by its own plan, which says whether its question is decided; `wide`: the same
    records by the wide plan, one variant of each.
    """
    now = form_belief(own.plan, own.readings, config, seed)
    if now is None:
        return Proposal(stop=Stop(kind="no spread"))
    _, frontier, saturation = judge(own, config)
    loss = float(now.losses.max())
    # A search leaves n out on purpose.
    lacking = () if own.searched else behind(frontier, saturation.quantity)
    if lacking:
        # What is believed rests on n that happen to be ahead.
        stop = Stop(kind="behind", n=lacking, budget=frontier.budgets[-1].budget)
        return Proposal(stop=stop, loss=loss)
    end = open_end(saturation.verdict, frontier, saturation.quantity)
    if end is not None and end.further is not None:
        # Whatever else is believed rests on an edge.
        steps = _of_n(end.further, own, wide, now, most, seed)
        unfit = None if steps else Stop(kind="out of reach", n=(end.further,), end=end)
        return Proposal(steps=steps, stop=unfit, belief=now, loss=loss)
    if now.shares(saturation.verdict) and loss <= config.margin:
        decided = Stop(
            kind="decided",
            verdict=saturation.verdict,
            chance=float(now.chances.max()),
            margin=config.margin,
        )
        return Proposal(stop=decided, belief=now, loss=loss)
    belief = form_belief(_inside(wide, own), wide.readings, config, seed) or now
    drawn = outcomes(belief, np.random.default_rng(seed))
    at, least = standings(wide.plan, wide, {}), _LEAST * config.margin
    turns = best_offers(wide.plan, at, belief, config.margin, most, drawn, least)
    steps = _proposed((best for _, _, (best, *_) in turns), belief)
    worthless = None if steps else Stop(kind="not worth")
    return Proposal(steps=steps, stop=worthless, belief=belief, loss=loss)


def _of_n(
    n: int, own: SweepData, wide: SweepData, belief: Belief, most: float, seed: int
) -> tuple[Proposed, ...]:
    """The runs of `n` up to the sweep's largest budget, of the sweep's seeds, by seed."""
    drawn, at = outcomes(belief, np.random.default_rng(seed)), standings(wide.plan, wide, {})
    seeds = {run.seed for run in own.plan.runs}
    taken: list[Offer] = []
    now, left = belief, most
    for run in sorted(wide.plan.runs, key=lambda run: (run.seed, run.problems_per_batch)):
        if run.num_generations != n or run.seed not in seeds:
            continue
        for offer in offers(now, run, at.reached[run.run_id], drawn):
            if offer.milestone == own.plan.budgets[-1] and offer.compute <= left:
                left -= offer.compute
                taken.append(offer)
                now = after(now, offer.pair, offer.reached, offer.milestone)
    return _proposed(taken, belief)


def _proposed(taken: Iterable[Offer], belief: Belief) -> tuple[Proposed, ...]:
    agree, steps = _agreement(belief), list[Proposed]()
    for offer in taken:
        agree = min(1.0, agree + offer.verdict)
        steps.append(Proposed(**vars(offer), agree=agree))
    return tuple(steps)


def _agreement(belief: Belief) -> float:
    """The chance that two draws of the verdict agree."""
    return float((belief.chances**2).sum())


def _inside(wide: SweepData, own: SweepData) -> Plan:
    """The wide plan without n beyond those of the sweep: of them nothing is believed."""
    largest = own.generations[-1]
    cells = tuple(cell for cell in wide.plan.cells if cell.num_generations <= largest)
    runs = tuple(run for run in wide.plan.runs if run.num_generations <= largest)
    return replace(wide.plan, cells=cells, runs=runs)
