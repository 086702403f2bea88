"""Health rules: what raises them, what does not, and that a resumed monitor goes on exactly."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isosweep.config.base import replaced
from isosweep.config.study import HealthConfig
from isosweep.health import RULES
from isosweep.store.warnings import HealthWarning
from isosweep.training.health import HealthMonitor

PAGE = Path(__file__).parents[2] / "docs" / "health.md"
WINDOW = 10
PROBLEMS = 64
CONFIG = HealthConfig(window=WINDOW)
HEALTHY = {
    "reward": 0.4,
    "loss": 0.1,
    "grad_norm": 1.0,
    "entropy": 0.3,
    "truncated_share": 0.02,
    "logp_difference": 0.015,
}
NO_GRADIENT = HEALTHY | {"grad_norm": 0.0}


def observe(
    monitor: HealthMonitor, steps: Iterable[Mapping[str, float]], first: int = 1
) -> list[HealthWarning]:
    return [
        warning
        for step, values in enumerate(steps, start=first)
        for warning in monitor.observe(step, values)
    ]


def after_health(
    values: Mapping[str, float], config: HealthConfig = CONFIG
) -> tuple[HealthMonitor, list[HealthWarning]]:
    """A monitor, and its warnings, after two healthy windows and one more of changed `values`."""
    monitor = HealthMonitor(config, PROBLEMS)
    assert observe(monitor, [HEALTHY] * 2 * WINDOW) == []
    return monitor, observe(monitor, [{**HEALTHY, **values}] * (WINDOW + 2), first=2 * WINDOW + 1)


BROKEN = [
    ("collapse", "reward", 0.05, 0.15, 0.1),
    ("entropy_runaway", "entropy", 1.5, 0.8, 0.9),
    ("entropy_collapse", "entropy", 0.005, 0.05, 0.015),
    ("truncation", "truncated_share", 0.2, 0.09, 0.1),
    ("stale_weights", "logp_difference", 0.2, 0.05, 0.1),
    ("gradient_spike", "grad_norm", 30.0, 15.0, 20.0),
    ("non_finite", "grad_norm", math.nan, 5.0, None),
    ("non_finite", "loss", -math.inf, 5.0, None),
    ("non_finite", "reward", math.nan, 0.3, None),
]


def test_every_rule_is_broken_here_has_its_settings_and_a_row_in_the_docs() -> None:
    assert {rule.name for rule in RULES} == {rule for rule, *_ in BROKEN}
    settings = {*HealthConfig.model_fields} - {"name", "window", "stop"}
    assert {name for rule in RULES for name in rule.thresholds} == settings
    assert not [rule.name for rule in RULES if f"\n| `{rule.name}` |" not in PAGE.read_text()]


@pytest.mark.parametrize(("rule", "metric", "value", "kept", "threshold"), BROKEN)
def test_a_rule_is_raised_beyond_its_threshold_and_only_there(
    rule: str, metric: str, value: float, kept: float, threshold: float | None
) -> None:
    monitor, raised = after_health({metric: value})
    assert [warning.rule for warning in raised] == [rule]
    assert monitor.active == (rule,)
    (warning,) = raised
    assert warning.threshold == (None if threshold is None else pytest.approx(threshold))
    assert metric in warning.message
    if threshold is None:
        assert warning.step == 2 * WINDOW + 1
        assert warning.value is None
    assert after_health({metric: kept})[1] == []


def test_means_are_judged_not_single_steps() -> None:
    # Two steps of ten at 50% make a mean of 11.6%, one makes 6.8%.
    steps = [HEALTHY] * WINDOW + [HEALTHY | {"truncated_share": 0.5}] * 2
    (warning,) = observe(HealthMonitor(CONFIG, PROBLEMS), steps)
    assert warning.step == WINDOW + 2
    assert warning.value == pytest.approx(0.116)


def test_a_bound_on_entropy_holds_beside_the_rise() -> None:
    bounded = HealthConfig(window=WINDOW, entropy_bound=0.5)
    _, (warning,) = after_health({"entropy": 0.6}, bounded)
    assert (warning.rule, warning.threshold) == ("entropy_runaway", 0.5)
    # A rule without a threshold judges nothing.
    off = dict.fromkeys(name for rule in RULES for name in rule.thresholds)
    config = HealthConfig(window=WINDOW, stop=["non_finite"], **off)
    wild = {"reward": 0.0, "entropy": 9.0, "truncated_share": 1.0, "logp_difference": 9.0}
    assert after_health({**wild, "grad_norm": 1e9}, config)[1] == []


@pytest.mark.parametrize(
    ("before", "norm", "spike"),
    [
        ([HEALTHY, NO_GRADIENT], 15.0, False),
        ([HEALTHY, NO_GRADIENT], 25.0, True),
        ([NO_GRADIENT], 25.0, False),
    ],
)
def test_a_spike_is_measured_against_steps_that_had_a_gradient(
    before: list[dict[str, float]], norm: float, spike: bool
) -> None:
    steps = [*before * 2 * WINDOW, HEALTHY | {"grad_norm": norm}]
    raised = observe(HealthMonitor(CONFIG, PROBLEMS), steps)
    assert [warning.rule for warning in raised] == ["gradient_spike"] * spike


def test_a_warning_is_raised_once_until_a_whole_window_has_kept_its_rule() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    broken = HEALTHY | {"grad_norm": math.nan}
    steps = [broken, *[HEALTHY] * (WINDOW - 1)]
    assert len(observe(monitor, steps + steps)) == 1
    assert [*monitor.active] == ["non_finite"]
    observe(monitor, [HEALTHY])
    assert not [*monitor.active]
    assert len(observe(monitor, steps)) == 1


def test_the_run_ends_by_the_first_rule_of_stop() -> None:
    broken = {"truncated_share": 0.5, "reward": 0.0}
    both = HealthConfig(window=WINDOW, stop=["collapse", "truncation"])
    monitor, (truncation, collapse) = after_health(broken, both)
    assert monitor.verdict == truncation
    monitor, _ = after_health(broken, replaced(both, stop=["collapse"]))
    assert monitor.verdict == collapse
    monitor, _ = after_health(broken, replaced(both, stop=[]))
    assert monitor.verdict is None


def test_chance_alone_is_no_collapse() -> None:
    rng = np.random.default_rng(0)
    # 4 problems a step, 2 rollouts each.
    monitor = HealthMonitor(HealthConfig(), 4)
    rewards = rng.binomial(8, 0.05, size=3000) / 8
    assert observe(monitor, [{"reward": float(reward)} for reward in rewards]) == []


METRIC = st.one_of(
    st.sampled_from([0.0, 0.001, 0.3, 0.5, 30.0, math.nan, math.inf]),
    st.floats(0, 2, allow_nan=False),
)
STEPS = st.lists(
    st.dictionaries(st.sampled_from([*HEALTHY, "kl"]), METRIC, max_size=7), min_size=1, max_size=60
)


@settings(max_examples=200)
@example([{"reward": 30.0}, {"reward": 0.0}, {"reward": 5e-324}], set(), 2)
@given(STEPS, st.sets(st.integers(0, 60)), st.integers(2, 6))
def test_a_resumed_monitor_raises_what_an_uninterrupted_one_does(
    steps: list[dict[str, float]], stops: set[int], window: int
) -> None:
    config = HealthConfig(window=window)
    straight, resumed = HealthMonitor(config, PROBLEMS), HealthMonitor(config, PROBLEMS)
    for step, values in enumerate(steps):
        if step in stops:
            text = json.dumps(resumed.to_json(), allow_nan=False)
            resumed = HealthMonitor(config, PROBLEMS, json.loads(text))
        assert resumed.observe(step, values) == straight.observe(step, values)
        assert resumed.verdict == straight.verdict
    state = resumed.to_json()
    assert state == straight.to_json()
    # It stays as small as this, however long a run is.
    assert all(len(recent) <= window for recent in state["recent"].values())
