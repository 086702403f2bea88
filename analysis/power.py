"""What a plan can find: the analysis of many simulated sweeps against the truth they came from."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.frontier import fit_frontier
from isosweep.analysis.load import simulated_sweep
from isosweep.analysis.saturation import Verdict, find_saturation
from isosweep.plan import Plan
from isosweep.settings import AnalysisConfig
from isosweep.simulator import World, simulate_records


@dataclass(frozen=True, kw_only=True)
class BudgetPower:
    """At one budget. `best_n`: the truly best of the n planned there, None where all are alike;
    `held`: share of sweeps whose set of n that may be best holds it (if alike, mean over n);
    `set_size`: mean number of n in that set; `lost`: mean true reward lost by taking the n that
    came out best."""

    budget: float
    best_n: int | None
    held: float
    set_size: float
    lost: float


@dataclass(frozen=True, kw_only=True)
class Power:
    """How an analysis fares in one world. `verdicts`: share of sweeps that ended with each."""

    world: str
    true_verdict: str
    sweeps: int
    verdicts: dict[Verdict, float]
    budgets: tuple[BudgetPower, ...]


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
    verdicts: Counter[Verdict] = Counter()
    held: dict[float, list[float]] = {}
    sizes: dict[float, list[int]] = {}
    lost: dict[float, list[float]] = {}
    best = {budget: _best_planned(plan, world, budget) for budget in plan.budgets}
    for number in range(sweeps):
        rng = np.random.default_rng([seed, number])
        records = simulate_records(
            world,
            plan,
            rng,
            num_problems=num_problems,
            samples_per_problem=samples_per_problem,
        )
        data = simulated_sweep(plan, records, config.metric)
        frontier = fit_frontier(data.readings, config.confidence)
        verdicts[find_saturation(frontier, config.margin).verdict] += 1
        for at in frontier.budgets:
            truly = best[at.budget]
            wanted = set(at.measured) if truly is None else {truly}
            kept = len(wanted & set(at.candidates)) / len(wanted)
            held.setdefault(at.budget, []).append(kept)
            sizes.setdefault(at.budget, []).append(len(at.candidates))
            compute, B = np.array(at.budget), at.best.problems_per_batch
            rewards = world.reward(compute, np.array(at.measured), B)
            taken = world.reward(compute, at.best.num_generations, B)
            lost.setdefault(at.budget, []).append(float(rewards.max() - taken))
    return Power(
        world=world.name,
        true_verdict=world.verdict,
        sweeps=sweeps,
        verdicts={verdict: count / sweeps for verdict, count in sorted(verdicts.items())},
        budgets=tuple(
            BudgetPower(
                budget=budget,
                best_n=best[budget],
                held=_mean(held[budget]),
                set_size=_mean(sizes[budget]),
                lost=_mean(lost[budget]),
            )
            for budget in sorted(held)
        ),
    )


def _best_planned(plan: Plan, world: World, budget: float) -> int | None:
    choices = sorted({cell.num_generations for cell in plan.cells if cell.budget == budget})
    rewards = world.reward(np.array(budget), np.array(choices), world.best_batch)
    alike = not choices or np.ptp(rewards) < 1e-9
    return None if alike else choices[int(np.argmax(rewards))]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
