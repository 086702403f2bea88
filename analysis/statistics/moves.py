"""Whether n* moves with the updates on each rollout, or with the size of the model.

At every budget of entries that differ in nothing else: the slope of log2 n* over log2 of the
amount, by draws of each entry's own surface. Draws of two entries are taken to be independent;
seeds that draw the same problems make the interval too wide rather than too narrow. An n* that may
lie off the grid leaves that end of the slope open which it could move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.bounds import Positive
from isosweep.analysis.statistics.across import Across, Group
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.intervals import central_quantiles
from isosweep.analysis.statistics.optima import Range
from isosweep.analysis.statistics.surface import HALF_STEP
from isosweep.analysis.statistics.updates import SETTINGS, updates_of

Mover = Literal["updates", "parameters"]
# Through fewer n no best one is told from an edge of the grid.
_MIN_N = 3


@dataclass(frozen=True, kw_only=True)
class Shift:
    """By how much an n changes with every doubling of an amount; a null end is open."""

    value: Positive | None
    """Factor, median of the draws; null with an open end."""
    low: Positive | None
    """Lower end."""
    high: Positive | None
    """Upper end."""
    direction: Literal["up", "down"] | None
    """Which way the n moves; null where the interval holds 1."""


@dataclass(frozen=True, kw_only=True)
class Moves:
    """n* and n_d of entries that differ in one amount, at one budget."""

    entries: tuple[str, ...]
    """Entries, by the amount, ascending."""
    budget: Positive
    """In the budgets' unit."""
    of: Mover
    """The amount: updates with every generation, or parameters of the model."""
    amounts: tuple[Positive, ...]
    """The amount of each entry."""
    n_star: tuple[Range, ...]
    """n*, the best n, of each."""
    n_d: tuple[Range, ...]
    """The smallest n that is good enough, of each."""
    best: Shift
    """How n* moves."""
    enough: Shift
    """How n_d moves."""


class At(NamedTuple):
    """A budget; the key of what is seen at it."""

    budget: float


class Seen(NamedTuple):
    """n* and n_d of one entry at one budget, each with draws of its log2: (draws,)."""

    ranges: tuple[Range, Range]
    draws: tuple[FloatArray, FloatArray]


def _seen(margin: float, entry: Entry) -> dict[At, Seen]:
    """n* and n_d at every budget; nothing without draws, or with fewer than three n."""
    surface = entry.findings.surface
    if surface is None or len(entry.data.generations) < _MIN_N:
        return {}
    drawn = surface.best_n.log2_n, surface.smallest_n(margin).log2_n
    found = {}
    for optimum in entry.findings.saturation.optima:
        best, enough = optimum.of("best"), optimum.enough
        if best is not None and enough is not None and optimum.budget in surface.budgets:
            k = surface.budgets.index(optimum.budget)
            draws = drawn[0][:, k], drawn[1][:, k]
            found[At(optimum.budget)] = Seen((best, enough), draws)
    return found


def _moves(of: Mover) -> Callable[[Group[At, float, Seen]], Moves]:
    def fit(group: Group[At, float, Seen]) -> Moves:
        best, enough = (
            find_shift(
                group.amounts,
                [seen.ranges[k] for seen in group.seen],
                [seen.draws[k] for seen in group.seen],
                group.confidence,
            )
            for k in (0, 1)
        )
        return Moves(
            **group.labels,
            of=of,
            amounts=group.amounts,
            n_star=tuple(seen.ranges[0] for seen in group.seen),
            n_d=tuple(seen.ranges[1] for seen in group.seen),
            best=best,
            enough=enough,
        )

    return fit


def moves(entries: Sequence[Entry], margin: float, confidence: float) -> tuple[Moves, ...]:
    """One for every amount and budget that three entries or more have, budgets ascending."""
    amounts: tuple[tuple[Mover, tuple[str, ...], Callable[[Entry], float | None]], ...] = (
        ("updates", SETTINGS, updates_of),
        ("parameters", ("model.",), lambda entry: entry.parameters),
    )
    rows = [
        Across(
            varied=varied,
            amount=amount,
            read=lambda entry, _: _seen(margin, entry),
            fit=_moves(of),
        )
        for of, varied, amount in amounts
    ]
    return tuple(law for row in rows for law in row.laws(entries, margin, confidence))


def find_shift(
    amounts: Sequence[float],
    ranges: Sequence[Range],
    draws: Sequence[FloatArray],
    confidence: float,
) -> Shift:
    """Of `amounts`, with the n of each and its draws of log2 n."""
    away = np.log2(np.array(amounts, dtype=np.float64))
    away -= away.mean()
    size = min(map(len, draws))
    # The draws of entries were made with one seed: they are turned, each by its own part.
    turned = [np.roll(each[:size], k * size // len(draws)) for k, each in enumerate(draws)]
    pull = away / (away @ away)
    middle, low, high = central_quantiles(pull @ np.array(turned), confidence).tolist()
    # Draws lie on the axis of the surface: each stands for half a step of it on both sides.
    step = HALF_STEP * float(np.abs(pull).sum())
    low, high = low - step, high + step
    above = np.array([of.open_above for of in ranges])
    below = np.array([of.open_below for of in ranges])
    open_high = bool(((away > 0) & above).any() or ((away < 0) & below).any())
    open_low = bool(((away < 0) & above).any() or ((away > 0) & below).any())
    up, down = low > 0 and not open_low, high < 0 and not open_high
    return Shift(
        value=None if open_low or open_high else 2.0**middle,
        low=None if open_low else 2.0**low,
        high=None if open_high else 2.0**high,
        direction="up" if up else "down" if down else None,
    )
