"""What an analysis of unlimited data would say of a world, for the plan at hand.

The n that is judged, n* or the smallest that is good enough, is taken at the plan's budgets,
between the smallest and the largest n of its grid, each n at the best B that the plan offers it.
Verdict and rate come from it by the functions that judge draws of it (`statistics.growth`), so that
a world is `saturated` by the rule that a sweep is.
"""

import math
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.simulation.worlds import Batches, Floats, World
from isosweep.analysis.statistics.growth import (
    COURSES,
    LEAST_CHANGE,
    courses,
    end_level,
    end_rates,
    falls,
    rises,
)
from isosweep.config.analysis import AnalysisConfig
from isosweep.plan.cells import Plan

# Rewards that differ by less, and n* that lie nearer to an edge in doublings, do not.
_ALIKE, _AT_EDGE = 1e-9, 1e-3
# Budgets are written in rounded factors.
_ROUNDING = 1.01


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A world as a plan could see it.

    `verdict`: as an analysis words it, never one that leaves something open. `rate`: doublings of
    the judged n per decade of compute at the largest budgets, None where no n is best or with one
    budget. `end_n`: that n there, on geometric average, None likewise.
    `best_n`: n*(C) at each budget, `enough_n`: the smallest that loses at most the margin, None
    where all n are alike. `risen` and `fallen`: doublings by which the last of the judged n is
    above the smallest, and below the largest; `moved`: away from that at each budget; `whole`: the
    first budget at which every n is planned. `cost`: reward lost by the worst n of the grid at the
    worst budget.
    """

    verdict: str = "n does not matter"
    rate: float | None = None
    end_n: float | None = None
    budgets: tuple[float, ...]
    best_n: tuple[float | None, ...]
    enough_n: tuple[float | None, ...]
    risen: float = 0.0
    fallen: float = 0.0
    moved: tuple[float, ...] = ()
    whole: float = 0.0
    cost: float

    def bears(self, verdict: str, since: float | None = None) -> bool:
        """Whether what a verdict claims is so; what is not identified claims nothing.

        `since`: the budget from which on a sweep that is `steady` claims it; None: `whole`.
        """
        if verdict.removeprefix("probably ") == self.verdict:
            return True
        if verdict == "grew":
            return self.risen >= LEAST_CHANGE
        if verdict == "steady":
            first = (since or self.whole) / _ROUNDING
            away = [m for b, m in zip(self.budgets, self.moved, strict=False) if b >= first]
            return (not away or away[0] < LEAST_CHANGE) and self.verdict != "growing"
        still = abs(self.risen) < LEAST_CHANGE and self.fallen < LEAST_CHANGE
        return verdict == "constant" and still and self.verdict == "n does not matter"


def find_truth(world: World, plan: Plan, config: AnalysisConfig) -> Truth:
    """The truth of `world` for `plan`, by the margin, bound and quantity of `config`."""
    grid = sorted({cell.num_generations for cell in plan.cells})
    offered = batches_of(plan)
    cost, alike, whole = 0.0, True, plan.budgets[-1]
    for budget in plan.budgets:
        planned = sorted({c.num_generations for c in plan.cells if c.budget == budget})
        if planned == grid:
            whole = min(whole, budget)
        if planned:
            n = np.array(planned, float)
            lost = float(np.ptp(world.reward(np.array(budget), n, offered(n)).max(axis=0)))
            cost, alike = max(cost, lost), alike and lost < _ALIKE
    if alike:
        none = (None,) * len(plan.budgets)
        return Truth(budgets=plan.budgets, best_n=none, enough_n=none, cost=cost)
    ends = float(grid[0]), float(grid[-1])
    best = tuple(world.best_n(budget, *ends, offered) for budget in plan.budgets)
    enough = tuple(
        world.smallest_n(budget, *ends, offered, config.margin) for budget in plan.budgets
    )
    x = np.log2(np.array(enough if config.tolerance else best))
    rate = float(end_rates(x, plan.budgets)) if len(best) > 1 else None
    verdict = Truth.verdict
    if cost > config.margin:
        edge = math.log2(ends[1]) - _AT_EDGE
        verdict = COURSES[int(courses(x, plan.budgets, edge, config.growth_bound))]
    return Truth(
        verdict=verdict,
        rate=rate,
        end_n=float(2.0 ** end_level(x, plan.budgets)),
        budgets=plan.budgets,
        best_n=best,
        enough_n=enough,
        risen=float(rises(x)),
        fallen=float(falls(x)),
        moved=tuple(np.abs(x[-1] - x).tolist()),
        whole=whole,
        cost=cost,
    )


def batches_of(plan: Plan) -> Batches:
    """The B that the plan offers at every n, and between its n.

    Where every n has one B and they differ, B between two n is geometric between theirs, as with
    n x B held constant. Where n differ in the B that they are offered, all are offered to all.
    """
    by_n: dict[int, set[int]] = {}
    for cell in plan.cells:
        by_n.setdefault(cell.num_generations, set()).add(cell.problems_per_batch)
    grid = sorted(by_n)
    everywhere = sorted(set.union(*by_n.values()))
    if len(everywhere) == 1 or any(len(by_n[n]) > 1 for n in grid):

        def all_of_them(n: Floats) -> Floats:
            return np.broadcast_to(np.array(everywhere, float)[:, None], (len(everywhere), len(n)))

        return all_of_them
    x = np.log2(np.array(grid))
    y = np.log2(np.array([min(by_n[n]) for n in grid]))

    def along(n: Floats) -> Floats:
        return np.asarray(2.0 ** np.interp(np.log2(n), x, y))[None]

    return along
