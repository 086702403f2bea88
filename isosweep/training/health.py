"""Whether a run trains soundly: which rules of health it breaks, and when they end it."""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from isosweep.config.study import HealthConfig
from isosweep.files import JsonObject
from isosweep.health import METRICS, RULES, HealthRule, Judged, Seen
from isosweep.store.warnings import HealthWarning


@dataclass
class _Active:
    """A warning that is active; `quiet` steps in succession have not broken its rule."""

    warning: HealthWarning
    quiet: int = 0


class HealthMonitor:
    """Judges a run step by step.

    A warning is raised once and is active until `window` steps in succession have kept its rule.
    The state has a bounded size, and a monitor made from it goes on as if it had never stopped.
    """

    def __init__(
        self, config: HealthConfig, problems_per_batch: int, state: JsonObject | None = None
    ) -> None:
        """`state`: what `to_json` gave, or None at the start of a run."""
        self._config, state = config, state or {}
        recent = {
            name: deque[float](state.get("recent", {}).get(name, ()), maxlen=config.window)
            for name in METRICS
        }
        self._seen = Seen(config.window, problems_per_batch, recent)
        if state:
            self._seen.first_entropy, self._seen.best = state["first_entropy"], state["best"]
            self._seen.fallen = (state["fallen"][0], state["fallen"][1])
        self._active = {
            rule: _Active(HealthWarning(**active["warning"]), active["quiet"])
            for rule, active in state.get("standing", {}).items()
        }

    def to_json(self) -> JsonObject:
        """The monitor's state, for a checkpoint."""
        return {
            "recent": {name: list(values) for name, values in self._seen.recent.items()},
            "first_entropy": self._seen.first_entropy,
            "best": self._seen.best,
            "fallen": list(self._seen.fallen),
            "standing": {rule: asdict(active) for rule, active in self._active.items()},
        }

    @property
    def active(self) -> tuple[str, ...]:
        """Rules whose warnings are active."""
        return tuple(self._active)

    @property
    def verdict(self) -> HealthWarning | None:
        """The first active warning of a rule in `stop`: the run is to end as diverged."""
        ending = [
            active.warning for rule, active in self._active.items() if rule in self._config.stop
        ]
        return min(ending, key=lambda warning: warning.step, default=None)

    def observe(self, step: int, values: Mapping[str, float]) -> tuple[HealthWarning, ...]:
        """Judge the metrics of one step; returns the warnings that it raises.

        Steps have to come in order. A metric that is absent is not judged.
        """
        self._seen.values = values
        judged = [(rule, self._judged(rule)) for rule in RULES if rule.of_step]
        self._seen.note()
        judged += [(rule, self._judged(rule)) for rule in RULES if not rule.of_step]
        raised = [self._noted(step, rule.name, found) for rule, found in judged if found]
        return tuple(warning for warning in raised if warning is not None)

    def _judged(self, rule: HealthRule) -> Judged | None:
        thresholds = self._config.thresholds(rule)
        return None if thresholds is None else rule.judge(self._seen, rule.metric, *thresholds)

    def _noted(self, step: int, rule: str, found: Judged) -> HealthWarning | None:
        """Take a judgement down; the warning, where it raises one."""
        active = self._active.get(rule)
        if active is None and found.broken:
            _, value, threshold, message = found
            warning = HealthWarning(
                step=step, rule=rule, value=value, threshold=threshold, message=message
            )
            self._active[rule] = _Active(warning)
            return warning
        if active is not None:
            active.quiet = 0 if found.broken else active.quiet + 1
            if active.quiet >= self._config.window:
                del self._active[rule]
        return None
