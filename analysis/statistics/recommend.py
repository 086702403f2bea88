"""How to split a budget: n, B, T and learning rate, the reward to expect, and how sure that is.

Inside the budgets that were measured it rests on the reward surface; beyond them n*(C) comes from
the laws, the reward from forecasts of the runs' own curves, and only as far as leaving the last
budget out has shown forecasts to hold.
"""

import math
from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.forecast import forecast
from isosweep.analysis.statistics.frontier import BudgetFrontier, CellMean
from isosweep.analysis.statistics.laws import Interval, weigh_laws
from isosweep.analysis.statistics.surface import Surface
from isosweep.analysis.statistics.validation import Validation
from isosweep.errors import SettingError

# Budgets are written in rounded factors.
_ROUNDING = 1.01
# Intervals of forecasts may hold this much less than they promise and still be trusted.
_SHORTFALL = 0.2


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The split of `budget` (in the sweep's unit), among the (n, B) that were measured.

    `best_n`: n*(C) and its interval; `alternatives`: other n that cannot be told apart from the
    chosen one, measured at the nearest budget; `reward`: expected held-out reward, with interval
    (None where the sweep gives none). `factor`: budget over the largest one reached, above 1
    where this extrapolates; `supported`: the factor to which the validation goes. `rests_on`
    says in words what it stands on.
    """

    budget: float
    num_generations: int
    problems_per_batch: int
    num_steps: int
    learning_rate: float
    device_hours: float
    best_n: Interval | None
    alternatives: tuple[int, ...]
    reward: float | None
    interval: tuple[float, float] | None
    base_reward: float | None
    factor: float
    supported: float
    rests_on: str


def supported_factor(validation: Validation | None, confidence: float) -> float:
    """How far beyond the last budget forecasts have been shown to hold: a factor, 1 for nowhere.

    The distance from the last budget but one to the last, if the interval's coverage there is not
    far below what it promises and forecasts beat "it stays where it is".
    """
    if validation is None:
        return 1.0
    honest = validation.covered >= confidence - _SHORTFALL
    useful = validation.rmse <= validation.persistence_rmse
    return validation.budget / validation.known if honest and useful else 1.0


def recommend(
    data: SweepData, findings: Findings, budget: float, *, extrapolate: bool
) -> Recommendation:
    """The best split of `budget` that the sweep knows of.

    Raises SettingError below the smallest budget and, unless `extrapolate`, beyond what the
    validation supports; and where nothing has been measured.
    """
    budgets = findings.frontier.budgets
    if not budgets:
        rule = "no run has reached a budget yet"
        raise SettingError("mode", "recommend", rule, "mode=resume, which finishes the sweep")
    first, last = budgets[0].budget, budgets[-1].budget
    if budget * _ROUNDING < first:
        rule = f"lies below {first:.3g}, the smallest budget that was measured"
        raise SettingError("budget", f"{budget:g}", rule, f"budget={first:g}")
    factor = budget / last
    supported = supported_factor(findings.validation, findings.frontier.confidence)
    if factor > supported * _ROUNDING and not extrapolate:
        raise _too_far(budget, last, supported, findings)
    found = _inside(findings, budget) if factor <= _ROUNDING else _beyond(data, findings, budget)
    n, B = found.cell.num_generations, found.cell.problems_per_batch
    planned = max(
        (
            cell
            for cell in data.plan.cells
            if (cell.num_generations, cell.problems_per_batch) == (n, B)
        ),
        key=lambda cell: cell.budget,
    )
    run = next(run for run in data.plan.runs if run.run_id == planned.run_id)
    steps = max(1, math.floor(budget / planned.planned_compute * planned.num_steps))
    bases = [c.base_reward for c in data.curves if c.base_reward is not None]
    return Recommendation(
        budget=budget,
        num_generations=n,
        problems_per_batch=B,
        num_steps=steps,
        learning_rate=run.learning_rate,
        device_hours=planned.device_hours * steps / planned.num_steps,
        best_n=found.best_n,
        alternatives=found.alternatives,
        reward=found.reward,
        interval=found.interval,
        base_reward=math.fsum(bases) / len(bases) if bases else None,
        factor=factor,
        supported=supported,
        rests_on=found.rests_on,
    )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The chosen (n, B) and what is known of it; fields as in `Recommendation`."""

    cell: CellMean
    best_n: Interval | None
    alternatives: tuple[int, ...]
    reward: float | None
    interval: tuple[float, float] | None
    rests_on: str


def _too_far(budget: float, last: float, supported: float, findings: Findings) -> SettingError:
    checked = findings.validation
    if checked is None:
        why = "no forecast could be checked"
    elif supported == 1.0:
        why = (
            f"forecasts from {checked.known:.3g} to {checked.budget:.3g} held "
            f"{checked.covered:.0%} of rewards in {checked.confidence:.0%} intervals, their error "
            f"{checked.rmse:.3f} against {checked.persistence_rmse:.3f} for no change at all"
        )
    else:
        why = f"forecasts were checked over a factor of {supported:.3g}"
    rule = (
        f"lies {budget / last:.3g} times beyond {last:.3g}, the largest budget reached, and {why}"
    )
    nearest = f"budget={last * supported:.4g} (or analysis.extrapolate=true, at your own risk)"
    return SettingError("budget", f"{budget:g}", rule, nearest)


def _inside(findings: Findings, budget: float) -> _Found:
    """Between two measured budgets: linear in log C, draw by draw."""
    budgets = findings.frontier.budgets
    above = next((i for i, at in enumerate(budgets) if at.budget * _ROUNDING >= budget), -1)
    near = budgets[above]
    surface = findings.surface
    if surface is None:
        return _measured(near, "One seed: the best mean at the nearest budget, without intervals.")
    below = max(above - 1, 0)
    share = 1.0
    if above > below:
        span = math.log(near.budget / budgets[below].budget)
        share = min(1.0, math.log(budget / budgets[below].budget) / span)
    draws = (1 - share) * surface.draws[:, below] + share * surface.draws[:, above]
    best = surface.log2_n[draws.max(axis=2).argmax(axis=1)]
    return _chosen(
        near,
        surface,
        draws,
        _interval(2.0**best, findings.frontier.confidence),
        findings.frontier.confidence,
        f"The reward surface at {near.budget:.3g}"
        + (f" and {budgets[below].budget:.3g}" if share < 1 else "")
        + f", over {len(near.cells)} (n, B).",
    )


def _measured(at: BudgetFrontier, rests_on: str) -> _Found:
    return _Found(
        cell=at.best.cell,
        best_n=None,
        alternatives=tuple(n for n in at.candidates if n != at.best.num_generations),
        reward=at.best.cell.mean,
        interval=None,
        rests_on=rests_on,
    )


def _chosen(
    at: BudgetFrontier,
    surface: Surface,
    draws: FloatArray,
    best_n: Interval,
    confidence: float,
    rests_on: str,
) -> _Found:
    """The cell of `at` with the highest expected reward in `draws`: (draws, log2 n, batches)."""
    rows = [surface.column(cell.num_generations) for cell in at.cells]
    columns = [surface.batches.index(cell.problems_per_batch) for cell in at.cells]
    rewards = draws[:, rows, columns]
    chosen = int(rewards.mean(axis=0).argmax())
    cell = at.cells[chosen]
    as_good = (rewards >= rewards[:, [chosen]]).mean(axis=0) >= 1 - confidence
    others = {c.num_generations for c, kept in zip(at.cells, as_good, strict=True) if kept}
    return _Found(
        cell=cell,
        best_n=best_n,
        alternatives=tuple(sorted(others - {cell.num_generations})),
        reward=float(rewards[:, chosen].mean()),
        interval=_range(rewards[:, chosen], confidence),
        rests_on=rests_on,
    )


def _beyond(data: SweepData, findings: Findings, budget: float) -> _Found:
    """Past the last budget: n by the laws, B as there, the reward by forecasts."""
    last, surface = findings.frontier.budgets[-1], findings.surface
    confidence = findings.frontier.confidence
    choice, best_n = last.best, None
    told = f"the best n at {last.budget:.3g}, since no law of n*(C) could be weighed"
    if surface is not None and findings.saturation.laws is not None:
        grid = np.log2(sorted({n for at in findings.frontier.budgets for n in at.measured}))
        laws = weigh_laws(surface.log2_best_n, surface.budgets, grid, confidence, until=budget)
        best_n = laws.curve[-1]
        wanted = math.log2(best_n.median)
        choice = min(last.choices, key=lambda c: abs(math.log2(c.num_generations) - wanted))
        told = f"laws of n*(C) weighed on budgets up to {last.budget:.3g}"
    cell = choice.cell
    ahead = [
        found
        for curve in data.curves
        if (curve.run.num_generations, curve.run.problems_per_batch)
        == (cell.num_generations, cell.problems_per_batch)
        for kept in [curve.until_collapse()]
        for past in [kept.compute > 0]
        if (
            found := forecast(kept.compute[past], kept.reward[past], np.array([budget]), confidence)
        )
    ]
    medians, lows, highs = (
        [float(getattr(found, name)[0]) for found in ahead] for name in ("median", "low", "high")
    )
    return _Found(
        cell=cell,
        best_n=best_n,
        alternatives=tuple(n for n in last.candidates if n != cell.num_generations),
        reward=float(np.mean(medians)) if ahead else None,
        interval=(float(np.mean(lows)), float(np.mean(highs))) if ahead else None,
        rests_on=f"Extrapolated {budget / last.budget:.3g} times: {told}; B as at that budget; the "
        f"reward forecast from the curves of {len(ahead)} runs.",
    )


def _interval(values: FloatArray, confidence: float) -> Interval:
    low, high = _range(values, confidence)
    return Interval(median=float(np.median(values)), low=low, high=high)


def _range(values: FloatArray, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(values, (0.5 - confidence / 2, 0.5 + confidence / 2))
    return float(low), float(high)
