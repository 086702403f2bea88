"""Whether a run trains soundly: named rules over its per-step metrics, and when they end it.

docs/health.md lists every rule with its threshold and source.
"""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from isosweep.config.health import HealthConfig, Rule
from isosweep.files import JsonObject
from isosweep.store.warnings import HealthWarning

# Standard errors by which reward has to have fallen: the best of many means is partly luck, and a
# run is looked at after every step.
_CERTAIN = 5.5

# What has to be finite; the worker gives `logits` when the policy's are not.
_FINITE = ("loss", "grad_norm", "logits")

# Metrics whose last `window` values are kept.
_KEPT = ("reward", "entropy", "truncated_share", "logp_difference", "grad_norm")


@dataclass(frozen=True)
class _Breach:
    value: float | None
    threshold: float | None
    message: str


_BEGINNING: JsonObject = {
    "recent": {},
    "first_entropy": None,
    "best": 0.0,
    "fallen": [0, 0.0],
    "standing": {},
}


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
        self._config = config
        self._problems_per_batch = problems_per_batch
        state = state or _BEGINNING
        self._recent = {
            name: deque[float](state["recent"].get(name, ()), maxlen=config.window)
            for name in _KEPT
        }
        self._first_entropy: float | None = state["first_entropy"]
        # The best mean reward of a quarter window; steps and summed reward since it fell.
        self._best: float = state["best"]
        self._fallen: tuple[int, float] = (state["fallen"][0], state["fallen"][1])
        self._active = {
            rule: _Active(HealthWarning(**active["warning"]), active["quiet"])
            for rule, active in state["standing"].items()
        }

    def to_json(self) -> JsonObject:
        """The monitor's state, for a checkpoint."""
        return {
            "recent": {name: list(values) for name, values in self._recent.items()},
            "first_entropy": self._first_entropy,
            "best": self._best,
            "fallen": list(self._fallen),
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
        raised = []
        for rule, breach in self._judge(values).items():
            active = self._active.get(rule)
            if breach is None:
                if active is not None:
                    active.quiet += 1
                    if active.quiet >= self._config.window:
                        del self._active[rule]
            elif active is not None:
                active.quiet = 0
            else:
                warning = HealthWarning(step=step, rule=rule, **asdict(breach))
                self._active[rule] = _Active(warning)
                raised.append(warning)
        return tuple(raised)

    def _judge(self, values: Mapping[str, float]) -> dict[Rule, _Breach | None]:
        """Every rule that can be judged at this step, and how it is broken if it is."""
        finite = {name: values[name] for name in _KEPT if math.isfinite(values.get(name, math.nan))}
        judged: dict[Rule, _Breach | None] = {}
        if not values.keys().isdisjoint(_FINITE):
            judged["non_finite"] = _not_finite(values)
        if "grad_norm" in finite:
            judged |= self._spike(finite["grad_norm"])
        for name, value in finite.items():
            self._recent[name].append(value)
        full = {name for name in finite if len(self._recent[name]) == self._config.window}
        if "reward" in finite:
            judged |= self._collapse(finite["reward"])
        if "entropy" in full:
            judged |= self._entropy()
        if "truncated_share" in full:
            limit = self._config.truncated_share
            judged |= self._above("truncation", "truncated_share", limit)
        if "logp_difference" in full:
            limit = self._config.logp_difference
            judged |= self._above("stale_weights", "logp_difference", limit)
        return judged

    def _mean(self, name: str) -> float:
        return math.fsum(self._recent[name]) / len(self._recent[name])

    def _over_window(self, name: str) -> str:
        return f"{name} {self._mean(name):.4g} (mean of {self._config.window} steps)"

    def _above(self, rule: Rule, name: str, limit: float | None) -> dict[Rule, _Breach | None]:
        if limit is None:
            return {}
        mean = self._mean(name)
        message = f"{self._over_window(name)} is above {limit:.4g}"
        return {rule: _Breach(mean, limit, message) if mean > limit else None}

    def _spike(self, norm: float) -> dict[Rule, _Breach | None]:
        # A batch without any spread of scores has no gradient: it says nothing of the usual norm.
        usual = [value for value in self._recent["grad_norm"] if value > 0]
        if self._config.gradient_spike is None or len(usual) < self._config.window / 2:
            return {}
        limit = self._config.gradient_spike * statistics.median(usual)
        message = (
            f"grad_norm {norm:.4g} is above {limit:.4g}, {self._config.gradient_spike:g} times the "
            f"median before it"
        )
        return {"gradient_spike": _Breach(norm, limit, message) if norm > limit else None}

    def _entropy(self) -> dict[Rule, _Breach | None]:
        mean = self._mean("entropy")
        first = self._first_entropy = mean if self._first_entropy is None else self._first_entropy
        rise, fall = self._config.entropy_rise, self._config.entropy_fall
        limits = [self._config.entropy_bound, None if rise is None else rise * first]
        known = [limit for limit in limits if limit is not None]
        judged = self._above("entropy_runaway", "entropy", min(known, default=None))
        if fall is not None:
            message = f"{self._over_window('entropy')} is below {fall:g} of its first, {first:.4g}"
            broken = mean < fall * first
            judged["entropy_collapse"] = _Breach(mean, fall * first, message) if broken else None
        return judged

    def _collapse(self, reward: float) -> dict[Rule, _Breach | None]:
        recent, window = self._recent["reward"], self._config.window
        quarter = max(2, window // 4)
        if len(recent) >= quarter:
            self._best = max(self._best, math.fsum(list(recent)[-quarter:]) / quarter)
        if self._config.collapse_share is None or len(recent) < window:
            return {}
        limit = self._config.collapse_share * self._best
        mean = self._mean("reward")
        if mean >= limit:
            self._fallen = (0, 0.0)
            return {"collapse": None}
        steps, total = self._fallen = (self._fallen[0] + 1, self._fallen[1] + reward)
        problems = self._problems_per_batch
        errors = _rate_errors(
            self._best * quarter * problems, quarter * problems, total * problems, steps * problems
        )
        message = (
            f"{self._over_window('reward')} is below {self._config.collapse_share:g} of its best, "
            f"{self._best:.4g}"
        )
        broken = total / steps < limit and errors > _CERTAIN
        return {"collapse": _Breach(mean, limit, message) if broken else None}


def _rate_errors(count: float, size: float, later_count: float, later_size: float) -> float:
    """Standard errors between two rates of rare events, `count` in `size` and the later ones.

    The signed root of the deviance of two Poisson counts from a common rate. Rewards between 0
    and 1 are counted a problem at a time, as if all rollouts of a problem fared alike: no spread
    of means can be wider.
    """
    rate = (count + later_count) / (size + later_size)
    deviance = 0.0
    for seen, expected in ((count, rate * size), (later_count, rate * later_size)):
        # Of logarithms, since the quotient of the smallest numbers is 0.
        if seen > 0 and expected > 0:
            deviance += seen * (math.log(seen) - math.log(expected))
    return math.sqrt(max(0.0, 2 * deviance))


def _not_finite(values: Mapping[str, float]) -> _Breach | None:
    for name in _FINITE:
        if name in values and not math.isfinite(values[name]):
            return _Breach(None, None, f"{name} is {values[name]}")
    return None
