"""How long runs take on a number of places, one run a place at a time."""

import heapq
from collections.abc import Sequence


def makespan(durations: Sequence[float], places: int) -> float:
    """When the last run ends if each free place takes the longest run left, in their unit.

    At most 4/3 - 1 / (3 places) times the best schedule (Graham 1969, SIAM J. Appl. Math. 17).
    """
    free = [0.0] * max(1, min(places, len(durations)))
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


def makespan_bound(durations: Sequence[float], places: int) -> float:
    """No schedule ends before this: the longest run, or all work shared evenly."""
    return max(sum(durations) / max(1, places), max(durations, default=0.0))
