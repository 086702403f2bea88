"""Plans on hardware that has records: one factor a phase, by the runs in `sweeps_dir`."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.config.base import replaced
from isosweep.config.hardware import PHASES, MeasuredTimes
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.files import to_json
from isosweep.modes.run_files import store_runs
from isosweep.modes.sweeps import sweep_paths
from isosweep.plan.calibration import calibrated, planned_times
from isosweep.plan.study import resolve, resolve_stored
from isosweep.store.paths import RunPaths
from tests.conftest import make_config
from tests.modes.sweeps import recorded

TOOK = {"generation": 1.5, "training": 0.8, "evaluation": 2.0, "start": 3.0}


def trained(config: SweepConfig, took: Mapping[str, float] = TOOK, runs: int = 5) -> None:
    """Runs of the config's plan whose phases took so many times what was planned; one more of them
    took a hundred times that."""
    study = resolve(config)
    (table,) = study.candidates
    every = planned_times(table, study.plan)
    store_runs(study, sweep_paths(study))
    for place, run in enumerate(study.plan.runs[:runs]):
        planned = every[run.run_id]
        times = 1.0 if place else 100.0
        seconds = {each: planned["seconds"][each] * took[each] * times for each in PHASES}
        steps = [
            Compute(
                generations=step,
                rollouts=step,
                generation_seconds=step * seconds["generation"] * config.devices_taken,
                device_seconds=step
                * config.devices_taken
                * (seconds["generation"] + seconds["training"]),
                startup_seconds=seconds["start"] * config.devices_taken,
            )
            for step in (0, 10, 40)
        ]
        files = RunPaths(Path(config.sweeps_dir) / "runs" / run.run_id)
        recorded(files, [(each, (1,)) for each in steps], seconds=seconds["evaluation"])


def test_the_median_run_corrects_each_phase_of_later_plans(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    before = resolve(config)
    trained(config)
    after = resolve(config)
    measured = after.config.hardware.calibrated_from
    assert measured is not None
    assert measured.runs == 5
    assert {each: getattr(measured, each) for each in PHASES} == pytest.approx(TOOK)
    assert str(measured) == (
        "5 runs on this hardware: generation x1.5, training x0.8, evaluation x2, start x3"
    )
    (assumed,), (table,) = before.candidates, after.candidates
    assert table.phases.generation == pytest.approx(1.5 * assumed.phases.generation)
    learning = (each.phases.total - each.phases.generation for each in (assumed, table))
    first, second = learning
    assert second == pytest.approx(0.8 * first)
    for one, other in zip(before.plan.runs, after.plan.runs, strict=True):
        assert other.evaluation_seconds == pytest.approx(2 * one.evaluation_seconds)
    # What is trained does not depend on what was measured, nor do later measurements.
    assert after.plan.plan_id == before.plan.plan_id
    assert planned_times(table, after.plan) == {
        run_id: each | {"seconds": pytest.approx(each["seconds"])}
        for run_id, each in planned_times(assumed, before.plan).items()
    }


@pytest.mark.parametrize(
    "other",
    [
        *("hardware.calibrated=false", "hardware.training_utilization=0.2", "model.name=other"),
        *("hardware.peak_flops=1e11", "budget_unit=device_hours"),
        "grid.axes={model.name:[a,b]}",
    ],
)
def test_runs_of_another_kind_correct_nothing(other: str, tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    trained(config)
    changed = make_config(f"sweeps_dir={tmp_path}", other)
    assert calibrated(changed) == changed


def test_three_runs_correct_nothing_and_a_price_keeps_the_kind(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}", "hardware.dollars_per_hour=2")
    trained(config, runs=3)
    assert calibrated(config) == config
    trained(config, runs=4)
    plain = make_config(f"sweeps_dir={tmp_path}")
    assert calibrated(plain).hardware.calibrated_from is not None


def test_what_was_not_recorded_or_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    config = make_config(f"sweeps_dir={tmp_path}")
    trained(config, {**TOOK, "evaluation": 0.0}, runs=7)
    first, second, *_ = (path.parent for path in (tmp_path / "runs").glob("*/records"))
    (first / "spec.json").write_text("{")
    document = json.loads((second / "spec.json").read_text())
    (second / "spec.json").write_text(json.dumps(document | {"planned": None}))
    (tmp_path / "runs" / "stray").mkdir()
    measured = calibrated(config).hardware.calibrated_from
    assert measured is not None
    assert (measured.runs, measured.evaluation) == (5, 1.0)
    assert measured.generation == pytest.approx(1.5)


def test_factors_are_stored_and_choose_no_micro_batch() -> None:
    config = make_config("model=qwen-1.5b", "budget=1e19", "hardware=h100")
    kept = MeasuredTimes(runs=4, generation=0.1, training=30.0)
    slower = replaced(config, hardware=replaced(config.hardware, calibrated_from=kept))
    assert sweep_config(to_json(slower.model_dump())) == slower
    first, second = (resolve_stored(each, measured=False) for each in (config, slower))
    assert [run.run_id for run in second.plan.runs] == [run.run_id for run in first.plan.runs]
    assert second.device_hours > 5 * first.device_hours
