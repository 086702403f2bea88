"""Leave the last budget out: what records up to the one before it say of it, against what came.

It shows how far a forecast beyond the sweep can be trusted, at the same distance in compute: that
of the reward, by the runs' own curves, and that of n*, by the laws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isosweep.analysis.bounds import AtLeastOne, Confidence, NotNegative, Positive, Share
from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.forecast import forecast
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.judgement import fit_budgets
from isosweep.analysis.statistics.laws import weigh_laws
from isosweep.analysis.statistics.optima import BestGenerations, Range, on_grid
from isosweep.analysis.statistics.surface import Surface
from isosweep.config.analysis import AnalysisConfig

# Of more runs so many at random are forecast: they tell as much.
_MOST_RUNS = 200


@dataclass(frozen=True, kw_only=True)
class ForecastN:
    """n* at the last budget, forecast from records before it, against what came."""

    ahead: Range
    """What was forecast."""
    found: Interval
    """What all records show."""
    held: bool
    """Whether the median of what they show lies in the interval that was forecast."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Forecasts of the last budget from records before it, against what came."""

    known: Positive
    """Compute up to which records were used, in budget_unit."""
    budget: Positive
    """What was forecast, in budget_unit."""
    num_runs: AtLeastOne
    """Runs forecast."""
    rmse: NotNegative
    """Root mean square error. Reward."""
    persistence_rmse: NotNegative
    """The same, had the reward stayed where it was. Reward."""
    bias: float
    """Mean of forecast - measured. Reward."""
    covered: Share
    """Runs inside their interval."""
    width: NotNegative
    """Mean width of the intervals. Reward."""
    confidence: Confidence
    """Of the intervals."""
    best_n: ForecastN | None = None
    """Of n*; null where no law can be weighed by what was read before, or n* is not known."""


def leave_last_budget_out(
    data: SweepData, config: AnalysisConfig, optima: Sequence[BestGenerations]
) -> Validation | None:
    """None with one budget, or without runs that were read at both of the last two.

    Of the budgets that runs go to: at those that are read between them no run has a record.
    `optima`: n* by all records.
    """
    found = _of_rewards(data, config.confidence)
    return found and replace(found, best_n=_of_n(data, config, optima, found.known, found.budget))


def ahead_n(surface: Surface, frontier: Frontier, budget: float, loss: float) -> Range:
    """The smallest n that loses at most `loss` of reward, of none n*, at a budget past the last
    one, by laws that are weighed on all that were read.

    They take two budgets and two n at least.
    """
    grid, draws = np.log2(frontier.measured), surface.smallest_n(loss).log2_n
    laws = weigh_laws(draws, surface.budgets, grid, frontier.confidence, until=budget)
    return on_grid(laws.curve[-1], 2.0**grid)


def _of_n(
    data: SweepData,
    config: AnalysisConfig,
    optima: Sequence[BestGenerations],
    known: float,
    budget: float,
) -> ForecastN | None:
    found = next((at.interval for at in optima if at.budget == budget), None)
    if found is None:
        return None
    before = tuple(reading for reading in data.readings if reading.cell.budget <= known * 1.01)
    surface, frontier = fit_budgets(replace(data, readings=before), config)
    if surface is None or min(len(surface.budgets), len(frontier.measured)) < 2:
        return None
    ahead = ahead_n(surface, frontier, budget, 0.0)
    return ForecastN(ahead=ahead, found=found, held=ahead.holds(found.median))


def _of_rewards(data: SweepData, confidence: float) -> Validation | None:
    budgets = sorted({milestone for curve in data.curves for milestone in curve.run.milestones})
    if len(budgets) < 2:
        return None
    known, budget = budgets[-2:]
    chosen = [
        curve
        for curve in data.curves
        if curve.run.milestones[-1] == budget and known in curve.run.milestones
    ]
    if len(chosen) > _MOST_RUNS:
        places = np.random.default_rng(0).choice(len(chosen), _MOST_RUNS, replace=False)
        chosen = [chosen[place] for place in np.sort(places)]
    forecasts = []
    for curve in chosen:
        past = (curve.compute > 0) & (curve.compute <= known * 1.01)
        last = int(np.argmin(np.abs(curve.compute - budget))) if curve.compute.size else 0
        if not past.any() or abs(curve.compute[last] / budget - 1) > 0.05:
            continue
        ahead = forecast(
            curve.compute[past], curve.reward[past], curve.compute[last : last + 1], confidence
        )
        if ahead is not None:
            measured = float(curve.reward[last])
            stays = float(curve.reward[past][-1])
            ends = float(ahead.low[0]), float(ahead.high[0])
            forecasts.append((float(ahead.median[0]), *ends, stays, measured))
    if not forecasts:
        return None
    median, low, high, stays, measured = np.array(forecasts).T
    return Validation(
        known=known,
        budget=budget,
        num_runs=len(forecasts),
        rmse=float(np.sqrt(((median - measured) ** 2).mean())),
        persistence_rmse=float(np.sqrt(((stays - measured) ** 2).mean())),
        bias=float((median - measured).mean()),
        covered=float(((low <= measured) & (measured <= high)).mean()),
        width=float((high - low).mean()),
        confidence=confidence,
    )
