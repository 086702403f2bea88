"""The candidates of a sweep."""

from dataclasses import field
from typing import Annotated, Any

from annotated_types import Ge, Gt, Lt

from isosweep.config.base import Settings
from isosweep.config.values import (
    Distinct,
    Listed,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Seeds,
    Whole,
)
from isosweep.errors import SettingError


class GridConfig(Settings, group="grid"):
    """The candidates: every n x B x seed at every budget, for every value of `axes`. A candidate
    becomes a cell if it satisfies all bounds below."""

    name: str
    """Name of this choice of settings."""
    num_generations: Distinct[Annotated[Whole, Ge(2)]]
    """Values of n, rollouts per problem; at least 2, because GRPO compares rollouts of one
    problem."""
    problems_per_batch: Distinct[PositiveInt]
    """Values of B, problems per batch."""
    seeds: Seeds[NonNegativeInt] = field(default_factory=lambda: [0, 1])
    """Random seeds, as a list: `[0,1,2]` trains every n x B three times."""
    tolerance: Annotated[float, Gt(0), Lt(0.5)] = 0.01
    """Largest difference between a cell's compute and its budget, as a fraction of the budget."""
    min_steps: PositiveInt = 10
    """Fewest update steps T of a cell."""
    max_steps: PositiveInt = 100_000
    """Most update steps T of a cell."""
    max_completions_per_step: PositiveInt = 65_536
    """Largest n x B."""
    max_epochs: Positive = 100.0
    """Most passes of a run over the training problems."""
    completions_per_step: Listed[Whole] | None = None
    """Only pairs whose n x B is in this list; null: all pairs."""
    axes: dict[str, Any] | None = None
    """Further axes with their values: a setting (`recipe.num_iterations: [1, 2]`), a group with its
    choices (`recipe: [dapo, scalerl]`), or named sets of settings (`variant: {plain: {}, with_kl:
    {recipe.beta: 0.01}}`)."""
    composed: list[dict[str, Any]] | None = None
    """What choices of groups among the axes come to, filled in when the sweep is composed: for each
    combination of them its `choices` and `settings`."""

    def _check(self) -> None:
        if self.completions_per_step is not None:
            products = {n * B for n in self.num_generations for B in self.problems_per_batch}
            if not products & set(self.completions_per_step):
                raise SettingError(
                    "grid.completions_per_step",
                    self.completions_per_step,
                    f"no n x B of the grid is one of them; the products are {_shortened(products)}",
                )
        if self.min_steps > self.max_steps:
            rule = f"must not exceed grid.max_steps={self.max_steps}"
            raise SettingError("grid.min_steps", self.min_steps, rule)


def _shortened(values: set[int]) -> str:
    """Sorted values as text, the middle of a long list left out."""
    texts = [str(value) for value in sorted(values)]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:4], "...", *texts[-3:]])
