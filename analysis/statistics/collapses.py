"""How often runs of each n keep what they gain, and what n is worth with those that do not.

A run that has collapsed, or diverged, was paid for like any other. The reward surface is that of
runs that keep their gain; what is to be expected of a new run is

    E[R] = (1 - p) S + p F,

with S the surface, p the chance that a run of this n has fallen by this budget, and F the mean
reward of those that had. What falls is as a rule one end of the grid, or both: p has one value
below some n, another from there on, and a third past a second n (a step-change model), each
Beta(1/2, 1/2) before the counts. One place or none is as likely as two, and every n of the grid as
likely to be it. So an n whose few runs all lasted, among others whose runs did not, is not taken
for safe, and those on the other side do not suffer; between the two n at a place p is interpolated
in log n. A draw has the same quantiles at all budgets, so that a run that is lost stays lost.

Where no run of the sweep has fallen by a budget, p is 0, and not the Beta's mean of 1 / (2 runs +
2): that would take 0.014 off the reward of ten runs which would lose 0.3, from nothing seen. F has
no error of its own: with s the spread of what fallen runs are left with, it would widen E[R] by the
root of 1 + s^2 / ((1 - p) (S - F)^2), which is 3% where s = 0.05, p = 0.5 and S - F = 0.3.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import AtLeastOne, Count
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.surface import Surface

# Draws of the shares of runs that keep their gain.
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


def survivals(readings: Sequence[CellReading], confidence: float) -> tuple[Survival, ...]:
    """One for every n, ascending; none where no run has fallen."""
    by_budget = sorted(filter(_is_read, readings), key=lambda reading: reading.cell.budget)
    last = {reading.cell.run_id: reading for reading in by_budget}
    if all(reading.fallen is None for reading in last.values()):
        return ()
    counts = _counts(last.values())
    log2_n = np.log2([*counts])
    chance = np.random.default_rng(0).random((_DRAWS, 4))
    lost = _share_lost(log2_n, counts, chance)
    return tuple(
        Survival(
            num_generations=n,
            num_runs=runs,
            num_fallen=fallen,
            kept=Interval.central(1 - lost[:, place], confidence),
        )
        for place, (n, (runs, fallen)) in enumerate(counts.items())
    )


def with_fallen(surface: Surface, readings: Sequence[CellReading]) -> Surface:
    """The surface of expected rewards, over runs that keep their gain and those that do not.

    An n of which no run is left at a budget was run there all the same, if some budget has others.
    """
    read = [reading for reading in readings if _is_read(reading)]
    if all(reading.fallen is None for reading in read):
        return surface
    chance = np.random.default_rng(0).random((len(surface.draws), 4))
    on_surface = {r.cell.num_generations for r in read if r.reward is not None}
    draws, supported = surface.draws.copy(), surface.supported.copy()
    measured = surface.measured.copy()
    for k, budget in enumerate(surface.budgets):
        here = [reading for reading in read if reading.cell.budget == budget]
        fallen = [reading.fallen for reading in here if reading.fallen is not None]
        if not fallen:
            continue
        lost = _share_lost(surface.log2_n, _counts(here), chance)[:, :, None]
        draws[:, k] = (1 - lost) * draws[:, k] + lost * (math.fsum(fallen) / len(fallen))
        cells = [r.cell for r in here if r.cell.num_generations in on_surface]
        for j, batch in enumerate(surface.batches):
            columns = [
                surface.column(cell.num_generations)
                for cell in cells
                if len(surface.batches) == 1 or cell.problems_per_batch == batch
            ]
            if columns:
                measured[k, columns] = True
                supported[k, min(columns) : max(columns) + 1, j] = True
    return replace(surface, draws=draws, supported=supported, measured=measured)


def _is_read(reading: CellReading) -> bool:
    return reading.reward is not None or reading.fallen is not None


def _counts(readings: Iterable[CellReading]) -> dict[int, tuple[int, int]]:
    """Runs of each n, ascending, and how many of them have fallen."""
    fallen: dict[int, list[bool]] = {}
    for reading in readings:
        fallen.setdefault(reading.cell.num_generations, []).append(reading.fallen is not None)
    return {n: (len(runs), sum(runs)) for n, runs in sorted(fallen.items())}


def _share_lost(
    log2_n: FloatArray, counts: dict[int, tuple[int, int]], chance: FloatArray
) -> FloatArray:
    """Draws (draws, log2 n) of the chance to have fallen.

    `counts`: as of `_counts`; `chance`: (draws, 4), uniform: quantiles of the places where the
    chance changes, and of the three chances.
    """
    runs, fallen = np.array([*counts.values()], dtype=np.float64).T
    places = np.arange(len(runs))
    one = [(0, k) for k in places]
    two = [(j, k) for k in places for j in range(1, k)]
    # Of each pair of places, in which of three parts every measured n lies; (0, 0): all in one.
    part = np.array([(places >= j).astype(int) + (places >= k) for j, k in one + two])
    inside = part[:, None] == np.arange(3)[:, None]
    lost, kept = 0.5 + inside @ fallen, 0.5 + inside @ (runs - fallen)
    prior = np.repeat([1 / len(one), 1 / max(len(two), 1)], [len(one), len(two)])
    evidence = np.cumsum(prior * special.softmax(special.betaln(lost, kept).sum(axis=1)))
    drawn = np.searchsorted(evidence / evidence[-1], chance[:, 0])
    share = special.betaincinv(lost[drawn], kept[drawn], chance[:, 1:])
    at_measured = np.take_along_axis(share, part[drawn], axis=1)
    between = np.array([np.interp(log2_n, np.log2([*counts]), row) for row in np.eye(len(runs))])
    return np.asarray(at_measured @ between)
