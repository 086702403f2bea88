"""Thresholds of the rules of health, and which rules end a run."""

from typing import Annotated, Any

from annotated_types import Ge, Gt, Lt
from pydantic import AllowInfNan, BeforeValidator, Field

from isosweep.config.base import Settings
from isosweep.config.values import Listed, Positive, Whole
from isosweep.errors import SettingError
from isosweep.health import RULES, HealthRule


def _known(name: Any) -> Any:
    names = tuple(rule.name for rule in RULES)
    if name not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return name


# The name of a rule.
Rule = Annotated[str, BeforeValidator(_known)]

_Part = Annotated[float, Gt(0), Lt(1)]
_Times = Annotated[float, AllowInfNan(False), Gt(1)]


class HealthConfig(Settings, group="health"):
    """Limits of the health rules (docs/health.md); null switches a rule off. Means are over the
    last `window` steps."""

    name: str = "default"
    """Name of this choice of settings."""
    window: Annotated[Whole, Ge(2)] = 20
    """Steps over which means are taken; at least 2."""
    collapse_share: _Part | None = 0.25
    """Least share of its best mean (over a quarter of a window) that training reward must keep."""
    entropy_rise: _Times | None = 3.0
    """Entropy must stay below this many times its first mean."""
    entropy_bound: Positive | None = None
    """Entropy must stay below this, in nats per token."""
    entropy_fall: _Part | None = 0.05
    """Entropy must stay above this share of its first mean."""
    truncated_share: _Part | None = 0.1
    """Largest share of completions that may be cut off."""
    logp_difference: Positive | None = 0.1
    """Largest mean difference of a token's log-probability between sampler and learner, in nats."""
    gradient_spike: _Times | None = 20.0
    """Largest gradient norm, as a multiple of the window's median."""
    stop: Listed[Rule] = Field(default_factory=lambda: ["non_finite", "collapse"])
    """Rules that end a run; the others only warn."""

    def thresholds(self, rule: HealthRule) -> tuple[float | None, ...] | None:
        """Those of the rule, in its order; None where it is switched off."""
        found = tuple(getattr(self, name) for name in rule.thresholds)
        return None if found and all(limit is None for limit in found) else found

    def judges(self, steps: int) -> bool:
        """Whether a run of so many steps with rollouts of their own has a mean to be judged by."""
        return steps >= self.window

    def _check(self) -> None:
        for rule in RULES:
            if rule.name in self.stop and self.thresholds(rule) is None:
                why = f"{rule.name} is switched off by health.{rule.thresholds[0]}=null"
                raise SettingError("health.stop", self.stop, why)
        if len(set(self.stop)) < len(self.stop):
            raise SettingError("health.stop", self.stop, "names a rule twice")
