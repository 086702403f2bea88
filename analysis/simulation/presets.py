"""The presets: every world of `worlds` and the table of planted ones, fitted to a plan's budgets.

COURSES has how n* moves in each planted world, as (decades after the first budget, doublings above
the smallest n) for three decades of budgets and eight doublings of n. Other plans get the same
course stretched over their budgets and their n. What an analysis of unlimited data would say is
worked out by `truth`, for the plan at hand.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isosweep.analysis.simulation.known import KnownWorld
from isosweep.analysis.simulation.planted import Collapse, PlantedWorld
from isosweep.analysis.simulation.worlds import worlds
from isosweep.plan.cells import Plan

_DECADES, _DOUBLINGS = 3.0, 8.0
# C_mid, in decades after the first budget: at the first the gain is a seventh, at the last all.
_MIDPOINT = 1.0

Course = tuple[tuple[float, float], ...]

_PLATEAU: Course = ((0, 1), (0.7, 1.8), (1.5, 4.2), (2, 6), (3, 6))
_RESTING: Course = ((0, 4.5), (3, 4.5))
_FORMS = ("power", "gompertz", "slow")
_LATER = ("straight", "return", "bump")
COURSES: Mapping[str, Course] = {
    # For ever, as a logarithm.
    "logarithm": ((0, 0.8), (0.5, 2.6), (1, 3.9), (1.5, 5.0), (2, 5.9), (2.5, 6.6), (3, 7.2)),
    # For ever, at one rate.
    "straight": ((0, 0.8), (3, 7.2)),
    # Fast, and then by 1.1 doublings a decade for ever.
    "slow_tail": ((0, 1), (0.3, 1.4), (0.9, 4.3), (1.2, 4.9), (2, 5.8), (3, 6.9)),
    # Grows, rests for a decade, grows again.
    "pause": ((0, 1), (0.8, 3.5), (1, 3.7), (1.8, 3.8), (2, 4.1), (3, 7)),
    # Falls by 1.5 doublings after a peak.
    "dip": ((0, 2), (1.2, 6), (1.5, 6.2), (2.4, 5), (3, 4.7)),
    # Falls by as much, and comes back.
    "recovery": ((0, 2), (1, 5.5), (1.2, 5.5), (1.7, 4), (2, 4.2), (3, 6.5)),
    # Rises by three doublings and comes back, slowly; by four, within a decade, between two rests.
    "return": ((0, 2.5), (1.5, 5.5), (3, 2.5)),
    "bump": ((0, 2.5), (1.1, 2.5), (1.6, 6.5), (2.1, 2.5), (3, 2.5)),
    "falling": ((0, 6.5), (3, 2.5)),
    "constant": _RESTING,
    # Growth that ends by a third, and by two thirds, of the range.
    "early": ((0, 1), (0.1, 1.3), (0.5, 3.6), (0.9, 5.7), (1, 6), (3, 6)),
    "plateau": _PLATEAU,
    # The same course, and something else that makes it hard to see.
    "two_humps": _PLATEAU,
    "heavy_tails": _PLATEAU,
    "batch": _PLATEAU,
    "uneven": _PLATEAU,
    "collapses": _PLATEAU,
    # Growth at the end near the bound below which it counts as none.
    **{
        f"near_{round(100 * rate):03d}": (
            *((0.0, 1.0), (1.0, 4.2), (1.6, 5.2), (2.0, 5.3)),
            *((2 + part, 5.3 + part * rate) for part in (0.5, 1.0)),
        )
        for rate in (0.3, 0.4, 0.6, 0.8)
    },
    # `constant`, and rewards that rise by other forms; where n* rests every curve has that form.
    **dict.fromkeys(_FORMS, _RESTING),
}
_NEAR = tuple(name for name in COURSES if name.startswith("near_"))
GROUPS: Mapping[str, tuple[str, ...]] = {
    "old": ("easy", "hard", "flat", "growing", "overfitting", "unstable", "quiet"),
    "new": tuple(name for name in COURSES if name not in (*_NEAR, *_FORMS, *_LATER)),
    # Courses of all kinds for few runs: of six, two come back to where they began.
    "lab": ("constant", "plateau", "logarithm", *_LATER),
    "near": _NEAR,
    "curves": ("constant", *_FORMS),
}


def presets(
    first: float,
    last: float,
    *,
    smallest_n: float,
    largest_n: float,
    midpoint: float | None = None,
) -> dict[str, KnownWorld]:
    """Every preset by name, for budgets from `first` to `last` and a grid of n.

    `midpoint`: C_mid of `worlds`; None: the geometric middle of the budgets.
    """
    known: dict[str, KnownWorld] = {}
    known.update(
        worlds(midpoint or math.sqrt(first * last), smallest_n=smallest_n, largest_n=largest_n)
    )
    known.update(planted_worlds(first, last, smallest_n=smallest_n, largest_n=largest_n))
    return known


def presets_of(plan: Plan, midpoint: float | None = None) -> dict[str, KnownWorld]:
    """Every preset by name, stretched over the budgets and the n of a plan."""
    generations = [cell.num_generations for cell in plan.cells]
    return presets(
        plan.budgets[0],
        plan.budgets[-1],
        smallest_n=min(generations),
        largest_n=max(generations),
        midpoint=midpoint,
    )


def planted_worlds(
    first: float, last: float, *, smallest_n: float, largest_n: float
) -> dict[str, PlantedWorld]:
    """The worlds of COURSES."""
    start, low = math.log10(first), math.log2(smallest_n)
    # A plan of one budget, or of one n, has no course to stretch.
    longer = (math.log10(last / first) or _DECADES) / _DECADES
    wider = (math.log2(largest_n / smallest_n) or _DOUBLINGS) / _DOUBLINGS

    def at(decades: float) -> float:
        return start + decades * longer

    def n(doublings: float) -> float:
        return low + doublings * wider

    special: dict[str, dict[str, Any]] = {
        "two_humps": {"second_hump": 0.93, "second_log2_n": n(3)},
        "heavy_tails": {"seed_sd": 0.06, "seed_freedom": 3.0},
        "batch": {"batch_tilt": 0.5, "tilt_log2_n": n(4), "width_batch": 6.0},
        "uneven": {"missing": 0.3},
        # On the grid of 8 to 2048: half of the runs with n >= 128.
        "collapses": {"collapse": Collapse(share=0.5, log2_n=n(4), start=at(1), end=at(2))},
        **{form: {"rise": form} for form in _FORMS},
    }
    made = {}
    for name, course in COURSES.items():
        world = PlantedWorld(
            name=name,
            knots=tuple((at(decades), n(doublings)) for decades, doublings in course),
            midpoint=10 ** at(_MIDPOINT),
            width_n=7.0 * wider,
        )
        made[name] = replace(world, **special.get(name, {}))
    return made
