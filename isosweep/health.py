"""The rules of health: a row each, with what it reads, what switches it off, and its judge.

docs/health.md has every rule with its threshold and source. A judge is a function of what a run has
shown and of its rule's thresholds; `isosweep/training/health.py` raises and clears the warnings.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Standard errors by which reward has to have fallen: the best of many means is partly luck, and a
# run is looked at after every step.
_CERTAIN = 5.5

# What has to be finite; the worker gives `logits` when the policy's are not.
_FINITE = ("reward", "loss", "grad_norm", "logits")


@dataclass
class Seen:
    """What a run has shown of the metrics that rules read: of this step, and of those before it.

    `recent` has their last `window` values. `best` is the best mean reward of a quarter window;
    `fallen` counts the steps since it fell, with the sum of their rewards.
    """

    window: int
    problems_per_batch: int
    recent: dict[str, deque[float]]
    first_entropy: float | None = None
    best: float = 0.0
    fallen: tuple[int, float] = (0, 0.0)
    values: Mapping[str, float] = field(default_factory=dict)

    def note(self) -> None:
        """Take this step's values into the windows."""
        for name, recent in self.recent.items():
            if self.has(name):
                recent.append(self.values[name])
        if self.has("reward") and len(self.recent["reward"]) >= self.quarter:
            best = math.fsum(list(self.recent["reward"])[-self.quarter :]) / self.quarter
            self.best = max(self.best, best)
        if self.first_entropy is None:
            self.first_entropy = self.mean("entropy")

    @property
    def quarter(self) -> int:
        """Steps of a quarter window."""
        return max(2, self.window // 4)

    def has(self, name: str) -> bool:
        """Whether the step has a finite value of it."""
        return math.isfinite(self.values.get(name, math.nan))

    def mean(self, name: str) -> float | None:
        """Over the window; None unless that is full and the step has a finite value."""
        recent = self.recent[name]
        full = self.has(name) and len(recent) == self.window
        return math.fsum(recent) / self.window if full else None

    def said(self, name: str, mean: float) -> str:
        """The mean, as messages begin."""
        return f"{name} {mean:.4g} (mean of {self.window} steps)"


class Judged(NamedTuple):
    """A rule at a step: whether it is broken, by which value, against which threshold."""

    broken: bool
    value: float | None
    threshold: float | None
    message: str


class HealthRule(NamedTuple):
    """A rule: what `judge` makes of what was seen, the rule's metric and its thresholds, each None
    where it is null; itself None where there is nothing to judge by.

    `thresholds`: settings of `health`, without any of which the rule is off. `of_step`: it is no
    rule about means, and judged by the windows before the step.
    """

    name: str
    metric: str
    judge: Callable[..., Judged | None]
    thresholds: tuple[str, ...] = ()
    of_step: bool = False


def _not_finite(seen: Seen, _: str) -> Judged | None:
    given = [name for name in _FINITE if name in seen.values]
    for name in given:
        if not math.isfinite(seen.values[name]):
            return Judged(True, None, None, f"{name} is {seen.values[name]}")
    return Judged(False, None, None, "") if given else None


def _above(seen: Seen, metric: str, limit: float) -> Judged | None:
    mean = seen.mean(metric)
    if mean is None:
        return None
    return Judged(mean > limit, mean, limit, f"{seen.said(metric, mean)} is above {limit:.4g}")


def _runaway(seen: Seen, metric: str, rise: float | None, bound: float | None) -> Judged | None:
    if seen.first_entropy is None:
        return None
    limits = (bound, None if rise is None else rise * seen.first_entropy)
    return _above(seen, metric, min(limit for limit in limits if limit is not None))


def _spent(seen: Seen, metric: str, share: float) -> Judged | None:
    mean, first = seen.mean(metric), seen.first_entropy
    if mean is None or first is None:
        return None
    message = f"{seen.said(metric, mean)} is below {share:g} of its first, {first:.4g}"
    return Judged(mean < share * first, mean, share * first, message)


def _spike(seen: Seen, metric: str, times: float) -> Judged | None:
    # A batch without any spread of scores has no gradient: it says nothing of the usual norm.
    usual = [value for value in seen.recent[metric] if value > 0]
    if not seen.has(metric) or len(usual) < seen.window / 2:
        return None
    # Its import costs more than a hundredth of a plan.
    from statistics import median

    norm, limit = seen.values[metric], times * median(usual)
    message = f"{metric} {norm:.4g} is above {limit:.4g}, {times:g} times the median before it"
    return Judged(norm > limit, norm, limit, message)


def _collapse(seen: Seen, metric: str, share: float) -> Judged | None:
    mean, limit = seen.mean(metric), share * seen.best
    if mean is None:
        return None
    message = f"{seen.said(metric, mean)} is below {share:g} of its best, {seen.best:.4g}"
    if mean >= limit:
        seen.fallen = (0, 0.0)
        return Judged(False, mean, limit, message)
    steps, total = seen.fallen = (seen.fallen[0] + 1, seen.fallen[1] + seen.values[metric])
    problems, best_of = seen.problems_per_batch, seen.quarter * seen.problems_per_batch
    errors = _rate_errors(seen.best * best_of, best_of, total * problems, steps * problems)
    return Judged(total / steps < limit and errors > _CERTAIN, mean, limit, message)


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


RULES: Final = (
    HealthRule("non_finite", "", _not_finite, of_step=True),
    HealthRule("collapse", "reward", _collapse, ("collapse_share",)),
    HealthRule("entropy_runaway", "entropy", _runaway, ("entropy_rise", "entropy_bound")),
    HealthRule("entropy_collapse", "entropy", _spent, ("entropy_fall",)),
    HealthRule("truncation", "truncated_share", _above, ("truncated_share",)),
    HealthRule("stale_weights", "logp_difference", _above, ("logp_difference",)),
    HealthRule("gradient_spike", "grad_norm", _spike, ("gradient_spike",), of_step=True),
)
# What windows are kept of.
METRICS: Final = tuple(dict.fromkeys(rule.metric for rule in RULES if rule.metric))
