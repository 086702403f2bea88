"""mode=calibrate: planted coefficients come back, and what records do not tell is kept."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isosweep.compute import Compute
from isosweep.config.hardware import HardwareConfig
from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.plan.calibration import calibrate, calibrated
from isosweep.plan.cells import Plan
from isosweep.plan.coefficients import (
    SETTINGS,
    Kept,
    Measured,
    Timed,
    coefficient,
    coefficients,
    fit,
)
from isosweep.plan.evaluation import evaluation_seconds
from isosweep.plan.spec import reached
from isosweep.store.paths import SweepPaths
from isosweep.store.records import AttemptStart, Record, append_attempt, append_record
from tests.conftest import candidates_of, make_config, plan_of

PLANTED: dict[str, Any] = {
    "training_utilization": 0.4,
    "generation_utilization": 0.1,
    "token_overhead_s": 0.003,
    "update_overhead_s": 0.02,
    "step_overhead_s": 0.01,
    "answer_overhead_s": 1e-4,
    "startup_s": 3.0,
}
KEY = "cpu, tiny, transformers"
# What nothing in a world below is made with.
ASSUMED = coefficients(reached(make_config()), make_config().hardware.startup)


def world(
    seed: int, sizes: Sequence[int] = (16, 32, 64, 128, 256)
) -> tuple[list[Timed], dict[str, float]]:
    """Rows of runs with n x B of `sizes`, two each, and the settings they were made with.

    A tenth of the intervals were disturbed, and took up to four times as long.
    """
    rng = np.random.default_rng(seed)
    settings = {name: value * rng.uniform(0.5, 2) for name, value in PLANTED.items()}
    settings |= {"generation_overhead_s": 0.0, "pass_overhead_s": 0.0}
    planted = {name: coefficient(name, value) for name, value in settings.items()}
    rows = []
    for run, size in enumerate([*sizes, *sizes]):
        speed = rng.lognormal(0, 0.03)
        for generations in rng.integers(1, 30, size=8).tolist():
            work: dict[str, dict[str, float]] = {
                "generation": {
                    "generation_utilization": generations * size * 4e-5,
                    "token_overhead_s": 6.0 * generations,
                    "generation_overhead_s": generations,
                },
                "scoring": {
                    "training_utilization": 0.0,
                    "step_overhead_s": generations,
                    "answer_overhead_s": generations * size,
                },
                "training": {
                    "training_utilization": generations * size * 1.3e-4,
                    "update_overhead_s": generations,
                    "pass_overhead_s": 3.0 * generations,
                },
                "evaluation": {
                    "generation_utilization": 0.08,
                    "token_overhead_s": 6.0,
                    "generation_overhead_s": 1.0,
                    "answer_overhead_s": 2048.0,
                },
                "start-up": {"startup_s": 1.0},
            }
            for phase, amounts in work.items():
                row = Timed(phase=phase, run=str(run), seconds=1.0, amounts=amounts)  # type: ignore[arg-type]
                disturbed = rng.uniform(1, 4) if rng.random() < 0.1 else 1.0
                seconds = row.predicted(planted) * speed * rng.lognormal(0, 0.05) * disturbed
                rows.append(replace(row, seconds=seconds))
    return rows, settings


def test_planted_coefficients_lie_in_their_intervals() -> None:
    held, off, kept = 0, [], 0
    for seed in range(20):
        rows, settings = world(seed)
        for name, found in fit(rows, ASSUMED).items():
            if isinstance(found, Kept):
                kept += name not in ("generation_overhead_s", "pass_overhead_s")
            else:
                held += found.low <= settings[name] <= found.high
                off.append(abs(found.value / settings[name] - 1))
    assert kept <= 4
    # 95% of them, as the intervals say; disturbances only lengthen.
    assert held / len(off) > 0.85
    assert float(np.median(off)) < 0.05


def test_halves_of_a_sweep_agree() -> None:
    apart = []
    for seed in range(10):
        rows, _ = world(seed, sizes=(16, 24, 32, 64, 128, 192, 256))
        halves = [fit([r for r in rows if int(r.run) // 7 == half], ASSUMED) for half in (0, 1)]
        for name in SETTINGS:
            one, other = (half[name] for half in halves)
            if isinstance(one, Measured) and isinstance(other, Measured):
                apart.append(one.low > other.high or other.low > one.high)
    assert len(apart) > 50
    assert np.mean(apart) < 0.05


def test_causes_that_go_together_are_told_by_the_first_and_the_other_is_kept() -> None:
    rows, settings = world(0)
    found = fit(rows, ASSUMED)["generation_overhead_s"]
    assert found == Kept(value=0.0, why="alike", other="token_overhead_s")
    # Another pair beside it is told apart from this one.
    both = [
        replace(
            row,
            amounts={
                **row.amounts,
                "pass_overhead_s": 1e3 * row.amounts["training_utilization"],
            },
        )
        if row.phase == "training"
        else row
        for row in rows
    ]
    others = {name: one.other for name, one in fit(both, ASSUMED).items() if isinstance(one, Kept)}
    assert others == {
        "generation_overhead_s": "token_overhead_s",
        "pass_overhead_s": "training_utilization",
    }
    # One n x B: nothing says which part of a step grows with it.
    rows = [row for row in world(1, sizes=(64, 64))[0] if row.phase == "training"]
    found, fixed = (fit(rows, ASSUMED)[n] for n in ("training_utilization", "update_overhead_s"))
    assert fixed == Kept(
        value=make_config().hardware.update_overhead_s, why="alike", other="training_utilization"
    )
    assert isinstance(found, Measured)
    # The whole time is right all the same.
    at = {**ASSUMED, "training_utilization": 1 / found.value}
    assert np.median([row.predicted(at) / row.seconds for row in rows]) == pytest.approx(1, abs=0.1)
    assert found.value != pytest.approx(settings["training_utilization"], rel=0.1)


def test_what_was_not_recorded_or_is_uncertain_is_kept() -> None:
    rows, _ = world(2)
    found = fit([row for row in rows if row.phase != "start-up"], ASSUMED)
    assert found["startup_s"] == Kept(value=make_config().hardware.startup, why="absent")
    rng = np.random.default_rng(0)
    noisy = [
        replace(row, seconds=row.seconds * rng.lognormal(0, 1.5))
        for row in world(2, sizes=(16, 24))[0]
    ]
    kept = [one for one in fit(noisy, ASSUMED).values() if isinstance(one, Kept)]
    assert "uncertain" in {one.why for one in kept}


def _sweep(root: Path, config: SweepConfig, runs: int) -> tuple[Plan, SweepPaths]:
    """A sweep whose first `runs` runs took the seconds that PLANTED settings predict."""
    plan = plan_of(config)
    paths = SweepPaths(root / "sweep", root / "runs")
    hardware = replace(config.hardware, **PLANTED)
    slower = replace(config, hardware=hardware)
    (table,) = candidates_of(slower)
    for run in plan.runs[:runs]:
        files = paths.run(run.run_id)
        files.root.mkdir(parents=True)
        append_attempt(files.records, AttemptStart(attempt=1, parent=None, resumed_step=0))
        i = table.num_generations.tolist().index(run.num_generations)
        j = table.problems_per_batch.tolist().index(run.problems_per_batch)
        rollouts = run.num_generations * run.problems_per_batch
        training, generation = (
            float(each[i, j]) for each in (table.phases.training, table.phases.generation)
        )
        for step in (0, 10, 40):
            scoring = PLANTED["step_overhead_s"] + rollouts * PLANTED["answer_overhead_s"]
            compute = Compute(
                generations=step,
                rollouts=step * rollouts,
                prompt_tokens=step * rollouts * round(config.task.planned_prompt_tokens),
                completion_tokens=step * rollouts * round(config.task.planned_completion_tokens),
                training_hardware_flops=step
                * training
                * PLANTED["training_utilization"]
                * hardware.peak_flops,
                generation_seconds=step * generation,
                scoring_seconds=step * scoring,
                device_seconds=step * float(table.phases.total[i, j]),
                startup_seconds=hardware.startup,
            )
            record = Record(
                step=step,
                compute=compute,
                successes=(0,),
                samples_per_problem=1,
                completion_tokens=1.0,
                unix_time=0.0,
                seconds=float(evaluation_seconds(slower)[0]),
            )
            append_record(files.records, 1, record)
    return plan, paths


def test_a_calibrated_plan_predicts_what_was_measured(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    plan, paths = _sweep(tmp_path, config, runs=18)
    calibration = calibrate(config, plan, paths)
    assert calibration.runs == 18
    assert all(error.after < 1e-6 < error.before for error in calibration.phases.values())
    after = calibrated(config)
    assert after.hardware.calibrated_from == "sweep"
    for name, value in PLANTED.items():
        assert getattr(after.hardware, name) == pytest.approx(value, rel=1e-4), name
    slower = replace(config, hardware=replace(config.hardware, **PLANTED))
    for run, expected in zip(plan_of(after).runs, plan_of(slower).runs, strict=True):
        assert run.seconds == pytest.approx(expected.seconds, rel=1e-4)
    # Another model, or a user who says no, keeps the assumed numbers.
    assert calibrated(make_config(f"sweeps_dir={tmp_path}", "model=qwen-1.5b")).hardware == (
        make_config("model=qwen-1.5b").hardware
    )
    kept = make_config(f"sweeps_dir={tmp_path}", "hardware.calibrated=false")
    assert calibrated(kept) == kept
    assert plan_of(after).plan_id == plan.plan_id
    document = json.loads((tmp_path / "calibration.json").read_text())
    assert document["version"] == 2
    stored = document["entries"][KEY]["settings"]
    # What is not determined is not stored: later plans assume what their hardware says.
    assert set(stored) == set(SETTINGS) - {"generation_overhead_s", "pass_overhead_s"}
    assert all(one["low"] <= one["value"] <= one["high"] for one in stored.values())


def test_records_that_say_less_are_calibrated_by_what_they_say(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    plan, paths = _sweep(tmp_path, config, runs=18)
    for path in paths.runs.glob("*/records/1.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines[1:]:
            del line["compute"]["startup_seconds"], line["compute"]["training_hardware_flops"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = calibrate(config, plan, paths).settings
    assert settings["startup_s"] == Kept(value=config.hardware.startup, why="absent")
    assert settings["training_utilization"].value == pytest.approx(0.4, rel=1e-3)


# As version 1 fitted it, to the time of whole steps.
V1 = {
    "training_utilization": 0.3,
    "generation_utilization": 0.2,
    "step_overhead_s": 0.05,
    "token_overhead_s": 0.001,
    "sweep": "old",
    "runs": 4,
    "median_error": 0.1,
}


def test_a_calibration_of_version_1_is_read_and_kept_beside_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    other = "cpu, other, transformers"
    file.write_text(json.dumps({"version": 1, "entries": {KEY: V1, other: V1}}))
    config = make_config(f"sweeps_dir={tmp_path}")
    hardware: HardwareConfig = calibrated(config).hardware
    assert hardware.calibrated_from == "old"
    assert all(getattr(hardware, name) == V1[name] for name in list(V1)[:4])
    # Whole steps were fitted: nothing comes on top.
    assert hardware.update_overhead_s == hardware.answer_overhead_s == 0
    calibrate(config, *_sweep(tmp_path, config, runs=18))
    document = json.loads(file.read_text())
    assert document["version"] == 2
    settings = document["entries"][other]["settings"]
    assert {name: one["value"] for name, one in settings.items()} == {
        **{name: V1[name] for name in list(V1)[:4]},
        **dict.fromkeys(
            (
                *("generation_overhead_s", "update_overhead_s"),
                *("pass_overhead_s", "answer_overhead_s"),
            ),
            0.0,
        ),
    }


def test_what_a_run_alone_was_measured_at_is_not_assumed_of_runs_that_share(tmp_path: Path) -> None:
    entries = {"h100, tiny, transformers": V1}
    (tmp_path / "calibration.json").write_text(json.dumps({"version": 1, "entries": entries}))
    asked = (f"sweeps_dir={tmp_path}", "hardware=h100")
    assert calibrated(make_config(*asked)).hardware.calibrated_from == "old"
    shared = make_config(*asked, "launcher.runs_per_device=2")
    assert calibrated(shared) == shared


def test_a_damaged_calibration_is_reported(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    entries = (
        {"training_utilization": 2.0},
        {"sweep": "s", "settings": {"training_utilization": {"value": "much"}}},
        {"sweep": "s", "settings": {"training_utilization": {"value": 2.0}}},
        {"sweep": "s", "settings": {"of_another_version": {"value": 2.0}}},
        {"sweep": "s", "settings": [1]},
    )
    for text in ("{", "[]", *(json.dumps({"entries": {KEY: entry}}) for entry in entries)):
        (tmp_path / "calibration.json").write_text(text)
        with pytest.raises(RecordError, match="not a calibration"):
            calibrated(config)


def test_too_few_runs_calibrate_nothing(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    plan, paths = _sweep(tmp_path, config, runs=3)
    with pytest.raises(RecordError, match="3 runs have trained; calibration takes 4"):
        calibrate(config, plan, paths)
    assert not (tmp_path / "calibration.json").exists()
