"""T, the update steps that a budget buys, and the budget that T steps spend: one formula.

Given: u updates are made with each generation of n x B rollouts, and an update costs c, in the
budget's unit, with its share of its generation (u = `recipe.mini_batches` x
`recipe.num_iterations`). A run is read off, and ends, after a whole generation.

Solve: T = u k, where k, at least 1, is the smallest whole number with (k + 1/2) u c >= C. That is
the generation nearest to the budget C, of two that are as near the earlier one: where
`compute.has_reached` ends a run. Back: C = T c.
"""

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from isosweep.compute import ROUNDING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# More than any run makes; a budget in the wrong unit may ask for more than 64 bits hold.
_MOST_GENERATIONS = 10**12


@overload
def steps_for(budget: float, cost: float, updates: int) -> int: ...
@overload
def steps_for(budget: Floats, cost: Floats | float, updates: int) -> Ints: ...
def steps_for(budget: Floats | float, cost: Floats | float, updates: int) -> Ints | int:
    """T: update steps of the whole generations that end nearest to `budget`, one at least.

    `cost`: of one update, in the unit of `budget`; `updates`: of one generation. Arrays broadcast.
    """
    least = budget / (cost * updates * ROUNDING) - 0.5
    if not isinstance(least, np.ndarray):
        return updates * math.ceil(min(max(least, 1), _MOST_GENERATIONS))
    generations = np.ceil(np.clip(least, 1, _MOST_GENERATIONS)).astype(np.int64)
    return updates * generations


@overload
def budget_of(steps: int, cost: float) -> float: ...
@overload
def budget_of(steps: Ints, cost: Floats | float) -> Floats: ...
def budget_of(steps: Ints | int, cost: Floats | float) -> Floats | float:
    """The budget that `steps` updates spend, the inverse of `steps_for`; `cost`: of one update."""
    # NumPy's types lose which kind of float it is.
    spent: Any = steps * cost
    return spent  # type: ignore[no-any-return]
