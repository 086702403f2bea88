"""Rules that tell a run that is going wrong, and which of them end it."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from isosweep.config.rules import one_of, require
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

# The settings without which a rule judges nothing; `non_finite` needs none.
_THRESHOLDS: dict[str, tuple[str, ...]] = {
    "collapse": ("collapse_share",),
    "entropy_runaway": ("entropy_rise", "entropy_bound"),
    "entropy_collapse": ("entropy_fall",),
    "truncation": ("truncated_share",),
    "stale_weights": ("logp_difference",),
    "gradient_spike": ("gradient_spike",),
}


@dataclass(frozen=True, kw_only=True)
class HealthConfig:
    """Thresholds of the health rules; null switches a rule off. `stop`: rules that end a run.

    Means are over the last `window` steps. Training reward must keep `collapse_share` of its best
    mean over a quarter of a window. Entropy, in nats a token, must stay below `entropy_rise` times
    its first mean and below `entropy_bound`, and above `entropy_fall` times its first mean. At most
    `truncated_share` of the completions may be cut off, and sampler and learner may differ by
    `logp_difference` in a token's log-probability. A gradient norm may be `gradient_spike` times
    the window's median.
    """

    name: str = "default"
    window: int = 20
    collapse_share: float | None = 0.25
    entropy_rise: float | None = 3.0
    entropy_bound: float | None = None
    entropy_fall: float | None = 0.05
    truncated_share: float | None = 0.1
    logp_difference: float | None = 0.1
    gradient_spike: float | None = 20.0
    stop: list[str] = field(default_factory=lambda: ["non_finite", "collapse"])

    def __post_init__(self) -> None:
        rule = "means over fewer than 2 steps know no spread"
        require(self.window >= 2, "health.window", self.window, rule, "health.window=20")
        self._bounded("collapse_share", 0.0, 1.0, 0.25)
        self._bounded("entropy_fall", 0.0, 1.0, 0.05)
        self._bounded("truncated_share", 0.0, 1.0, 0.1)
        self._bounded("entropy_rise", 1.0, math.inf, 3)
        self._bounded("entropy_bound", 0.0, math.inf, 5)
        self._bounded("logp_difference", 0.0, math.inf, 0.1)
        self._bounded("gradient_spike", 1.0, math.inf, 20)
        for name in self.stop:
            one_of("health.stop", name, RULES)
            settings = _THRESHOLDS.get(name, ())
            if settings and all(getattr(self, setting) is None for setting in settings):
                left = ",".join(other for other in self.stop if other != name)
                rule = f"{name} is switched off by health.{settings[0]}=null"
                raise SettingError("health.stop", self.stop, rule, f"health.stop=[{left}]")
        once = list(dict.fromkeys(self.stop))
        rule = "names a rule twice"
        nearest = f"health.stop=[{','.join(once)}]"
        require(once == self.stop, "health.stop", self.stop, rule, nearest)

    def _bounded(self, name: str, low: float, high: float, nearest: float) -> None:
        value = getattr(self, name)
        upper = "" if high == math.inf else f" and below {high:g}"
        require(
            value is None or low < value < high,
            f"health.{name}",
            value,
            f"must be a number above {low:g}{upper}, or null to switch the rule off",
            f"health.{name}={nearest:g}",
        )
