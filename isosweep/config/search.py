"""Which runs of the plan are trained: all of them, or those that a search asks for."""

from typing import Annotated, Literal

from annotated_types import Ge
from pydantic import AfterValidator

from isosweep.config.settings import settings
from isosweep.config.values import Positive, RefusedError, Says, Whole
from isosweep.errors import SettingError


def _url(value: str) -> str:
    if "://" not in value:
        raise RefusedError("is no URL of an Optuna storage, as sqlite:///FILE is one", "null")
    return value


@settings("search")
class SearchConfig:
    """Which runs of the plan are trained, and how far; no number of a run depends on it."""

    name: str = "grid"
    """Name of this choice of settings."""
    kind: Literal["grid", "frontier"] = "grid"
    """`grid`: every run to its last budget. `frontier`: the runs, each up to the budget, that are
    expected to say most about n*(C) for their compute, one decision after another."""
    max_compute: Positive | None = None
    """Compute of all runs together, in `budget_unit`, that a search may spend; null: the whole
    plan's."""
    seed: Annotated[Whole, Ge(0), Says("must be 0 or more", "0")] = 0
    """Seed of what the search draws at random to decide."""
    storage: Annotated[str, AfterValidator(_url)] | None = None
    """Optuna storage that holds the search; null: `search.journal` in the sweep's directory."""

    def __post_init__(self) -> None:
        if not self.searches and self.storage is not None:
            rule = "is a search's, and search=grid trains the whole plan"
            nearest = "search=frontier, or search.storage=null"
            raise SettingError("search.storage", self.storage, rule, nearest)

    @property
    def searches(self) -> bool:
        """Whether runs are chosen."""
        return self.kind != "grid"
