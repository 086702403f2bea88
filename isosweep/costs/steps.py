"""T, the update steps that a budget buys, and the budget that T steps spend: one formula.

Given: u updates are made with each generation of n x B rollouts, and an update costs c, in the
budget's unit, with its share of its generation (u = `recipe.mini_batches` x
`recipe.num_iterations`). A run is read off, and ends, after a whole generation.

Solve: T = u k, where k, at least 1, is the smallest whole number with (k + 1/2) u c >= C. That is
the generation nearest to the budget C, of two that are as near the earlier one: where
`compute.has_reached` ends a run. Back: C = T c.

Where a schedule changes c within the run, a phase begins after g generations that spent S, and k
generations have spent S_k = S + (k - g) u c. Given: `compute.has_reached`, by the mean cost so far,
is S_k (1 + 1 / (2k)) >= C. With a = S - g u c, times k: u c k^2 + (a + u c / 2 - C) k + a / 2 >= 0.
Solve: k is the smallest whole number from g on that is not below the larger root; a phase begins
where the one before it comes to its amount.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from isosweep.compute import ROUNDING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# More than any run makes; a budget in the wrong unit may ask for more than 64 bits hold.
_MOST_GENERATIONS = 10**12


# A phase after the first: the amount that it begins at, and what its updates cost.
Phases = Sequence[tuple[float, Floats]]


@overload
def steps_for(budget: float, cost: float, updates: int) -> int: ...
@overload
def steps_for(budget: Floats, cost: Floats | float, updates: int, later: Phases = ()) -> Ints: ...
def steps_for(
    budget: Floats | float, cost: Floats | float, updates: int, later: Phases = ()
) -> Ints | int:
    """T: update steps of the whole generations that end nearest to `budget`, one at least.

    `cost`: of one update, in the unit of `budget`, up to the first phase of `later`; `updates`: of
    one generation. Arrays broadcast.
    """
    least = budget / (cost * updates * ROUNDING) - 0.5
    if not isinstance(least, np.ndarray):
        return updates * math.ceil(min(max(least, 1), _MOST_GENERATIONS))
    generations = np.ceil(np.clip(least, 1, _MOST_GENERATIONS)).astype(np.int64)
    ends, spent = phase_ends(cost, updates, later)
    for (_, own), begun, so_far in zip(later, ends, spent, strict=True):
        beyond = _generations(np.asarray(budget), begun, so_far, own * updates)
        generations = np.where(generations > begun, beyond, generations)
    return updates * generations


def phase_ends(cost: Floats | float, updates: int, later: Phases) -> tuple[list[Ints], list[Any]]:
    """Generations after which each phase of `later` begins, and the compute spent by then."""
    ends: list[Ints] = []
    spent: list[Any] = []
    for after, own in later:
        if not ends:
            ends.append(np.asarray(steps_for(np.array(after), cost, updates)) // updates)
            spent.append(ends[0] * updates * cost)
        else:
            end = _generations(np.array(after), ends[-1], spent[-1], np.asarray(cost) * updates)
            spent.append(spent[-1] + (end - ends[-1]) * updates * cost)
            ends.append(end)
        cost = own
    return ends, spent


def steps_in_phases(steps: Ints, cost: Floats | float, updates: int, later: Phases) -> list[Ints]:
    """How many of `steps` are made in each phase, the first and those of `later`."""
    ends = [end * updates for end in phase_ends(cost, updates, later)[0]]
    done = [np.minimum(steps, end) for end in ends] + [steps]
    return [done[0], *(np.maximum(b - a, 0) for a, b in itertools.pairwise(done))]


def _generations(budget: Floats, begun: Ints, spent: Floats, generation: Floats) -> Ints:
    """The k of the phase that begins after `begun` generations; `generation`: cost of one."""
    wanted = budget / ROUNDING
    a = spent - begun * generation
    b = a + generation / 2 - wanted
    root = (np.sqrt(np.maximum(b * b - 2 * a * generation, 0)) - b) / (2 * generation)
    k = np.ceil(np.clip(root, 1, _MOST_GENERATIONS)).astype(np.int64)
    return np.maximum(k, begun)


@overload
def budget_of(steps: int, cost: float) -> float: ...
@overload
def budget_of(steps: Ints, cost: Floats | float) -> Floats: ...
def budget_of(steps: Ints | int, cost: Floats | float) -> Floats | float:
    """The budget that `steps` updates spend, the inverse of `steps_for`; `cost`: of one update."""
    # NumPy's types lose which kind of float it is.
    spent: Any = steps * cost
    return spent  # type: ignore[no-any-return]


def whole_generations(steps: float, updates: int) -> int:
    """The smallest number of steps, `steps` or more, that whole generations make."""
    return updates * math.ceil(steps / updates)
