"""The presets: worlds that benchmarks name, fitted to a plan's budgets.

COURSES has how n* moves in each planted world, as (decades after the first budget, doublings above
the smallest n) for three decades of budgets and eight doublings of n. Other plans get the same
course stretched over their budgets and their n. What an analysis of unlimited data would say is
worked out by `truth`, for the plan at hand.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isosweep.analysis.simulation.planted import DelayedWorld, PlantedWorld
from isosweep.analysis.simulation.worlds import Collapse, World
from isosweep.plan.cells import Plan

_DECADES, _DOUBLINGS = 3.0, 8.0
# C_mid, in decades after the first budget: at the first the gain is a seventh, at the last all.
_MIDPOINT = 1.0

Course = tuple[tuple[float, float], ...]

_PLATEAU: Course = ((0, 1), (0.7, 1.8), (1.5, 4.2), (2, 6), (3, 6))
_RESTING: Course = ((0, 4.5), (3, 4.5))
FORMS = ("power", "gompertz", "slow")
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
    "shared_luck": _PLATEAU,
    "off_records": _PLATEAU,
    # Growth at the end near the bound below which it counts as none.
    **{
        f"near_{round(100 * rate):03d}": (
            *((0.0, 1.0), (1.0, 4.2), (1.6, 5.2), (2.0, 5.3)),
            *((2 + part, 5.3 + part * rate) for part in (0.5, 1.0)),
        )
        for rate in (0.3, 0.4, 0.6, 0.8)
    },
    # `constant`, and rewards that rise by other forms; where n* rests every curve has that form.
    **dict.fromkeys(FORMS, _RESTING),
}


def presets_of(plan: Plan) -> dict[str, World]:
    """Every preset by name, stretched over the budgets and the n of a plan."""
    generations = [cell.num_generations for cell in plan.cells]
    least, most = min(generations), max(generations)
    first, last = plan.budgets[0], plan.budgets[-1]
    delayed = delayed_worlds(math.sqrt(first * last), least, most)
    return {**delayed, **planted_worlds(first, last, least, most)}


def delayed_worlds(midpoint: float, smallest_n: float, largest_n: float) -> dict[str, DelayedWorld]:
    """Worlds with C_mid at `midpoint`, for a grid of n from `smallest_n` to `largest_n`.

    `easy` and `hard` have the published laws (Playbook, B = 32; rewards and plateaus read off its
    figures), moved along n so that the plateau lies two doublings below the grid's largest n:
    no analysis could find a plateau outside the grid.
    """
    plateau = largest_n / 4
    # The published rise where the grid has room for it, else from its smallest n to the plateau.
    room = max(math.log2(plateau / smallest_n), 1.0)
    easy, hard = (
        DelayedWorld(
            name=name,
            base_reward=base,
            gain=gain,
            midpoint=midpoint,
            saturation_n=plateau,
            **_playbook(min(rise, room), rate),
            seed_luck="lognormal",
            seed_sd=0.03,
            seed_midpoint_sd=0.10,
            wander_sd=0.004,
            wander_decades=0.3,
            # None fall, but whether they do is drawn.
            collapse=_falls(0.0, midpoint),
        )
        for name, base, gain, rise, rate in (
            ("easy", 0.45, 0.25, 6.09, 4.75),
            ("hard", 0.04, 0.10, 4.47, 7.23),
        )
    )
    changed: dict[str, dict[str, Any]] = {
        "flat": {"width_n": math.inf, "delay": 0.0},
        # The optimum runs off the grid: n_sat far above its largest n, and far from reached.
        "growing": {
            "saturation_n": largest_n * 64,
            "width_n": easy.width_n * 2,
            "exponent": easy.exponent / 2,
        },
        "overfitting": {"overfit_from": midpoint * 2, "overfit_slope": 0.02},
        "unstable": {"collapse": _falls(0.1, midpoint), "seed_sd": 0.1},
        "quiet": {"seed_sd": 0.005, "seed_midpoint_sd": 0.02, "wander_sd": 0.001},
    }
    others = {name: replace(easy, name=name, **change) for name, change in changed.items()}
    return {"easy": easy, "hard": hard, **others}


def _playbook(rise: float, rate: float) -> dict[str, float]:
    """What makes log2 n*(C) rise by L = `rise`, at k = `rate` per decade, to the plateau.

    As the Playbook's figures show: log2 n* = L / (1 + exp(-k (log10 C - log10 C0))) + b. At n = 2^b
    a third of the gain is lost in the end, as between the asymptotes of n = 8 and n = 512 on the
    easy set.
    """
    lost, exponent = 1 / 3, rate / math.log(10)
    width = rise * math.sqrt((1 - lost) / lost)
    # At small C the best x is where gain and delay balance: 2 x / (w^2 + x^2) = b c, x = L.
    delay = 2 * rise / (width**2 + rise**2) / exponent
    return {"width_n": width, "delay": delay, "exponent": exponent}


def _falls(share: float, start: float) -> Collapse:
    """Of runs of all n alike, within the decade from `start` on."""
    return Collapse(share=share, start=math.log10(start), end=math.log10(start) + 1)


def planted_worlds(
    first: float, last: float, smallest_n: float, largest_n: float
) -> dict[str, PlantedWorld]:
    """The worlds of COURSES, for budgets from `first` to `last` and a grid of n."""
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
        "heavy_tails": {"seed_sd": 0.06, "seed_luck": "heavy"},
        "batch": {"batch_tilt": 0.5, "tilt_log2_n": n(4), "width_batch": 6.0},
        "uneven": {"missing": 0.3},
        # On the grid of 8 to 2048: half of the runs with n >= 128.
        "collapses": {"collapse": Collapse(share=0.5, log2_n=n(4), start=at(1), end=at(2))},
        # As much luck common to the runs of a seed as of their own; records beside the budgets.
        "shared_luck": {"shared_sd": 0.04},
        "off_records": {"records_per_decade": 4},
        **{form: {"rise": form} for form in FORMS},
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
