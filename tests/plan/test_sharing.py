"""Runs that share a device: each is planned with its part of memory and speed."""

import math

import numpy as np
import pytest

from isosweep.costs.padding import longest_of
from isosweep.modes.stored import places_of
from isosweep.plan.cells import predicted
from isosweep.plan.spec import reached
from isosweep.plan.study import Study, resolve
from tests.conftest import candidates_of, make_config

GPU = ("model=qwen-0.5b", "hardware=h100", "budget=1e18", "grid.tolerance=0.1")
THREE = "launcher.runs_per_device=3"


def study(*overrides: str) -> Study:
    return resolve(make_config(*GPU, *overrides))


def test_memory_and_vllms_share_are_parts_of_the_device() -> None:
    whole, part, third = (
        candidates_of(make_config(*GPU)),
        candidates_of(make_config(*GPU, THREE)),
        80e9 / 3,
    )
    room = third * 0.9
    memory = part[0].memory
    fits = memory.micro_batch > 0
    assert fits.any()
    assert (memory.peak[fits] <= room).all()
    assert all(0 < run.vllm_share <= 0.9 / 3 for run in study(THREE).plan.runs)
    assert (memory.concurrency <= whole[0].memory.concurrency).all()


def test_speed_is_shared_and_overheads_are_not() -> None:
    # With transformers as many rollouts are decoded at once, whatever the memory.
    plain = ("generation=transformers", "recipe.micro_batch=1")
    (whole,), (part,) = (candidates_of(make_config(*GPU, *plain, *o)) for o in ((), (THREE,)))
    for phase in ("training", "update"):
        assert np.allclose(getattr(part.phases, phase), 3 * getattr(whole.phases, phase))
    decoded = longest_of(whole.config.task.lengths, whole.completions.astype(float)) - 1
    beside = decoded * reached(whole.config).token_overhead_s
    assert np.allclose(part.phases.generation - beside, 3 * (whole.phases.generation - beside))
    assert np.allclose(part.phases.overhead, whole.phases.overhead)
    assert (part.phases.total < 3 * whole.phases.total).all()


def test_device_hours_count_the_part_that_a_run_takes() -> None:
    shared = study(THREE).plan
    runs = {run.run_id: run for run in shared.runs}
    last = [c for c in shared.cells if c.num_steps == runs[c.run_id].num_steps]
    assert last
    for cell in last:
        assert math.isclose(
            predicted(cell.device_hours), predicted(runs[cell.run_id].seconds) / 3 / 3600
        )


def test_every_share_of_every_inherited_gpu_is_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isosweep.devices._driver_devices", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert places_of(study()) == 2
    assert places_of(study(THREE)) == 6
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert places_of(study()) is None


def test_runs_with_the_same_micro_batch_are_the_same_runs() -> None:
    fixed = "recipe.micro_batch=1"
    ids = {run.run_id for run in study(fixed).plan.runs}
    assert {run.run_id for run in study(fixed, THREE).plan.runs} <= ids
