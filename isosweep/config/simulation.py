"""Simulated sweeps."""

from dataclasses import dataclass, field

from isosweep.config.rules import one_of, positive, require

# Presets of `isosweep.simulator.worlds`.
WORLDS = ("easy", "hard", "flat", "growing", "overfitting", "unstable", "quiet")


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """`mode=simulate`: `sweeps` simulated sweeps in each of `worlds`, from `seed`.

    `midpoint`: compute, in the budget's unit, around which the best n grows; null puts it at the
    geometric middle of the budgets.
    """

    name: str = "default"
    worlds: list[str] = field(default_factory=lambda: list(WORLDS[:6]))
    sweeps: int = 50
    seed: int = 0
    midpoint: float | None = None

    def __post_init__(self) -> None:
        require(
            bool(self.worlds), "simulation.worlds", [], "names no world", "simulation.worlds=[easy]"
        )
        for world in self.worlds:
            one_of("simulation.worlds", world, WORLDS)
        positive("simulation", self, "sweeps", "midpoint")
        rule = "must be 0 or more"
        require(self.seed >= 0, "simulation.seed", self.seed, rule, "simulation.seed=0")
