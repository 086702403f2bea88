"""Rules by which a run is judged to go wrong, and which of them end it."""

from dataclasses import field
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Gt, Lt
from pydantic import AllowInfNan

from isosweep.config.settings import settings
from isosweep.config.values import Listed, Positive, Whole
from isosweep.errors import SettingError

Rule = Literal[
    "non_finite",
    "collapse",
    "entropy_runaway",
    "entropy_collapse",
    "truncation",
    "stale_weights",
    "gradient_spike",
]
RULES: tuple[Rule, ...] = get_args(Rule)

_Part = Annotated[float, Gt(0), Lt(1)]
_Times = Annotated[float, AllowInfNan(False), Gt(1)]

# The settings without which a rule judges nothing; `non_finite` needs none.
_THRESHOLDS: dict[Rule, tuple[str, ...]] = {
    "collapse": ("collapse_share",),
    "entropy_runaway": ("entropy_rise", "entropy_bound"),
    "entropy_collapse": ("entropy_fall",),
    "truncation": ("truncated_share",),
    "stale_weights": ("logp_difference",),
    "gradient_spike": ("gradient_spike",),
}


@settings("health")
class HealthConfig:
    """Thresholds of the health rules; null switches a rule off. Means are over the last `window`
    steps."""

    name: str = "default"
    """Name of this choice of settings."""
    window: Annotated[Whole, Ge(2)] = 20
    """Steps that a mean is taken over; over fewer than 2 there is no spread."""
    collapse_share: _Part | None = 0.25
    """Share of its best mean over a quarter of a window that training reward must keep."""
    entropy_rise: _Times | None = 3.0
    """Times its first mean that entropy must stay below."""
    entropy_bound: Positive | None = None
    """Entropy, in nats a token, that it must stay below."""
    entropy_fall: _Part | None = 0.05
    """Share of its first mean that entropy must stay above."""
    truncated_share: _Part | None = 0.1
    """Share of the completions that may be cut off, at most."""
    logp_difference: Positive | None = 0.1
    """Nats by which sampler and learner may differ in a token's log-probability, at most."""
    gradient_spike: _Times | None = 20.0
    """Times the window's median that a gradient norm may be, at most."""
    stop: Listed[Rule] = field(default_factory=lambda: ["non_finite", "collapse"])
    """Rules that end a run; the others only warn."""

    def judges(self, steps: int) -> bool:
        """Whether a run of so many steps with rollouts of their own has a mean to be judged by."""
        return steps >= self.window

    def __post_init__(self) -> None:
        for name in self.stop:
            thresholds = _THRESHOLDS.get(name, ())
            if thresholds and all(getattr(self, setting) is None for setting in thresholds):
                rule = f"{name} is switched off by health.{thresholds[0]}=null"
                raise SettingError("health.stop", self.stop, rule)
        if len(set(self.stop)) < len(self.stop):
            raise SettingError("health.stop", self.stop, "names a rule twice")
