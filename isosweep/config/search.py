"""Which runs of the plan are trained: all of them, or those that a search asks for."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import AfterValidator

from isosweep.config.base import Settings
from isosweep.config.secrets import hidden
from isosweep.config.values import Positive, Whole
from isosweep.errors import SettingError


def _url(value: str) -> str:
    if "://" not in value:
        raise ValueError("is no URL of an Optuna storage, as sqlite:///FILE is one")
    return value


class SearchConfig(Settings, group="search"):
    """Which runs of the plan are trained, and how far. It changes no result of a run."""

    name: str = "grid"
    """Name of this choice of settings."""
    kind: Literal["grid", "frontier", "optuna"] = "grid"
    """`grid`: all runs, to the last budget. `frontier`: one decision after another, the runs and
    budgets that say most about n*(C) for their compute. `optuna`: runs that an Optuna sampler
    chooses and its pruner ends."""
    max_compute: Positive | None = None
    """Most compute of all runs together, in `budget_unit`; null: the whole plan's."""
    # Optuna's samplers take seeds of 32 bits.
    seed: Annotated[Whole, Ge(0), Le(2**32 - 1)] = 0
    """Random seed of the search's decisions."""
    storage: Annotated[str, AfterValidator(_url)] | None = None
    """Optuna storage of the search; null: `search.journal` in the sweep's directory."""

    sampler: str | None = None
    """With `search=optuna`: import path of a sampler."""
    sampler_options: dict[str, Any] | None = None
    """The sampler's arguments, by name; its seed is `search.seed`."""
    pruner: str | None = None
    """With `search=optuna`: import path of a pruner. Its steps are compute in units of the smallest
    budget."""
    pruner_options: dict[str, Any] | None = None
    """The pruner's arguments, by name; its resources are 1 to the last step."""

    def _check(self) -> None:
        self._check_classes()
        if not self.searches and self.storage is not None:
            rule = "is a search's, and search=grid trains the whole plan"
            raise SettingError("search.storage", hidden(self.storage), rule)

    def _check_classes(self) -> None:
        for name, usual in (("sampler", "TPESampler"), ("pruner", "HyperbandPruner")):
            if self.kind == "optuna" and getattr(self, name) is None:
                rule = f"is what search=optuna chooses by, as optuna.{name}s.{usual}"
                raise SettingError(f"search.{name}", None, rule)
            for setting in (name, f"{name}_options"):
                value = getattr(self, setting)
                if value is not None and self.kind != "optuna":
                    rule = f"is read by search=optuna, and this is search={self.kind}"
                    raise SettingError(f"search.{setting}", value, rule)

    @property
    def searches(self) -> bool:
        """Whether runs are chosen."""
        return self.kind != "grid"
