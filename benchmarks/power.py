"""What a plan can show: the analysis of many simulated sweeps against the truth they came from."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

import numpy as np

from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.records import Evaluated
from isosweep.analysis.simulation.sweep import read_plan, sweep_of
from isosweep.analysis.simulation.truth import Truth, find_truth
from isosweep.analysis.simulation.worlds import World
from isosweep.analysis.statistics.best_n import BudgetFrontier, Frontier
from isosweep.analysis.statistics.growth import LEAST_CHANGE
from isosweep.analysis.statistics.verdict import Saturation, judge
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan

# Verdicts that leave open what n* does at the end.
OPEN = ("grew", "not identified")
_ROUNDING = 1e-3
# Doublings, and doublings a decade, by which a truth is clear of the bounds of verdicts.
_CLEAR, _CLEAR_RATE = 0.25, 0.1


def is_clear(truth: Truth, growth_bound: float) -> bool:
    """Whether it lies clear of the bounds by which verdicts differ: near them half of all that is
    said is false by a hair."""
    if any(abs(change - LEAST_CHANGE) < _CLEAR for change in (truth.risen, truth.fallen)):
        return False
    if truth.verdict not in ("growing", "saturated") or truth.rate is None:
        return True
    return abs(abs(truth.rate) - growth_bound) >= _CLEAR_RATE


@dataclass(frozen=True, kw_only=True)
class BudgetPower:
    """At one budget. `best_n`: n*(C) between the smallest and the largest n of the plan,
    `enough_n`: the smallest that is good enough, None where all n are alike. `covered` and
    `enough_covered`: share of sweeps whose interval of it covers it, `width` and `enough_width`:
    the interval's mean width in doublings."""

    budget: float
    best_n: float | None
    covered: float | None
    width: float | None
    enough_n: float | None
    enough_covered: float | None
    enough_width: float | None


@dataclass(frozen=True, kw_only=True)
class Power:
    """How an analysis fares in one world. `verdicts`: share of sweeps that ended with each.

    `true_verdict`, `true_rate`: of `Truth`. `correct`: share whose verdict is so, `grew` where n*
    did grow among them; `decided`: share with a correct verdict that says what n* does at the end,
    `surely`: of these without what is only probable;
    `false_saturated`, `false_growing`: shares with that verdict where it is not so.

    `plateau`: the true n* at the largest budgets of a world that is saturated; of the sweeps that
    were called saturated, `plateau_covered` is the share whose interval covers it. `rate_covered`:
    of the `num_rates` intervals of the rate at the end, the share that covers the true one,
    `rate_width` their median width in doublings per decade.

    `recommended_loss`: mean over sweeps of the true expected reward lost at the last budget by the
    (n, B) that came out best there; `recommended_harmless`: share that lost no more than the
    margin.
    """

    world: str
    true_verdict: str
    true_rate: float | None
    sweeps: int
    verdicts: dict[str, float]
    correct: float
    decided: float
    surely: float
    false_saturated: float
    false_growing: float
    plateau: float | None
    plateau_covered: float | None
    num_rates: int
    rate_covered: float | None
    rate_width: float | None
    recommended_loss: float | None
    recommended_harmless: float | None
    budgets: tuple[BudgetPower, ...]


def measure_power(
    plan: Plan,
    world: World,
    config: AnalysisConfig,
    *,
    sweeps: int,
    seed: int,
    **evaluation: Unpack[Evaluated],
) -> Power:
    """Simulate `sweeps` sweeps of the plan in `world`, analyse each, and count what came out; each
    is evaluated as `sweep_of` is told.

    Runs are read at the smaller budgets of `config.readings_per_decade` as well, and the truth is
    that of all budgets read.
    """
    counts = _Counts(read_plan(plan, config), world, config)
    for number in range(sweeps):
        data = sweep_of(world, plan, config, (seed, number), **evaluation)
        _, frontier, saturation = judge(data, config)
        counts.add(frontier, saturation)
    return counts.power()


@dataclass
class _Tally:
    """What has been seen of one quantity: whether its interval covers the truth, and its width."""

    hits: list[bool] = field(default_factory=list)
    width: list[float] = field(default_factory=list)

    def add(self, low: float, high: float, truth: float, width: float) -> None:
        self.hits.append(low <= truth <= high)
        self.width.append(width)

    @property
    def covered(self) -> float | None:
        return _mean(self.hits)


class _Counts:
    """Counts over the sweeps of one plan in one world."""

    def __init__(self, plan: Plan, world: World, config: AnalysisConfig) -> None:
        self.world, self.config = world, config
        self.truth = find_truth(world, plan, config)
        self.verdicts: Counter[str] = Counter()
        self.plateaus, self.rates = _Tally(), _Tally()
        self.at_budget = {
            budget: _AtBudget(world, budget, best_n, enough_n)
            for budget, best_n, enough_n in zip(
                plan.budgets, self.truth.best_n, self.truth.enough_n, strict=True
            )
        }

    @property
    def plateau(self) -> float | None:
        return self.truth.end_n if self.truth.verdict == "saturated" else None

    def add(self, frontier: Frontier, saturation: Saturation) -> None:
        self.verdicts[saturation.verdict] += 1
        if saturation.plateau is not None and self.plateau is not None:
            low, high = saturation.plateau.low, saturation.plateau.high
            self.plateaus.add(low, high, self.plateau, math.log2(high / low))
        rate = None if saturation.growth is None else saturation.growth.rate
        if rate is not None and self.truth.rate is not None:
            # A true rate that is 0 but for rounding is one.
            low, high = rate.low - _ROUNDING, rate.high + _ROUNDING
            self.rates.add(low, high, self.truth.rate, rate.high - rate.low)
        for at in frontier.budgets:
            self.at_budget[at.budget].add(at)

    def power(self) -> Power:
        sweeps = self.verdicts.total()
        shares = {verdict: count / sweeps for verdict, count in sorted(self.verdicts.items())}
        so = {verdict: share for verdict, share in shares.items() if self.truth.bears(verdict)}
        lost = next((at.lost for at in reversed(self.at_budget.values()) if at.lost), [])
        return Power(
            world=self.world.name,
            true_verdict=self.truth.verdict,
            true_rate=self.truth.rate,
            sweeps=sweeps,
            verdicts=shares,
            correct=math.fsum(so.values()),
            decided=math.fsum(share for verdict, share in so.items() if verdict not in OPEN),
            surely=math.fsum(
                share
                for verdict, share in so.items()
                if verdict not in OPEN and not verdict.startswith("probably ")
            ),
            false_saturated=_claimed("saturated", shares, so),
            false_growing=_claimed("growing", shares, so),
            plateau=self.plateau,
            plateau_covered=self.plateaus.covered,
            num_rates=len(self.rates.hits),
            rate_covered=self.rates.covered,
            rate_width=_median(self.rates.width),
            recommended_loss=_mean(lost),
            recommended_harmless=_mean([loss <= self.config.margin for loss in lost]),
            budgets=tuple(at.power() for at in self.at_budget.values() if at.lost),
        )


class _AtBudget:
    """Counts at one budget of the plan; `truth` is n* there, `enough` what is good enough."""

    def __init__(
        self, world: World, budget: float, truth: float | None, enough: float | None
    ) -> None:
        self.world, self.budget, self.truth, self.enough = world, budget, truth, enough
        self.intervals, self.of_enough = _Tally(), _Tally()
        self.lost: list[float] = []

    def add(self, at: BudgetFrontier) -> None:
        for found, truth, tally in (
            (at.optimum.n_star, self.truth, self.intervals),
            (at.optimum.n_d, self.enough, self.of_enough),
        ):
            if found is not None and truth is not None:
                # It is known to 1e-4 doublings; beyond an edge nothing is said.
                low = 0.0 if found.open_below else found.low * (1 - 1e-4)
                high = math.inf if found.open_above else found.high * (1 + 1e-4)
                tally.add(low, high, truth, math.log2(found.high / found.low))
        pairs = np.array([Pair.of(cell) for cell in at.cells], float).T
        rewards = self.world.reward(np.array(self.budget), *pairs)
        chosen = self.world.reward(np.array(self.budget), *Pair.of(at.best.cell))
        self.lost.append(float(rewards.max() - chosen))

    def power(self) -> BudgetPower:
        return BudgetPower(
            budget=self.budget,
            best_n=self.truth,
            covered=self.intervals.covered,
            width=_mean(self.intervals.width),
            enough_n=self.enough,
            enough_covered=self.of_enough.covered,
            enough_width=_mean(self.of_enough.width),
        )


def _claimed(verdict: str, shares: Mapping[str, float], so: Mapping[str, float]) -> float:
    """Share of sweeps with that verdict, surely or probably, where it is not so."""
    return math.fsum(
        share
        for said, share in shares.items()
        if said.removeprefix("probably ") == verdict and said not in so
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
