"""Kinds of sweeps that are hard to be honest about: ragged records, sharp peaks, one odd n.

| kind | what it is | cases, over six courses of n* |
|---|---|---|
| behind | the larger half of all n was trained less far | by 0.3, 0.7 and 1.3 decades |
| holes | no run has records in a stretch of compute | a half, one and two decades |
| sharp | reward falls from n* as a tent | a doubling costs 0.01, 0.02 and 0.03 |
| hair | all n alike, but for one at an edge of the grid | that one costs 1.5 margins |
| whole | nothing is missing | every preset |

What a verdict claims is judged against the whole course of n*, the stretches without records
included. A case whose truth lies near a bound (n* or n_d moves by a doubling, give or take a
quarter) is left out: there half of all claims are false by a hair.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.planted import PlantedWorld
from isosweep.analysis.simulation.presets import COURSES as PLANTED
from isosweep.analysis.simulation.presets import FORMS, presets_of
from isosweep.analysis.simulation.records import Evaluated, simulate_records
from isosweep.analysis.simulation.sweep import read_plan, simulated_sweep
from isosweep.analysis.simulation.truth import Truth, batches_of, find_truth
from isosweep.analysis.statistics.best_n import BudgetFrontier, Frontier, fit_budgets
from isosweep.analysis.statistics.growth import LEAST_CHANGE
from isosweep.analysis.statistics.verdict import find_saturation
from isosweep.config.analysis import AnalysisConfig, Quantity
from isosweep.config.base import replaced
from isosweep.plan.cells import Plan
from isosweep.store.records import Record

_LATER = ("straight", "return", "bump")
# Of seeds and records, in `plateau`.
_READ = ("shared_luck", "off_records")
_NEAR = tuple(name for name in PLANTED if name.startswith("near_"))
GROUPS: Mapping[str, tuple[str, ...]] = {
    "old": ("easy", "hard", "flat", "growing", "overfitting", "unstable", "quiet"),
    "new": tuple(name for name in PLANTED if name not in (*_NEAR, *FORMS, *_LATER, *_READ)),
    # Courses of all kinds for few runs: of six, two come back to where they began.
    "lab": ("constant", "plateau", "logarithm", *_LATER),
    "near": _NEAR,
    "read": _READ,
    "curves": ("constant", *FORMS),
}
COURSES = ("constant", "plateau", "logarithm", "straight", "return", "bump")
QUANTITIES: tuple[Quantity, ...] = ("enough", "best")
# Verdicts that leave open what n does at the end.
OPEN = ("grew", "not identified")
# Doublings, and doublings a decade, by which a truth is clear of the bounds of verdicts.
_CLEAR, _CLEAR_RATE = 0.25, 0.1
_ROUNDING = 1e-3
Records = Mapping[str, Sequence[Record]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One world, and what of its records is missing."""

    course: str
    """A preset."""
    world: Callable[[PlantedWorld, Plan], PlantedWorld] | None = None
    """What is changed of it, where it is a planted one."""
    kept: Callable[[int, float, Plan], bool] = lambda n, compute, plan: True
    """Whether a record of a run with n at this compute was made."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One sweep. Of each quantity: its verdict and whether that is so, where the truth is clear of
    bounds; and whether its interval at each budget off the edges of the grid held it, and how many
    doublings wide it is. Of the rate at the end, of bounds of losses beside the best n, and of the
    reward there: whether they held. `lost`: true reward that the chosen (n, B) loses. `truth`: of
    the n that the config judges."""

    verdicts: dict[Quantity, tuple[str, bool]]
    intervals: dict[Quantity, tuple[tuple[bool, float], ...]]
    rate: bool | None
    losses: tuple[bool, ...]
    reward: bool
    lost: float
    truth: Truth


def _behind(decades: float) -> Callable[[int, float, Plan], bool]:
    def kept(n: int, compute: float, plan: Plan) -> bool:
        grid = sorted({run.num_generations for run in plan.runs})
        small = n < grid[len(grid) // 2]
        return small or compute <= plan.budgets[-1] / 10**decades * 1.001

    return kept


def _hole(decades: float) -> Callable[[int, float, Plan], bool]:
    def kept(n: int, compute: float, plan: Plan) -> bool:
        first, last = np.log10([plan.budgets[0], plan.budgets[-1]])
        # In the middle, or before the last quarter of a decade.
        middle = min(first + 0.55 * (last - first), last - 0.25 - decades / 2)
        return compute == 0 or abs(math.log10(compute) - middle) >= decades / 2

    return kept


def _gain(world: PlantedWorld, plan: Plan) -> float:
    """What the best n gains by the last budget."""
    last = np.array(plan.budgets[-1])
    return world.gain * float(world.grown(last, 2.0 ** float(world.target(last)), 128.0))


def _tent(cost: float) -> Callable[[PlantedWorld, Plan], PlantedWorld]:
    def sharp(world: PlantedWorld, plan: Plan) -> PlantedWorld:
        width = _gain(world, plan) / cost
        return replace(world, peak="tent", width_n=width, width_batch=math.inf)

    return sharp


def _odd(edge: Callable[[Sequence[int]], int], cost: float) -> Callable[..., PlantedWorld]:
    def hair(world: PlantedWorld, plan: Plan) -> PlantedWorld:
        flat = replace(world, width_n=math.inf, width_batch=math.inf)
        n = edge([run.num_generations for run in plan.runs])
        return replace(flat, dent=cost / _gain(flat, plan), dent_log2_n=math.log2(n))

    return hair


def cases(margin: float) -> dict[str, dict[str, Case]]:
    """Every kind with its cases by name."""
    spans = (0.3, 0.7, 1.3), (0.5, 1.0, 2.0)
    return {
        "behind": {f"{c} {d}": Case(course=c, kept=_behind(d)) for c in COURSES for d in spans[0]},
        "holes": {f"{c} {d}": Case(course=c, kept=_hole(d)) for c in COURSES for d in spans[1]},
        "sharp": {
            f"{c} {cost}": Case(course=c, world=_tent(cost))
            for c in COURSES
            for cost in (0.01, 0.02, 0.03)
        },
        "hair": {
            name: Case(course="constant", world=_odd(edge, 1.5 * margin))
            for name, edge in (("smallest", min), ("largest", max))
        },
        "whole": {name: Case(course=name) for name in (*GROUPS["old"], *PLANTED)},
    }


def judged(
    case: str,
    kind: str,
    plan: Plan,
    config: AnalysisConfig,
    number: int,
    **evaluation: Unpack[Evaluated],
) -> Judged:
    """One simulated sweep of a case, analysed for both quantities."""
    chosen = cases(config.margin)[kind][case]
    whole = read_plan(plan, config)
    world = presets_of(whole)[chosen.course]
    if chosen.world is not None:
        assert isinstance(world, PlantedWorld)
        world = chosen.world(world, whole)
    seed = (zlib.crc32(f"{kind} {case}".encode()), number)
    records = simulate_records(world, plan, seed, **evaluation)
    sizes = {run.run_id: run.num_generations for run in plan.runs}
    unit = plan.budget_unit
    left = {
        name: [r for r in rows if chosen.kept(sizes[name], r.compute.spent(unit), whole)]
        for name, rows in records.items()
    }
    surface, frontier = fit_budgets(simulated_sweep(plan, left, config), config)
    verdicts: dict[Quantity, tuple[str, bool]] = {}
    intervals: dict[Quantity, tuple[tuple[bool, float], ...]] = {}
    own, rate = find_truth(world, whole, config), None
    for quantity in QUANTITIES:
        asked = replaced(config, quantity=quantity)
        truth = find_truth(world, whole, asked)
        found = find_saturation(frontier, surface, asked)
        intervals[quantity] = _held(frontier, truth, quantity, whole)
        since = found.growth.steady_from if found.growth else None
        if is_clear(truth, config.growth_bound):
            verdicts[quantity] = found.verdict, truth.bears(found.verdict, since)
        if quantity == config.quantity and found.growth and truth.rate is not None:
            # A true rate that is 0 but for rounding is one.
            low, high = found.growth.rate.low - _ROUNDING, found.growth.rate.high + _ROUNDING
            rate = low <= truth.rate <= high
    at = frontier.budgets[-1]
    n = np.array(at.measured, float)
    rewards = world.reward(np.array(at.budget), n, batches_of(whole)(n)).max(axis=0)
    best = at.choices.index(at.best)
    taken = world.reward(np.array(at.budget), *map(float, Pair.of(at.best.cell)))
    return Judged(
        verdicts=verdicts,
        intervals=intervals,
        rate=rate,
        losses=_losses_held(at, best, rewards.max() - rewards),
        reward=at.best.interval is not None
        and at.best.interval[0] <= float(rewards[best]) <= at.best.interval[1],
        lost=float(rewards.max() - taken),
        truth=own,
    )


def _losses_held(at: BudgetFrontier, best: int, lost: np.ndarray) -> tuple[bool, ...]:
    return tuple(
        bool(lost[place] <= at.choices[place].loss_upper)
        for place in (best - 1, best + 1)
        if 0 <= place < len(at.choices) and at.choices[place].loss_upper is not None
    )


def _held(
    frontier: Frontier, truth: Truth, quantity: Quantity, plan: Plan
) -> tuple[tuple[bool, float], ...]:
    """At every budget that was read, off the edges of the grid."""
    known = dict(
        zip(truth.budgets, truth.best_n if quantity == "best" else truth.enough_n, strict=True)
    )
    grid = sorted({cell.num_generations for cell in plan.cells})
    held = []
    for at in frontier.optima:
        interval, n = at.judged(quantity), known.get(at.budget)
        if interval is not None and n is not None and grid[0] * 1.001 < n < grid[-1] / 1.001:
            # The truth is known to 1e-4 doublings.
            near = interval.holds(n * (1 - 1e-4)) or interval.holds(n * (1 + 1e-4))
            held.append((near, math.log2(interval.high / interval.low)))
    return tuple(held)


def is_clear(truth: Truth, growth_bound: float) -> bool:
    """Whether it lies clear of the bounds by which verdicts differ: near them half of all that is
    said is false by a hair."""
    if any(abs(change - LEAST_CHANGE) < _CLEAR for change in (truth.risen, truth.fallen)):
        return False
    if truth.verdict not in ("growing", "saturated") or truth.rate is None:
        return True
    return abs(abs(truth.rate) - growth_bound) >= _CLEAR_RATE


def is_false(verdict: str, so: bool) -> bool:
    """Whether it claims what is not so."""
    return not so and verdict != "not identified"


def is_decided(verdict: str, so: bool) -> bool:
    """Whether it says, rightly, what n does at the end."""
    return so and verdict not in OPEN
