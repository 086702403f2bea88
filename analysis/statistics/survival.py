"""How often runs of each n keep what they gain, and what n is worth with those that do not.

A run that has collapsed, or diverged, was paid for like any other. The reward surface is that of
runs that keep their gain; what is to be expected of a new run is

    E[R] = (1 - p) S + p F,

with S the surface, p the chance that a run of this n has fallen by this budget, and F the mean
reward of those that had. p is a Beta posterior: runs of n itself count whole, those of an n that is
k doublings away 1/10^k, and a tenth of a run's worth of the share over all n is its prior. Where no
run of the sweep has fallen, p is 0. A draw has one quantile of p for all budgets, so that a run
that is lost stays lost.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Count
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import Surface

# What a run counts for an n that is a doubling away, and runs that the share over all n counts for:
# few, for what falls is as a rule one end of the grid.
_PER_DOUBLING, _PRIOR_RUNS = 0.1, 0.1


@dataclass(frozen=True, kw_only=True)
class Survival:
    """Of the runs of one n, as far as they were read."""

    num_generations: AtLeastOne
    """Rollouts per problem, n."""
    num_runs: Count
    """Runs that were read at some budget."""
    num_fallen: Count
    """Of them, those that collapsed or diverged by the last budget they were read at."""
    kept: Interval
    """Share of runs of this n that keep their gain."""


def survivals(
    readings: Iterable[CellReading], confidence: float, draws: int = 4000
) -> tuple[Survival, ...]:
    """One for every n, ascending; none where no run has fallen."""
    last: dict[str, CellReading] = {}
    for reading in readings:
        run = reading.cell.run_id
        if _read(reading) and (run not in last or last[run].cell.budget < reading.cell.budget):
            last[run] = reading
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for reading in last.values():
        counts[reading.cell.num_generations][0] += 1
        counts[reading.cell.num_generations][1] += reading.fallen is not None
    if not any(fallen for _, fallen in counts.values()):
        return ()
    sizes = sorted(counts)
    table = np.array([counts[n] for n in sizes], dtype=np.float64)
    quantiles = (np.arange(draws) + 0.5) / draws
    lost = _lost(np.log2(sizes), np.log2(sizes), table, np.tile(quantiles[:, None], len(sizes)))
    return tuple(
        Survival(
            num_generations=n,
            num_runs=counts[n][0],
            num_fallen=counts[n][1],
            kept=Interval.central(1 - lost[:, place], confidence),
        )
        for place, n in enumerate(sizes)
    )


def with_fallen(surface: Surface, readings: Iterable[CellReading], seed: int = 0) -> Surface:
    """The surface of expected rewards, over runs that keep their gain and those that do not."""
    by_budget: dict[float, list[CellReading]] = defaultdict(list)
    for reading in readings:
        if _read(reading):
            by_budget[reading.cell.budget].append(reading)
    if not any(r.fallen is not None for group in by_budget.values() for r in group):
        return surface
    knots = np.log2(sorted({r.cell.num_generations for g in by_budget.values() for r in g}))
    quantiles = np.random.default_rng(seed).random((len(surface.draws), len(knots)))
    between = np.array([np.interp(surface.log2_n, knots, row) for row in np.eye(len(knots))])
    drawn = surface.draws.copy()
    for k, budget in enumerate(surface.budgets):
        group = by_budget[budget]
        fallen = [r.fallen for r in group if r.fallen is not None]
        if not fallen:
            continue
        sizes = sorted({r.cell.num_generations for r in group})
        table = np.array(
            [
                [
                    sum(r.cell.num_generations == n for r in group),
                    sum(r.cell.num_generations == n and r.fallen is not None for r in group),
                ]
                for n in sizes
            ],
            dtype=np.float64,
        )
        lost = (_lost(knots, np.log2(sizes), table, quantiles) @ between)[:, :, None]
        drawn[:, k] = (1 - lost) * drawn[:, k] + lost * (math.fsum(fallen) / len(fallen))
    return replace(surface, draws=drawn)


def _read(reading: CellReading) -> bool:
    return reading.reward is not None or reading.fallen is not None


def _lost(
    log2_n: FloatArray, measured: FloatArray, table: FloatArray, quantiles: FloatArray
) -> FloatArray:
    """Quantiles (draws, log2 n) of the chance to have fallen; `table`: (measured n, 2), runs and
    those of them that have."""
    near = _PER_DOUBLING ** np.abs(log2_n[:, None] - measured)
    runs, fallen = (near @ table).T
    share = _PRIOR_RUNS * float(table[:, 1].sum() / table[:, 0].sum())
    kept = runs - fallen + _PRIOR_RUNS - share
    return np.asarray(special.betaincinv(fallen + share + 1e-9, kept + 1e-9, quantiles))
