"""What a plan can show: the analysis of many simulated sweeps against the truth they came from."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.simulation.sweep import simulated_sweep
from isosweep.analysis.simulation.worlds import World, simulate_records
from isosweep.analysis.statistics.asymptotes import asymptotes
from isosweep.analysis.statistics.fits import fit_curves
from isosweep.analysis.statistics.frontier import BudgetFrontier, Frontier, fit_frontier
from isosweep.analysis.statistics.intervals import Interval, central_ends
from isosweep.analysis.statistics.judgement import judge
from isosweep.analysis.statistics.playbook import Playbook, fit_playbook, playbook_saturation
from isosweep.analysis.statistics.saturation import Saturation, Verdict
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan


@dataclass(frozen=True, kw_only=True)
class BudgetPower:
    """At one budget. `best_n`: n*(C) between the smallest and the largest n of the plan, None
    where all n are alike. `covered`: share of sweeps whose interval of n* covers it, `width`: the
    interval's mean width in doublings. `held`: share of sweeps whose set of n that may be best
    includes the best one planned here, `set_size`: mean number of n in that set; `lost`: mean true
    reward lost by taking the n that came out best. If all n are alike, `held` is a mean over n."""

    budget: float
    best_n: float | None
    covered: float | None
    width: float | None
    held: float
    set_size: float
    lost: float


@dataclass(frozen=True, kw_only=True)
class Power:
    """How an analysis fares in one world. `verdicts`: share of sweeps that ended with each.

    `plateau`: the true n_sat, None where there is none inside the plan's n; of the sweeps that
    were called saturated, `plateau_covered` is the share whose interval covers it, and
    `plateau_width` the median width in doublings. `asymptote_covered`: share of the intervals of
    A that cover it, `asymptote_width` their median width in reward, of `num_asymptotes` given.
    """

    world: str
    method: str
    true_verdict: str
    sweeps: int
    verdicts: dict[Verdict, float]
    plateau: float | None
    plateau_covered: float | None
    plateau_width: float | None
    num_asymptotes: int
    asymptote_covered: float | None
    asymptote_width: float | None
    budgets: tuple[BudgetPower, ...]


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


def measure_power(
    plan: Plan,
    world: World,
    config: AnalysisConfig,
    *,
    sweeps: int,
    seed: int,
    num_problems: int,
    samples_per_problem: int,
) -> Power:
    """Simulate `sweeps` sweeps of the plan in `world`, analyse each, and count what came out."""
    grid = sorted({cell.num_generations for cell in plan.cells})
    verdicts: Counter[Verdict] = Counter()
    plateaus, limits = _Tally(), _Tally()
    at_budget = {
        budget: _AtBudget(plan, world, budget, (grid[0], grid[-1])) for budget in plan.budgets
    }
    inside = world.verdict == "saturated" and grid[0] < world.saturation_n <= grid[-1]
    for number in range(sweeps):
        records = simulate_records(
            world,
            plan,
            np.random.default_rng([seed, number]),
            num_problems=num_problems,
            samples_per_problem=samples_per_problem,
        )
        data = simulated_sweep(plan, records, config.metric)
        frontier, saturation, asymptotic = _analyse(data, config)
        verdicts[saturation.verdict] += 1
        if saturation.plateau is not None and inside:
            low, high = saturation.plateau.low, saturation.plateau.high
            plateaus.add(low, high, world.saturation_n, math.log2(high / low))
        for at, optimum in zip(frontier.budgets, saturation.optima, strict=True):
            at_budget[at.budget].add(at, optimum.interval, optimum.best, set(optimum.candidates))
        for (n, B), (low, high) in asymptotic.items():
            truth = world.asymptote(n, world.best_batch if B is None else B)
            limits.add(low, high, truth, high - low)
    return Power(
        world=world.name,
        method=config.method,
        true_verdict=world.verdict,
        sweeps=sweeps,
        verdicts={verdict: count / sweeps for verdict, count in sorted(verdicts.items())},
        plateau=world.saturation_n if inside else None,
        plateau_covered=plateaus.covered,
        plateau_width=_median(plateaus.width),
        num_asymptotes=len(limits.hits),
        asymptote_covered=limits.covered,
        asymptote_width=_median(limits.width),
        budgets=tuple(counted.power() for counted in at_budget.values() if counted.sizes),
    )


class _AtBudget:
    """Counts at one budget of the plan."""

    def __init__(self, plan: Plan, world: World, budget: float, ends: tuple[int, int]) -> None:
        self.world, self.budget = world, budget
        planned = sorted({cell.num_generations for cell in plan.cells if cell.budget == budget})
        rewards = world.reward(np.array(budget), np.array(planned), world.best_batch)
        self.alike = not planned or float(np.ptp(rewards)) < 1e-9
        self.best = None if self.alike else planned[int(np.argmax(rewards))]
        self.truth = None if self.alike else world.best_n(budget, *ends)
        self.intervals = _Tally()
        self.held: list[float] = []
        self.sizes: list[int] = []
        self.lost: list[float] = []

    def add(
        self, at: BudgetFrontier, interval: Interval | None, best: int, candidates: set[int]
    ) -> None:
        if interval is not None and self.truth is not None:
            # n* is known to 1e-4 doublings.
            low, high = interval.low * (1 - 1e-4), interval.high * (1 + 1e-4)
            self.intervals.add(low, high, self.truth, math.log2(interval.high / interval.low))
        wanted = set(at.measured) if self.best is None else {self.best}
        self.held.append(len(wanted & candidates) / len(wanted))
        self.sizes.append(len(candidates))
        compute, B = np.array(self.budget), at.best.cell.problems_per_batch
        rewards = self.world.reward(compute, np.array(at.measured), B)
        self.lost.append(float(rewards.max() - self.world.reward(compute, best, B)))

    def power(self) -> BudgetPower:
        return BudgetPower(
            budget=self.budget,
            best_n=self.truth,
            covered=self.intervals.covered,
            width=_mean(self.intervals.width),
            held=_mean(self.held) or 0.0,
            set_size=_mean(self.sizes) or 0.0,
            lost=_mean(self.lost) or 0.0,
        )


# Ends of the interval of A by (n, B); B is None where the method pools them.
_Asymptotes = dict[tuple[int, int | None], tuple[float, float]]


def _analyse(data: SweepData, config: AnalysisConfig) -> tuple[Frontier, Saturation, _Asymptotes]:
    """Frontier and verdict by `config.method`, and every asymptote that it gives."""
    if config.method == "playbook":
        frontier = fit_frontier(data.readings, None, None, config.confidence)
        playbook = fit_playbook(data.curves, [at.budget for at in frontier.budgets])
        saturation = playbook_saturation(playbook, frontier)
        return frontier, saturation, _of_playbook(playbook, config.confidence)
    _, frontier, saturation = judge(data, config)
    fits = fit_curves([curve.until_collapse() for curve in data.curves])
    known: _Asymptotes = {
        Pair.of(of): (of.low, of.high)
        for of in asymptotes(data.plan.runs, fits, config.confidence)
        if of.low is not None and of.high is not None
    }
    return frontier, saturation, known


def _of_playbook(playbook: Playbook | None, confidence: float) -> _Asymptotes:
    resamples = [] if playbook is None else [fit.asymptotes for fit in playbook.resamples]
    return {
        (n, None): central_ends(np.array([asymptote[n] for asymptote in resamples]), confidence)
        for n in (resamples[0] if resamples else ())
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
