"""How to split a budget: n, B, T and learning rate, the reward to expect, and how sure that is.

Inside the budgets that were measured it rests on the reward surface; beyond them n*(C) comes from
the laws, the reward from forecasts of the runs' own curves, and only as far as leaving the last
budget out has shown forecasts to be right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isosweep import words
from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData, updates_per_generation
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.forecast import Forecast, forecast
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean
from isosweep.analysis.statistics.growth import Growth, describe_growth
from isosweep.analysis.statistics.intervals import Interval, central_ends
from isosweep.analysis.statistics.optima import Range, interval_of_n, on_grid
from isosweep.analysis.statistics.surface import Surface, smallest_within
from isosweep.analysis.statistics.validation import ahead_n
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError
from isosweep.plan.cells import Cell, predicted
from isosweep.words.numbers import short

# Budgets are written in rounded factors.
_ROUNDING = 1.01
# Intervals of forecasts may cover this much less than they promise and still be trusted.
_SHORTFALL = 0.2


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What a recommendation rests on.

    `kind`: means, the best mean at the nearest budget, without intervals; surface, the reward
    surface at `budgets`, over `num_cells` (n, B); laws, n* by the laws of n*(C) weighed on budgets
    up to that of `budgets`; last n, the best n there, where no law could be weighed or n* may have
    turned. The last two forecast the reward from the curves of `num_runs` runs.
    """

    kind: Literal["means", "surface", "laws", "last n"]
    budgets: tuple[float, ...]
    num_cells: int = 0
    num_runs: int = 0


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The split of `budget` (in the sweep's unit), among the (n, B) that were measured.

    `best_n`: n*(C) and its interval, and whether it may lie below or above all n that were run;
    `enough`: the same of n_d, the smallest n that is good enough; `missing`: n of the plan that
    were not read at the budgets of `basis`; `alternatives`: other n that cannot be distinguished
    from the chosen one, measured at the nearest budget; `reward`: expected held-out reward, with
    interval (None where the sweep gives none). `factor`: budget over the largest one reached, above
    1 where this extrapolates; `supported`: the factor to which the validation goes.
    `basis`: what it rests on.
    """

    budget: float
    num_generations: int
    problems_per_batch: int
    num_steps: int
    learning_rate: float | None
    device_hours: float | None
    best_n: Interval | None
    open_below: bool
    open_above: bool
    enough: Range | None
    missing: tuple[int, ...]
    alternatives: tuple[int, ...]
    reward: float | None
    interval: tuple[float, float] | None
    base_reward: float | None
    factor: float
    supported: float
    basis: Basis


# Why nothing is recommended beyond the last budget: no reward could be forecast for a check; the
# forecasts cover too little or are no better than "it stays where it is"; no n* could be forecast,
# or it was not where the laws had it; n* grew and may be falling at the end: how far it comes back
# no record just past a peak shows.
Doubt = Literal["unchecked", "rewards", "unchecked n", "n", "turned"]


def doubt_beyond(findings: Findings) -> Doubt | None:
    """Why nothing is to be recommended beyond the last budget; None where something is."""
    checked, growth = findings.validation, growth_of_best(findings)
    confidence = findings.frontier.confidence
    if checked is None:
        return "unchecked"
    # A fall, or a rest, that no growth came before goes on as the laws have it.
    if growth is not None and growth.rate.low < 0 and growth.grew >= 1 - confidence:
        return "turned"
    if growth is None or checked.best_n is None:
        return "unchecked n"
    honest = checked.covered >= confidence - _SHORTFALL
    if not honest or checked.rmse > checked.persistence_rmse:
        return "rewards"
    return None if checked.best_n.held else "n"


def growth_of_best(findings: Findings) -> Growth | None:
    """Growth of n*, whichever n is judged; None where the sweep is too small for it."""
    surface, growth, frontier = findings.surface, findings.saturation.growth, findings.frontier
    if surface is None or growth is None or findings.saturation.quantity == "best":
        return growth
    grid = np.log2(frontier.measured)
    of = grid, frontier.confidence, growth.bound
    return describe_growth(surface.best_n, surface.budgets, *of)


def supported_factor(findings: Findings) -> float:
    """How far beyond the last budget forecasts have been shown to be right: a factor, or 1.

    The distance from the last budget but one to the last.
    """
    checked = findings.validation
    if checked is None or doubt_beyond(findings) is not None:
        return 1.0
    return checked.budget / checked.known


def recommend(
    data: SweepData, findings: Findings, budget: float, *, extrapolate: bool
) -> Recommendation:
    """The best split of `budget` that the sweep knows of.

    Raises SettingError below the smallest budget and, unless `extrapolate`, beyond what the
    validation supports; and where nothing has been measured.
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
    supported = supported_factor(findings)
    if factor > supported * _ROUNDING and not extrapolate:
        raise _too_far(budget, last, supported, findings)
    chosen = _inside(findings, budget) if factor <= _ROUNDING else _beyond(data, findings, budget)
    pair = Pair.of(chosen.cell)
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
        device_hours=_device_hours([c for c in own if c.run_id == planned.run_id], planned, steps),
        base_reward=data.base_reward,
        factor=factor,
        supported=supported,
        **{name: value for name, value in vars(chosen).items() if name != "cell"},
    )


def _device_hours(cells: Sequence[Cell], nearest: Cell, steps: int) -> float | None:
    """What `steps` of a run take: between two of its cells in a straight line, since starting takes
    as long whatever follows; beyond them by the `nearest`. None where nothing was predicted."""
    if nearest.device_hours is None:
        return None
    known = sorted((cell.num_steps, predicted(cell.device_hours)) for cell in cells)
    if not known[0][0] <= steps <= known[-1][0]:
        return nearest.device_hours * steps / nearest.num_steps
    made, hours = zip(*known, strict=True)
    return float(np.interp(steps, made, hours))


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """The chosen (n, B) and what is known of it; fields as in `Recommendation`."""

    cell: CellMean
    best_n: Interval | None
    alternatives: tuple[int, ...]
    reward: float | None
    interval: tuple[float, float] | None
    basis: Basis
    missing: tuple[int, ...]
    open_below: bool = False
    open_above: bool = False
    enough: Range | None = None


def _too_far(budget: float, last: float, supported: float, findings: Findings) -> SettingError:
    doubt, checked = doubt_beyond(findings), findings.validation
    growth = growth_of_best(findings)
    why = words.line("recommend", "doubt", doubt, checked, growth, supported)
    times = short(budget / last)
    reached = "at which a run still has what it gained" if findings.frontier.lost else "reached"
    rule = f"lies {times} times beyond {short(last)}, the largest budget {reached}, and {why}"
    nearest = f"budget={last * supported:.4g} (or analysis.extrapolate=true, at your own risk)"
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


def _inside(findings: Findings, budget: float) -> _Choice:
    """At a budget of the sweep what its report says; between two of them linear in log C, draw by
    draw, over the (n, B) that were read at both."""
    budgets, surface = findings.frontier.budgets, findings.surface
    above = next((i for i, at in enumerate(budgets) if at.budget * _ROUNDING >= budget), -1)
    near, before = budgets[above], budgets[above - 1 if above > 0 else above]
    known = {Pair.of(cell) for cell in before.cells}
    cells = tuple(cell for cell in near.cells if Pair.of(cell) in known)
    if surface is None or budget * _ROUNDING >= near.budget or not cells:
        return _reported(near, findings)
    span = math.log(near.budget / before.budget)
    share = math.log(budget / before.budget) / span
    draws = (1 - share) * surface.draws[:, above - 1] + share * surface.draws[:, above]
    both = surface.supported[above - 1] & surface.supported[above]
    by_n = np.where(both, draws, -np.inf).max(axis=2)
    of_both = {cell.num_generations for cell in cells}
    grid = np.log2(sorted(of_both))

    def within(loss: float) -> Range:
        drawn = smallest_within(by_n, surface.log2_n, loss)
        return on_grid(interval_of_n(drawn, grid, findings.frontier.confidence), 2.0**grid)

    margin = findings.saturation.reason.margin
    unread = {*near.missing, *before.missing, *near.measured, *before.measured} - of_both
    basis = Basis(kind="surface", budgets=(near.budget, before.budget), num_cells=len(cells))
    return _chosen(
        replace(near, cells=cells, missing=tuple(sorted(unread))),
        surface,
        draws,
        within(0.0),
        None if margin is None else within(margin),
        findings.frontier.confidence,
        basis,
    )


def _reported(at: BudgetFrontier, findings: Findings) -> _Choice:
    """What the report says at one of its budgets."""
    best, means = at.best, at.best.expected is None
    optima = findings.saturation.optima
    own = next((each for each in optima if each.budget == at.budget), None)
    return _Choice(
        cell=best.cell,
        best_n=None if own is None else own.interval,
        alternatives=tuple(n for n in at.candidates if n != best.num_generations),
        reward=best.cell.mean if means else best.expected,
        interval=best.interval,
        basis=Basis(
            kind="means" if means else "surface",
            budgets=(at.budget,),
            num_cells=0 if means else len(at.cells),
        ),
        missing=at.missing,
        open_below=own is not None and own.left_censored and not means,
        open_above=own is not None and own.right_censored and not means,
        enough=None if own is None else own.enough,
    )


def _chosen(
    at: BudgetFrontier,
    surface: Surface,
    draws: FloatArray,
    found: Range,
    enough: Range | None,
    confidence: float,
    basis: Basis,
) -> _Choice:
    """The cell of `at` with the highest expected reward in `draws`: (draws, log2 n, batches);
    `found`: n*; `enough`: n_d."""
    rewards = surface.at_cells(draws, at.cells)
    chosen = int(rewards.mean(axis=0).argmax())
    cell = at.cells[chosen]
    as_good = (rewards >= rewards[:, [chosen]]).mean(axis=0) >= 1 - confidence
    others = {c.num_generations for c, kept in zip(at.cells, as_good, strict=True) if kept}
    return _Choice(
        cell=cell,
        best_n=found.interval,
        alternatives=tuple(sorted(others - {cell.num_generations})),
        reward=float(rewards[:, chosen].mean()),
        interval=central_ends(rewards[:, chosen], confidence),
        basis=basis,
        missing=at.missing,
        open_below=found.open_below,
        open_above=found.open_above,
        enough=enough,
    )


def _beyond(data: SweepData, findings: Findings, budget: float) -> _Choice:
    """Past the last budget: n by the laws, or as there if n* may have turned; B as there, the
    reward by forecasts."""
    last, surface = findings.frontier.budgets[-1], findings.surface
    confidence = findings.frontier.confidence
    choice, best_n, below, above, enough = last.best, None, False, False, None
    kind: Literal["laws", "last n"] = "last n"
    if surface is not None and findings.saturation.laws is not None:
        ahead_of = ahead_n(surface, findings.frontier, budget, 0.0)
        if (margin := findings.saturation.reason.margin) is not None:
            enough = ahead_n(surface, findings.frontier, budget, margin)
        best_n, below, above = ahead_of.interval, ahead_of.open_below, ahead_of.open_above
        # Of an n* that turned, the middle of all laws loses more than the n that was best last.
        if doubt_beyond(findings) != "turned":
            wanted = math.log2(best_n.median)
            choice = min(last.choices, key=lambda c: abs(math.log2(c.num_generations) - wanted))
            kind = "laws"
    cell = choice.cell
    ahead = _forecasts(data, Pair.of(cell), budget, confidence)
    median, low, high = _mean(ahead) if ahead else (None, None, None)
    return _Choice(
        cell=cell,
        best_n=best_n,
        alternatives=tuple(n for n in last.candidates if n != cell.num_generations),
        reward=median,
        interval=None if low is None or high is None else (low, high),
        basis=Basis(kind=kind, budgets=(last.budget,), num_runs=len(ahead)),
        missing=last.missing,
        open_below=below,
        open_above=above,
        enough=enough,
    )


def _forecasts(data: SweepData, pair: Pair, budget: float, confidence: float) -> list[Forecast]:
    """Forecasts at `budget` by the curves of one (n, B) that have records enough."""
    curves = [c.until_collapse() for c in data.curves if Pair.of(c.run) == pair]
    at = np.array([budget])
    ahead = [
        forecast(c.compute[c.compute > 0], c.reward[c.compute > 0], at, confidence) for c in curves
    ]
    return [one for one in ahead if one is not None]


def _mean(ahead: Sequence[Forecast]) -> tuple[float, float, float]:
    """Median and ends, each averaged over forecasts of one point."""
    parts = np.array([(one.median[0], one.low[0], one.high[0]) for one in ahead])
    median, low, high = parts.mean(axis=0).tolist()
    return median, low, high
