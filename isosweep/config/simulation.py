"""Simulated sweeps."""

from dataclasses import field
from typing import Annotated, Literal, get_args

from annotated_types import MinLen

from isosweep.config.settings import settings
from isosweep.config.values import Listed, NonNegativeInt, Positive, PositiveInt, Says

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


@settings("simulation")
class SimulationConfig:
    """What `mode=simulate` simulates."""

    name: str = "default"
    """Name of this choice of settings."""
    worlds: Annotated[Listed[World], MinLen(1), Says("names no world", "[easy]")] = field(
        default_factory=lambda: list(WORLDS[:6])
    )
    """How n*(C) behaves in the simulated worlds."""
    sweeps: PositiveInt = 50
    """Sweeps simulated in each world."""
    seed: NonNegativeInt = 0
    """Seed of the simulation."""
    midpoint: Positive | None = None
    """Compute, in the budget's unit, around which the best n grows; null: the geometric middle of
    the budgets."""
