"""Which runs of the plan are trained: all of them, or those that a search asks for."""

from typing import Annotated, Any, Literal

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
    kind: Literal["grid", "frontier", "optuna"] = "grid"
    """`grid`: every run to its last budget. `frontier`: the runs, each up to the budget, that are
    expected to say most about n*(C) for their compute, one decision after another. `optuna`: the
    runs that a sampler of Optuna's asks for, each as far as a pruner lets it go."""
    max_compute: Positive | None = None
    """Compute of all runs together, in `budget_unit`, that a search may spend; null: the whole
    plan's."""
    seed: Annotated[Whole, Ge(0), Says("must be 0 or more", "0")] = 0
    """Seed of what the search draws at random to decide."""
    storage: Annotated[str, AfterValidator(_url)] | None = None
    """Optuna storage that holds the search; null: `search.journal` in the sweep's directory."""

    sampler: str | None = None
    """Import path of an Optuna sampler: `search=optuna`."""
    sampler_options: dict[str, Any] | None = None
    """Its arguments, by name; its seed is `search.seed`."""
    pruner: str | None = None
    """Import path of an Optuna pruner: `search=optuna`. Steps are compute in that of the smallest
    budget."""
    pruner_options: dict[str, Any] | None = None
    """Its arguments, by name; resources are 1 to the last step where it takes them."""

    def __post_init__(self) -> None:
        self._check_classes()
        if not self.searches and self.storage is not None:
            rule = "is a search's, and search=grid trains the whole plan"
            nearest = "search=frontier, or search.storage=null"
            raise SettingError("search.storage", self.storage, rule, nearest)

    def _check_classes(self) -> None:
        for name, usual in (("sampler", "TPESampler"), ("pruner", "HyperbandPruner")):
            if self.kind == "optuna" and getattr(self, name) is None:
                rule = "is what search=optuna chooses by"
                raise SettingError(f"search.{name}", None, rule, f"optuna.{name}s.{usual}")
            for setting in (name, f"{name}_options"):
                value = getattr(self, setting)
                if value is not None and self.kind != "optuna":
                    rule = f"is read by search=optuna, and this is search={self.kind}"
                    raise SettingError(f"search.{setting}", value, rule, "search=optuna")

    @property
    def searches(self) -> bool:
        """Whether runs are chosen."""
        return self.kind != "grid"
