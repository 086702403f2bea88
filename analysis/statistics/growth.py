"""How n*(C) changes over the budgets, and how fast it still does at the largest, without a law.

The rate at the end is the slope of the least-squares line of log2 n* over log10 C at the budgets of
the last decade, in doublings per decade. It is worked out alike for draws of what records show and
for the true n*(C) of a simulated world: a world is `saturated` by the rule that a sweep is.
"""

from typing import Literal

import numpy as np

from isosweep.analysis.arrays import FloatArray

# The end of a sweep: budgets within so many decades of the largest, and at least so many of them.
END_DECADES, _END_BUDGETS = 1.0, 3
# A change of n* by less, in doublings, is none.
LEAST_CHANGE = 1.0

Change = Literal["grew", "fell", "constant"]


def end_rates(log2_n: FloatArray, budgets: tuple[float, ...]) -> FloatArray:
    """Doublings of n* per decade of compute at the largest budgets: (...,) of (..., budgets).

    At least two budgets, ascending.
    """
    decades = np.log10(np.array(budgets))
    # A budget that is a decade below but for rounding belongs to it.
    inside = decades >= decades[-1] - END_DECADES - 1e-6
    inside[-_END_BUDGETS:] = True
    away = decades[inside] - decades[inside].mean()
    return np.asarray(log2_n[..., inside] @ away / (away @ away))


def rises(log2_n: FloatArray) -> FloatArray:
    """Doublings by which n* is larger at the last budget than at the first: (...,)."""
    return np.asarray(log2_n[..., -1] - log2_n[..., 0])


def falls(log2_n: FloatArray) -> FloatArray:
    """Doublings by which n* is smaller at the last budget than at its peak: (...,)."""
    return np.asarray(log2_n.max(axis=-1) - log2_n[..., -1])
