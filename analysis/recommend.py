"""How to split a budget: n, B, T and learning rate, the reward to expect, and how sure that is.

Inside the budgets that were measured it rests on the reward surface. Beyond them nobody has seen
n*: only where that is asked for, it goes on as at the largest budgets, and no reward is given.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.readings import updates_per_generation
from isosweep.analysis.statistics.best_n import BudgetFrontier, CellMean, interval_of_n, on_grid
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.growth import end_rates
from isosweep.analysis.statistics.intervals import Interval, central_ends
from isosweep.analysis.statistics.surface import Surface, smallest_within
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError
from isosweep.words.numbers import short

# Budgets are written in rounded factors.
_ROUNDING = 1.01


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What a recommendation rests on.

    `kind`: means, the best mean at the nearest budget, without intervals; surface, the reward
    surface at `budgets`, over `num_cells` (n, B); growth, n* that goes on from that of `budgets` as
    it grows there; last n, the best n there, where its growth is not known.
    """

    kind: Literal["means", "surface", "growth", "last n"]
    budgets: tuple[float, ...]
    num_cells: int = 0


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """What is known of the best n at a budget (see `Recommendation`)."""

    n_star: Interval | None
    n_d: Interval | None
    missing: tuple[int, ...]
    alternatives: tuple[int, ...]
    reward: float | None
    interval: tuple[float, float] | None
    basis: Basis


@dataclass(frozen=True, kw_only=True)
class Recommendation(_Expected):
    """The split of `budget` (in the sweep's unit), among the (n, B) that were measured.

    `n_star`: n*(C); `n_d`: the smallest n that is good enough; `missing`: n of the plan that
    were not read at the budgets of `basis`; `alternatives`: other n that cannot be distinguished
    from the chosen one, measured at the nearest budget; `reward`: expected held-out reward, with
    interval (None where the sweep gives none). `factor`: budget over the largest one reached, above
    1 where this extrapolates; `basis`: what it rests on.
    """

    budget: float
    num_generations: int
    problems_per_batch: int
    num_steps: int
    learning_rate: float | None
    device_hours: float | None
    base_reward: float | None
    factor: float


def recommend(
    data: SweepData, findings: Findings, budget: float, *, extrapolate: bool
) -> Recommendation:
    """The best split of `budget` that the sweep knows of.

    Raises SettingError below the smallest budget and, unless `extrapolate`, beyond the largest; and
    where nothing has been measured.
    """
    budgets = findings.frontier.budgets
    if not budgets and findings.frontier.fell:
        rule = "every run that was read has lost what it had gained, so that no setting is known"
        nearest = "mode=run with a smaller recipe.learning_rate"
        raise SettingError("mode", "recommend", rule, nearest)
    if not budgets:
        rule = "no run has reached a budget yet"
        raise SettingError("mode", "recommend", rule, "mode=resume, which finishes the sweep")
    first, last = budgets[0].budget, budgets[-1].budget
    if budget * _ROUNDING < first:
        rule = f"lies below {short(first)}, the smallest budget that was measured"
        raise SettingError("budget", f"{budget:g}", rule, f"budget={first:g}")
    _require_no_gap(findings, budget)
    factor = budget / last
    if factor > _ROUNDING and not extrapolate:
        raise _too_far(budget, last, findings)
    cell, expected = (_inside if factor <= _ROUNDING else _beyond)(findings, budget)
    pair = Pair.of(cell)
    # Of the plan's own cells: those read between its budgets have a rounded T.
    runs = {run.run_id: run for run in data.plan.runs if Pair.of(run) == pair}
    cells = [c for c in data.plan.cells if c.run_id in runs]
    own = [cell for cell in cells if cell.budget in runs[cell.run_id].milestones]
    planned = min(own, key=lambda cell: abs(math.log(cell.budget / budget)))
    steps = steps_for(budget, planned.cost_of_step, updates_per_generation(data.curves))
    return Recommendation(
        budget=budget,
        **pair._asdict(),
        num_steps=steps,
        learning_rate=runs[planned.run_id].learning_rate,
        device_hours=planned.device_hours and planned.device_hours * steps / planned.num_steps,
        base_reward=data.base_reward,
        factor=factor,
        **vars(expected),
    )


def _too_far(budget: float, last: float, findings: Findings) -> SettingError:
    reached = "at which a run still has what it gained" if findings.frontier.lost else "reached"
    rule = f"lies {short(budget / last)} times beyond {short(last)}, the largest budget {reached}"
    nearest = f"budget={last:.4g} (or analysis.extrapolate=true, at your own risk)"
    return SettingError("budget", f"{budget:g}", rule, nearest)


def _require_no_gap(findings: Findings, budget: float) -> None:
    """Raise SettingError between two budgets at which no run could be read."""
    budgets = [at.budget for at in findings.frontier.budgets]
    for gap in findings.frontier.gaps:
        before = budgets[budgets.index(gap.after) - 1]
        if before * _ROUNDING < budget < gap.after / _ROUNDING:
            ends = f"between {short(gap.low)} and {short(gap.high)}"
            rule = f"no run has records near enough {ends}, so what n does there is not known"
            nearest = f"budget={before:g} or budget={gap.after:g}"
            raise SettingError("budget", f"{budget:g}", rule, nearest)


def _inside(findings: Findings, budget: float) -> tuple[CellMean, _Expected]:
    """At a budget of the sweep what its report says; between two of them linear in log C, draw by
    draw, over the (n, B) that were read at both."""
    budgets, surface = findings.frontier.budgets, findings.surface
    above = next((i for i, at in enumerate(budgets) if at.budget * _ROUNDING >= budget), -1)
    near, before = budgets[above], budgets[above - 1 if above > 0 else above]
    known = {Pair.of(cell) for cell in before.cells}
    cells = tuple(cell for cell in near.cells if Pair.of(cell) in known)
    if surface is None or budget * _ROUNDING >= near.budget or not cells:
        return _reported(near)
    span = math.log(near.budget / before.budget)
    share = math.log(budget / before.budget) / span
    draws = (1 - share) * surface.draws[:, above - 1] + share * surface.draws[:, above]
    both = surface.supported[above - 1] & surface.supported[above]
    by_n = np.where(both, draws, -np.inf).max(axis=2)
    of_both = {cell.num_generations for cell in cells}
    grid = np.log2(sorted(of_both))

    def within(loss: float) -> Interval:
        drawn = smallest_within(by_n, surface.log2_n, loss)
        return on_grid(interval_of_n(drawn, grid, findings.frontier.confidence), 2.0**grid)

    rewards = surface.at_cells(draws, cells)
    chosen = int(rewards.mean(axis=0).argmax())
    as_good = (rewards >= rewards[:, [chosen]]).mean(axis=0) >= 1 - findings.frontier.confidence
    others = {c.num_generations for c, kept in zip(cells, as_good, strict=True) if kept}
    unread = {*near.missing, *before.missing, *near.measured, *before.measured} - of_both
    return cells[chosen], _Expected(
        n_star=within(0.0),
        n_d=within(findings.saturation.reason.margin),
        alternatives=tuple(sorted(others - {cells[chosen].num_generations})),
        reward=float(rewards[:, chosen].mean()),
        interval=central_ends(rewards[:, chosen], findings.frontier.confidence),
        basis=Basis(kind="surface", budgets=(near.budget, before.budget), num_cells=len(cells)),
        missing=tuple(sorted(unread)),
    )


def _reported(at: BudgetFrontier) -> tuple[CellMean, _Expected]:
    """What the report says at one of its budgets."""
    best, means = at.best, at.best.expected is None
    return best.cell, _Expected(
        n_star=at.optimum.n_star,
        n_d=at.optimum.n_d,
        alternatives=tuple(n for n in at.candidates if n != best.num_generations),
        reward=best.cell.mean if means else best.expected,
        interval=best.interval,
        basis=Basis(
            kind="means" if means else "surface",
            budgets=(at.budget,),
            num_cells=0 if means else len(at.cells),
        ),
        missing=at.missing,
    )


def _beyond(findings: Findings, budget: float) -> tuple[CellMean, _Expected]:
    """Past the last budget: n* as it goes on from there, the n next to it, and B as there."""
    frontier, surface, saturation = findings.frontier, findings.surface, findings.saturation
    last = frontier.budgets[-1]
    choice, n_star, n_d = last.best, None, None
    if surface is not None and saturation.growth is not None:
        n_star = _ahead(surface, findings, budget, 0.0)
        n_d = _ahead(surface, findings, budget, saturation.reason.margin)
        wanted = math.log2(n_star.median)
        choice = min(last.choices, key=lambda c: abs(math.log2(c.num_generations) - wanted))
    return choice.cell, _Expected(
        n_star=n_star,
        n_d=n_d,
        alternatives=tuple(n for n in last.candidates if n != choice.num_generations),
        reward=None,
        interval=None,
        basis=Basis(kind="growth" if n_star else "last n", budgets=(last.budget,)),
        missing=last.missing,
    )


def _ahead(surface: Surface, findings: Findings, budget: float, loss: float) -> Interval:
    """The smallest n that loses at most `loss` of reward, at a budget past the last one: draw by
    draw at its rate at the largest budgets, and inside the grid."""
    frontier = findings.frontier
    drawn = surface.smallest_n(loss)
    rates = end_rates(drawn, surface.budgets, frontier.whole_from)
    grid = np.log2(frontier.measured)
    log2_n = drawn[:, -1] + rates * math.log10(budget / surface.budgets[-1])
    found = interval_of_n(np.clip(log2_n, grid[0], grid[-1]), grid, frontier.confidence)
    return on_grid(found, 2.0**grid)
