"""The expected reward of every (n, B) against compute, in draws: what is read off single settings.

Draws are those of the reward surface, so settings are paired as seeds pair them, and runs that
fall count. Without a surface there is one draw: the measured means.
"""

from dataclasses import dataclass

import numpy as np

from isosweep.analysis.arrays import BoolArray, FloatArray
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.surface import Surface


@dataclass(frozen=True, kw_only=True, eq=False)
class Courses:
    """`pairs`: every (n, B) that was read, ascending; `budgets`: (budgets,), ascending; `reward`:
    (draws, pairs, budgets) expected, and `measured`: (pairs, budgets) means over seeds, nan where a
    setting was not read; `drawn`: whether there is a spread between seeds."""

    pairs: tuple[Pair, ...]
    budgets: FloatArray
    reward: FloatArray
    measured: FloatArray
    drawn: bool

    @property
    def read(self) -> BoolArray:
        """Where settings were read: (pairs, budgets)."""
        return np.asarray(np.isfinite(self.measured))


def courses_of(frontier: Frontier, surface: Surface | None) -> Courses:
    """Of all settings that were read at some budget of the frontier."""
    pairs = sorted({Pair.of(cell) for at in frontier.budgets for cell in at.cells})
    place = {pair: i for i, pair in enumerate(pairs)}
    measured = np.full((len(pairs), len(frontier.budgets)), np.nan)
    reward = None if surface is None else np.full((len(surface.draws), *measured.shape), np.nan)
    for k, at in enumerate(frontier.budgets):
        here = [place[Pair.of(cell)] for cell in at.cells]
        measured[here, k] = [cell.mean for cell in at.cells]
        if surface is not None and reward is not None:
            reward[:, here, k] = surface.at_cells(surface.draws[:, k], at.cells)
    return Courses(
        pairs=tuple(pairs),
        budgets=np.array([at.budget for at in frontier.budgets]),
        reward=measured[None] if reward is None else reward,
        measured=measured,
        drawn=surface is not None,
    )
