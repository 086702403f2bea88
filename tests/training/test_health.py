"""Health rules: what raises them, what does not, and that a resumed monitor goes on exactly."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isosweep.config.health import _THRESHOLDS, RULES, HealthConfig
from isosweep.store.warnings import HealthWarning
from isosweep.training.health import HealthMonitor
from tests.conftest import make_config

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
]


def test_every_rule_is_broken_here_has_its_thresholds_and_a_row_in_the_docs() -> None:
    assert {rule for rule, *_ in BROKEN} == {*RULES} == {"non_finite", *_THRESHOLDS}
    assert not [rule for rule in RULES if f"\n| `{rule}` |" not in PAGE.read_text()]


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
    assert json.loads(json.dumps(monitor.to_json(), allow_nan=False)) == monitor.to_json()
    assert after_health({metric: kept})[1] == []


def test_means_are_judged_not_single_steps() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    observe(monitor, [HEALTHY] * WINDOW)
    cut = HEALTHY | {"truncated_share": 0.5}
    # Two steps of ten at 50% make a mean of 11.6%, one makes 6.8%.
    assert observe(monitor, [cut], first=WINDOW + 1) == []
    (warning,) = observe(monitor, [cut], first=WINDOW + 2)
    assert warning.value == pytest.approx((2 * 0.5 + 8 * 0.02) / 10)
    assert warning.message == "truncated_share 0.116 (mean of 10 steps) is above 0.1"


def test_a_bound_on_entropy_holds_beside_the_rise() -> None:
    bounded = HealthConfig(window=WINDOW, entropy_bound=0.5)
    _, (warning,) = after_health({"entropy": 0.6}, bounded)
    assert (warning.rule, warning.threshold) == ("entropy_runaway", 0.5)
    only_bound = HealthConfig(window=WINDOW, entropy_rise=None, entropy_bound=5.0)
    assert after_health({"entropy": 4.0}, only_bound)[1] == []
    # Either is enough for the rule to end a run.
    for either in (bounded, only_bound, CONFIG):
        assert replace(either, stop=["entropy_runaway"]).stop == ["entropy_runaway"]


def test_a_spike_is_measured_against_steps_that_had_a_gradient() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    quiet = HEALTHY | {"grad_norm": 0.0}
    observe(monitor, [HEALTHY, quiet] * WINDOW)
    assert observe(monitor, [HEALTHY | {"grad_norm": 15.0}], first=30) == []
    (warning,) = observe(monitor, [HEALTHY | {"grad_norm": 25.0}], first=31)
    assert warning.rule == "gradient_spike"
    idle = HealthMonitor(CONFIG, PROBLEMS)
    observe(idle, [quiet] * 2 * WINDOW)
    assert observe(idle, [HEALTHY], first=30) == [], "nothing to compare it with"


def test_a_warning_is_raised_once_until_it_clears() -> None:
    monitor, raised = after_health({"truncated_share": 0.5})
    assert len(raised) == 1
    # It takes a window until the mean is low again, and another without a breach.
    assert observe(monitor, [HEALTHY] * (WINDOW + 5), first=100) == []
    assert set(monitor.active) == {"truncation"}
    assert observe(monitor, [HEALTHY] * WINDOW, first=120) == []
    assert set(monitor.active) == set()
    again = observe(monitor, [HEALTHY | {"truncated_share": 0.5}] * WINDOW, first=140)
    assert [warning.rule for warning in again] == ["truncation"]


def test_a_warning_clears_after_a_whole_window_without_a_breach() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    broken = HEALTHY | {"grad_norm": math.nan}
    steps = [broken, *[HEALTHY] * (WINDOW - 1)]
    assert len(observe(monitor, steps + steps)) == 1
    assert set(monitor.active) == {"non_finite"}
    observe(monitor, [HEALTHY], first=50)
    assert set(monitor.active) == set()


def test_means_are_not_judged_before_a_window_is_full() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    cut = HEALTHY | {"truncated_share": 0.9, "logp_difference": 0.9}
    assert observe(monitor, [cut] * (WINDOW - 1)) == []
    assert len(observe(monitor, [cut], first=WINDOW)) == 2


def test_a_low_mean_of_steps_that_rise_again_is_no_collapse() -> None:
    monitor = HealthMonitor(CONFIG, 1000)
    rewards = [0.4] * WINDOW + [0.05] * 8
    assert observe(monitor, [{"reward": reward} for reward in rewards]) == []
    # The mean is now 0.092, below a quarter of the best; the newest step is not.
    assert observe(monitor, [{"reward": 0.12}], first=30) == []
    (warning,) = observe(monitor, [{"reward": 0.05}], first=31)
    assert warning.rule == "collapse"


def test_a_fall_is_remembered_over_a_stop() -> None:
    steps = [{"reward": 0.4}] * 20 + [{"reward": 0.0}] * 60
    config = HealthConfig(window=20)
    (straight,) = observe(HealthMonitor(config, 4), steps)
    resumed = HealthMonitor(config, 4)
    raised: list[HealthWarning] = []
    for step, values in enumerate(steps, start=1):
        resumed = HealthMonitor(config, 4, json.loads(json.dumps(resumed.to_json())))
        raised += resumed.observe(step, values)
    assert raised == [straight]
    # Few problems a step: many steps have to say so.
    assert straight.step > 45


def test_the_run_ends_by_the_first_rule_of_stop() -> None:
    monitor, _ = after_health({"truncated_share": 0.5})
    assert monitor.verdict is None
    monitor, (truncation, *_) = after_health(
        {"truncated_share": 0.5, "reward": 0.0},
        HealthConfig(window=WINDOW, stop=["collapse", "truncation"]),
    )
    assert set(monitor.active) == {"truncation", "collapse"}
    assert monitor.verdict == truncation
    monitor, _ = after_health({"reward": 0.0}, HealthConfig(window=WINDOW, stop=[]))
    assert monitor.active == ("collapse",)
    assert monitor.verdict is None


def test_what_stood_at_a_checkpoint_ends_the_run_once_stop_names_it() -> None:
    monitor, (warning,) = after_health({"reward": 0.0}, HealthConfig(window=WINDOW, stop=[]))
    assert HealthMonitor(CONFIG, PROBLEMS, monitor.to_json()).verdict == warning


def test_a_rule_without_a_threshold_judges_nothing() -> None:
    config = HealthConfig(
        window=WINDOW,
        collapse_share=None,
        entropy_rise=None,
        entropy_fall=None,
        truncated_share=None,
        logp_difference=None,
        gradient_spike=None,
        stop=["non_finite"],
    )
    wild = {"reward": 0.0, "entropy": 9.0, "truncated_share": 1.0, "logp_difference": 9.0}
    assert after_health({**wild, "grad_norm": 1e9}, config)[1] == []


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
def test_chance_alone_is_no_collapse(rate: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        # 4 problems a step, 2 rollouts each.
        monitor = HealthMonitor(HealthConfig(), 4)
        rewards = rng.binomial(8, rate, size=1000) / 8
        assert observe(monitor, [{"reward": float(reward)} for reward in rewards]) == []


def test_few_rollouts_a_step_are_enough_to_see_a_real_collapse() -> None:
    rng = np.random.default_rng(0)
    rewards = np.concatenate((rng.binomial(8, 0.3, size=100) / 8, np.zeros(40)))
    (warning,) = observe(
        HealthMonitor(HealthConfig(), 4), [{"reward": float(reward)} for reward in rewards]
    )
    assert warning.rule == "collapse"
    assert 115 < warning.step <= 140


METRIC = st.one_of(
    st.sampled_from([0.0, 0.001, 0.3, 0.5, 30.0, math.nan, math.inf]),
    st.floats(0, 2, allow_nan=False),
)
STEPS = st.lists(
    st.dictionaries(st.sampled_from([*HEALTHY, "kl"]), METRIC, max_size=7), min_size=1, max_size=60
)


@settings(max_examples=200, deadline=None)
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
        assert resumed.active == straight.active
        assert resumed.verdict == straight.verdict
    assert resumed.to_json() == straight.to_json()


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_the_state_stays_bounded(steps: list[dict[str, float]]) -> None:
    monitor = HealthMonitor(HealthConfig(window=3), PROBLEMS)
    observe(monitor, steps * 3)
    state = monitor.to_json()
    assert all(len(values) <= 3 for values in state["recent"].values())
    assert len(state["standing"]) <= len(RULES)


def test_a_smaller_window_keeps_the_newest_steps() -> None:
    monitor = HealthMonitor(CONFIG, PROBLEMS)
    observe(monitor, [{"reward": step / 10} for step in range(10)])
    smaller = HealthMonitor(HealthConfig(window=3), PROBLEMS, monitor.to_json())
    assert smaller.to_json()["recent"]["reward"] == [0.7, 0.8, 0.9]


def test_language_models_are_held_to_the_published_share_of_truncation() -> None:
    assert make_config("model=qwen-1.5b").health == HealthConfig()
    assert make_config().health.truncated_share == 0.5
    assert make_config("health.stop=[]").health.stop == []
