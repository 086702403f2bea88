"""Simulated sweeps."""

from dataclasses import field
from typing import Annotated, Literal, get_args

from annotated_types import MinLen
from pydantic import AfterValidator

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt

# Names of `isosweep.analysis.simulation.presets`.
World = Literal[
    "easy",
    "hard",
    "flat",
    "growing",
    "overfitting",
    "unstable",
    "quiet",
    "logarithm",
    "slow_tail",
    "pause",
    "dip",
    "recovery",
    "straight",
    "return",
    "bump",
    "falling",
    "constant",
    "early",
    "plateau",
    "two_humps",
    "heavy_tails",
    "batch",
    "uneven",
    "collapses",
    "near_030",
    "near_040",
    "near_060",
    "near_080",
    "power",
    "gompertz",
    "slow",
]
WORLDS: tuple[World, ...] = get_args(World)


def _none_or_several(designs: int) -> int:
    if designs == 1:
        raise ValueError("is 0, or how many designs are compared, the plan among them: 2 or more")
    return designs


@settings("simulation")
class SimulationConfig:
    """What `mode=simulate` simulates."""

    name: str = "default"
    """Name of this choice of settings."""
    worlds: Annotated[Listed[World], MinLen(1)] = field(default_factory=lambda: list(WORLDS[:6]))
    """How the best n moves in the simulated worlds; docs/simulation.md describes them."""
    sweeps: PositiveInt = 50
    """Sweeps simulated in each world; in a search of designs, for those in its last round."""
    designs: Annotated[NonNegativeInt, AfterValidator(_none_or_several)] = 0
    """Designs with about the plan's compute that are compared; 0: only the plan is simulated."""
    seed: NonNegativeInt = 0
    """Random seed of the simulation."""
    midpoint: Positive | None = None
    """Compute around which the best n grows, in the budget's unit; null: the geometric middle of
    the budgets."""
