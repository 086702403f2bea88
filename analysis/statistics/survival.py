"""How often runs of each n keep what they gain, and what n is worth with those that do not.

A run that has collapsed, or diverged, was paid for like any other. The reward surface is that of
runs that keep their gain; what is to be expected of a new run is

    E[R] = (1 - p) S + p F,

with S the surface, p the chance that a run of this n has fallen by this budget, and F the mean
reward of those that had. What falls is as a rule one end of the grid: p has one value below some n
and another from there on, each Beta(1/2, 1/2) before the counts, and every n of the grid is equally
likely to be that place, as is none. So an n whose few runs all lasted, among others whose runs did
not, is not taken for safe, and those on the other side do not suffer; between the two n at that
place p is interpolated in log n. Where no run of the sweep has fallen, p is 0. A draw has the same
quantiles at all budgets, so that a run that is lost stays lost.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray, IntArray
from isosweep.analysis.bounds import AtLeastOne, Count
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import Surface

# Draws of the shares that are kept.
_DRAWS = 4000


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


def survivals(readings: Iterable[CellReading], confidence: float) -> tuple[Survival, ...]:
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
    table = np.array([counts[n] for n in sizes])
    chance = np.random.default_rng(0).random((_DRAWS, 3))
    lost = _lost(np.log2(sizes), np.log2(sizes), table, chance)
    return tuple(
        Survival(
            num_generations=n,
            num_runs=counts[n][0],
            num_fallen=counts[n][1],
            kept=Interval.central(1 - lost[:, place], confidence),
        )
        for place, n in enumerate(sizes)
    )


def with_fallen(surface: Surface, readings: Iterable[CellReading]) -> Surface:
    """The surface of expected rewards, over runs that keep their gain and those that do not.

    An n of which no run is left at a budget was run there all the same.
    """
    by_budget: dict[float, list[CellReading]] = defaultdict(list)
    for reading in readings:
        if _read(reading):
            by_budget[reading.cell.budget].append(reading)
    if not any(r.fallen is not None for group in by_budget.values() for r in group):
        return surface
    chance = np.random.default_rng(0).random((len(surface.draws), 3))
    kept = [r for group in by_budget.values() for r in group if r.reward is not None]
    known = {r.cell.num_generations for r in kept}  # the others lie off the surface
    drawn, supported = surface.draws.copy(), surface.supported.copy()
    measured = surface.measured.copy()
    for k, budget in enumerate(surface.budgets):
        group = by_budget[budget]
        fallen = [r.fallen for r in group if r.fallen is not None]
        if not fallen:
            continue
        sizes = sorted({r.cell.num_generations for r in group})
        of_n = np.array([r.cell.num_generations for r in group])
        gone = np.array([r.fallen is not None for r in group])
        table = np.array([[(of_n == n).sum(), gone[of_n == n].sum()] for n in sizes])
        lost = _lost(surface.log2_n, np.log2(sizes), table, chance)[:, :, None]
        drawn[:, k] = (1 - lost) * drawn[:, k] + lost * (math.fsum(fallen) / len(fallen))
        several = len(surface.batches) > 1
        for j, batch in enumerate(surface.batches):
            ran = {
                r.cell.num_generations
                for r in group
                if r.cell.problems_per_batch == batch or not several
            } & known
            if ran:
                columns = [surface.column(n) for n in ran]
                measured[k, columns] = True
                supported[k, min(columns) : max(columns) + 1, j] = True
    return replace(surface, draws=drawn, supported=supported, measured=measured)


def _read(reading: CellReading) -> bool:
    return reading.reward is not None or reading.fallen is not None


def _lost(
    log2_n: FloatArray, measured: FloatArray, table: IntArray, chance: FloatArray
) -> FloatArray:
    """Draws (draws, log2 n) of the chance to have fallen.

    `table`: (measured n, 2), runs and those of them that have; `chance`: (draws, 3), uniform:
    quantiles of the place where the chance changes, and of both chances.
    """
    kept, fallen = (table[:, 0] - table[:, 1]).astype(float), table[:, 1].astype(float)
    # Before place j lie the first j of the measured n; before place 0 none does.
    below = np.tri(len(table) + 1, len(table), -1)[:-1]
    low = 0.5 + below @ fallen, 0.5 + below @ kept
    high = 0.5 + (1 - below) @ fallen, 0.5 + (1 - below) @ kept
    evidence = special.softmax(special.betaln(*low) + special.betaln(*high))
    place = np.minimum(np.searchsorted(np.cumsum(evidence), chance[:, 0]), len(table) - 1)
    first = special.betaincinv(low[0][place], low[1][place], chance[:, 1])
    second = special.betaincinv(high[0][place], high[1][place], chance[:, 2])
    past = np.arange(len(table)) >= place[:, None]
    at_measured = np.where(past, second[:, None], first[:, None])
    between = np.array([np.interp(log2_n, measured, row) for row in np.eye(len(table))])
    return np.asarray(at_measured @ between)
