"""The candidates of a sweep."""

from dataclasses import dataclass
from typing import Any

from isosweep.config.rules import distinct, positive, require, shortened


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """The candidates: every n x B x seed at every budget, for every value of the `axes`.

    A candidate is planned if its best whole number of steps lies in [`min_steps`, `max_steps`],
    spends within `tolerance` (a fraction) of the budget, does not exceed
    `max_completions_per_step` = n x B, and passes over the training problems at most `max_epochs`
    times. `completions_per_step` keeps only the pairs whose n x B it lists. `axes` maps a setting
    of the recipe, task or model (`recipe.num_iterations`), or `model` itself, to its values.
    """

    name: str
    num_generations: list[int]
    problems_per_batch: list[int]
    seeds: list[int]
    tolerance: float
    min_steps: int
    max_steps: int
    max_completions_per_step: int
    max_epochs: float
    completions_per_step: list[int] | None = None
    axes: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        distinct(
            "grid.num_generations",
            self.num_generations,
            2,
            "GRPO compares the rollouts of one problem with each other and needs n >= 2",
        )
        distinct("grid.problems_per_batch", self.problems_per_batch, 1, "B must be 1 or more")
        distinct("grid.seeds", self.seeds, 0, "seeds must be 0 or more")
        positive("grid", self, "min_steps", "max_steps", "max_completions_per_step", "max_epochs")
        if self.completions_per_step is not None:
            products = {n * B for n in self.num_generations for B in self.problems_per_batch}
            wanted = self.completions_per_step
            require(
                bool(products & set(wanted)),
                "grid.completions_per_step",
                wanted,
                f"no n x B of the grid is one of them; the products are {shortened(products)}",
                f"grid.completions_per_step=[{max(products)}]",
            )
        require(
            0 < self.tolerance < 0.5,
            "grid.tolerance",
            self.tolerance,
            "is the fraction of the budget by which a cell may miss it: between 0 and 0.5",
            "grid.tolerance=0.01",
        )
        require(
            self.min_steps <= self.max_steps,
            "grid.min_steps",
            self.min_steps,
            f"must not exceed grid.max_steps={self.max_steps}",
            f"grid.min_steps={self.max_steps} grid.max_steps={self.min_steps}",
        )
