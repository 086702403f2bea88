"""The candidates of a sweep."""

from typing import Annotated, Any

from annotated_types import Ge, Gt, Lt

from isosweep.config.settings import settings
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


@settings("grid")
class GridConfig:
    """The candidates: every n x B x seed at every budget, for every value of the `axes`.

    A candidate is planned if its best whole number of steps breaks none of the bounds below.
    """

    name: str
    """Name of this choice of settings."""
    num_generations: Distinct[Annotated[Whole, Ge(2)]]
    """Values of n, rollouts per problem: 2 or more, as GRPO compares those of one problem."""
    problems_per_batch: Distinct[PositiveInt]
    """Values of B, problems per batch."""
    seeds: Seeds[NonNegativeInt]
    """Seeds, as a list; every n x B is trained once with each."""
    tolerance: Annotated[float, Gt(0), Lt(0.5)]
    """Fraction of the budget by which a cell may miss it."""
    min_steps: PositiveInt
    """Update steps T of a cell, at least."""
    max_steps: PositiveInt
    """Update steps T of a cell, at most."""
    max_completions_per_step: PositiveInt
    """n x B, at most."""
    max_epochs: Positive
    """Passes of a run over the training problems, at most."""
    # In pre-training, data repeated beyond about 16 times add little (arXiv 2305.16264, section 5).
    # For RL no such number is published: ScaleRL (arXiv 2510.13786) went on for tens of passes, by
    # 1,500 of its 100,000 device-hours a pass, on problems far more varied than most.
    warn_epochs: Positive | None = 16.0
    """Passes of a run over the training problems above which its plan warns; null: it never does.
    """
    completions_per_step: Listed[Whole] | None = None
    """Only pairs whose n x B is listed here; null: all pairs."""
    axes: dict[str, Any] | None = None
    """Further axes, each with its values: a setting of the model, task, recipe, evaluation or
    generation (`recipe.num_iterations: [1, 2]`), one of these groups with its choices
    (`recipe: [dapo, scalerl]`), or a name of the user's with named sets of settings
    (`variant: {plain: {}, with_kl: {recipe.beta: 0.01}}`)."""
    composed: list[dict[str, Any]] | None = None
    """What choices of groups among the axes come to, filled in when the sweep is composed: for each
    combination of them its `choices` and `settings`."""

    def __post_init__(self) -> None:
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
