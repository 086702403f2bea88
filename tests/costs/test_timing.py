"""Time: the roofline's limits, what scales with what, schedules, and measured efficiencies."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isosweep.compute import Compute
from isosweep.config.sweep import SweepConfig
from isosweep.costs.timing import generation_seconds
from isosweep.errors import RecordError
from isosweep.plan.calibration import (
    Efficiency,
    StepTime,
    calibrate,
    calibrated,
    fit_efficiency,
    median_error,
    step_times,
)
from isosweep.plan.cells import Plan
from isosweep.plan.scheduling import makespan, makespan_bound
from isosweep.store.paths import SweepPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record
from tests.conftest import candidates_of, make_config, plan_of


def qwen() -> SweepConfig:
    return make_config("model=qwen-7b", "hardware.generation_utilization=1")


def _decode_seconds(config: SweepConfig, together: int, prompt: float = 1.0) -> float:
    """Seconds to decode one position of `together` rollouts, nothing else."""
    seconds, positions = generation_seconds(
        config.model.architecture,
        config.hardware,
        prompt=prompt,
        completion=2.0,
        decoded=2.0,
        rollouts=np.array([float(together)]),
        concurrency=np.array([together]),
        prefill_flops=0.0,
    )
    assert positions[0] == 1
    return float(seconds[0])


def test_one_rollout_decodes_at_the_speed_of_reading_the_weights() -> None:
    arch, hardware = qwen().model.architecture, qwen().hardware
    reading = 2 * arch.active_parameters / hardware.memory_bandwidth
    assert _decode_seconds(qwen(), 1) == pytest.approx(reading, rel=1e-3)
    # Ten rollouts read the same weights.
    assert _decode_seconds(qwen(), 10) == pytest.approx(reading, rel=1e-2)


def test_many_rollouts_decode_at_the_speed_of_arithmetic_and_long_ones_at_that_of_the_cache() -> (
    None
):
    arch, hardware = qwen().model.architecture, qwen().hardware
    arithmetic = 4096 * 2 * arch.active_parameters / hardware.peak_flops
    assert _decode_seconds(qwen(), 4096) == pytest.approx(arithmetic, rel=0.02)
    cache = 64 * 30_000 * 2 * 2 * 28 * 4 * 128 / hardware.memory_bandwidth
    reading = 2 * arch.active_parameters / hardware.memory_bandwidth
    assert _decode_seconds(qwen(), 64, prompt=30_000.0) == pytest.approx(cache + reading, rel=0.01)


def test_a_mixture_reads_more_experts_the_more_rollouts_ask() -> None:
    config = make_config("model=qwen3-30b-a3b", "hardware.generation_utilization=1")
    arch, bandwidth = config.model.architecture, config.hardware.memory_bandwidth
    assert _decode_seconds(config, 1) * bandwidth == pytest.approx(
        2 * arch.active_parameters, rel=1e-3
    )
    everything = 2 * (arch.layer_weights + arch.embedding_weights)
    assert _decode_seconds(config, 128) * bandwidth == pytest.approx(everything, rel=0.01)


def test_twice_the_completions_train_twice_as_long_on_one_device_and_as_long_on_two() -> None:
    spread = ("hardware.devices_per_run=2", "hardware.sharding=zero2")
    one, two = (
        # Answers so short that all are decoded at once, whatever memory is left.
        candidates_of(make_config("model=qwen-1.5b", "task=sort_instruct", "budget=1e20", *more))[0]
        for more in ((), spread)
    )
    # Among more rollouts there are more of a length: a little less padding.
    assert 1.9 < one.phases.training[1, 0] / one.phases.training[0, 0] < 2
    assert two.phases.training[1, 0] == pytest.approx(one.phases.training[0, 0])
    assert (two.phases.update > one.phases.update / 2).all()
    # A run never takes less device time for being spread.
    assert (2 * two.seconds > one.seconds * 0.99).all()


def test_checkpointing_recomputes_the_layers_and_not_the_head() -> None:
    with_it, without = (
        candidates_of(
            make_config("model=qwen-0.5b", f"hardware.gradient_checkpointing={on}", "budget=1e20")
        )[0].phases.training[0, 0]
        for on in ("true", "false")
    )
    # Of one pass of old log-probabilities and three of training a fourth is computed again at most.
    assert 1.1 < with_it / without < 1.25


def _best_makespan(durations: list[float], places: int) -> float:
    return min(
        max(
            sum(d for d, where in zip(durations, choice, strict=True) if where == place)
            for place in range(places)
        )
        for choice in itertools.product(range(places), repeat=len(durations))
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=7), st.integers(1, 3))
def test_longest_first_keeps_its_bounds(durations: list[float], places: int) -> None:
    end, best = makespan(durations, places), _best_makespan(durations, places)
    assert makespan_bound(durations, places) <= best * (1 + 1e-9)
    assert best <= end * (1 + 1e-9)
    assert end <= best * (4 / 3 - 1 / (3 * places)) * (1 + 1e-9)


PLANTED = Efficiency(
    training_utilization=0.4,
    generation_utilization=0.1,
    step_overhead_s=0.02,
    token_overhead_s=0.003,
)


def test_planted_efficiencies_are_recovered() -> None:
    rng = np.random.default_rng(0)
    steps = [
        StepTime(measured=1.0, training=t, generation=g, positions=p, update=0.001)
        for t, g, p in rng.uniform((0.01, 0.001, 2), (1.0, 0.1, 40), size=(30, 3))
    ]
    steps = [replace(step, measured=PLANTED.predict(step)) for step in steps]
    fitted = fit_efficiency(steps)
    for name, planted in vars(PLANTED).items():
        assert getattr(fitted, name) == pytest.approx(planted, rel=1e-6)


def _sweep(root: Path, config: SweepConfig, runs: int) -> tuple[Plan, SweepPaths]:
    """A sweep whose first `runs` runs took the time that PLANTED efficiencies predict."""
    plan = plan_of(config)
    paths = SweepPaths(root / "sweep", root / "runs")
    ideal = replace(config.hardware, **vars(PLANTED))
    (table,) = candidates_of(replace(config, hardware=ideal))
    n, B = table.num_generations.tolist(), table.problems_per_batch.tolist()
    for run in plan.runs[:runs]:
        files = paths.run(run.run_id)
        files.root.mkdir(parents=True)
        append_attempt(files.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
        each = table.phases.total[n.index(run.num_generations), B.index(run.problems_per_batch)]
        for step in (0, 10):
            compute = Compute(generations=step, rollouts=step, device_seconds=step * float(each))
            record = Record(
                step=step,
                compute=compute,
                successes=(0,),
                samples_per_problem=1,
                completion_tokens=1.0,
                unix_time=0.0,
            )
            append_record(files.records, 1, record)
    return plan, paths


def test_a_calibrated_plan_predicts_what_was_measured(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    plan, paths = _sweep(tmp_path, config, runs=20)
    summary = calibrate(config, plan, paths)
    assert "0% after" in summary
    after = calibrated(config)
    assert after.hardware.calibrated_from == "sweep"
    (table,) = candidates_of(after)
    measured = step_times(config, plan, paths)
    predicted = {round(float(seconds), 9) for seconds in table.seconds.ravel()}
    assert all(
        any(math.isclose(step.measured, seconds, rel_tol=1e-3) for seconds in predicted)
        for step in measured
    )
    assert median_error(PLANTED, measured) == pytest.approx(0, abs=1e-9)
    # Another model, or a user who says no, keeps the assumed numbers.
    assert calibrated(make_config(f"sweeps_dir={tmp_path}", "model=qwen-1.5b")).hardware == (
        make_config("model=qwen-1.5b").hardware
    )
    kept = make_config(f"sweeps_dir={tmp_path}", "hardware.calibrated=false")
    assert calibrated(kept) == kept
    assert plan_of(after).plan_id == plan.plan_id
    assert json.loads((tmp_path / "calibration.json").read_text())["version"] == 1


def test_a_damaged_calibration_is_reported(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    key = "cpu, tiny, transformers"
    for text in ("{", "[]", json.dumps({"entries": {key: {"training_utilization": 2.0}}})):
        (tmp_path / "calibration.json").write_text(text)
        with pytest.raises(RecordError, match="not a calibration"):
            calibrated(config)


def test_too_few_runs_calibrate_nothing(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    plan, paths = _sweep(tmp_path, config, runs=3)
    with pytest.raises(RecordError, match="3 runs have trained; calibration takes 4"):
        calibrate(config, plan, paths)
    assert not (tmp_path / "calibration.json").exists()
