"""Predicted times, corrected by what runs on the same hardware took: one factor a phase.

A run's `spec.json` has the seconds that each phase was planned with, before any correction, and its
records have what they took. The factor of a phase is the median of measured over planned seconds.
It holds the overheads of a small model and the lengths of its answers as well, so that it counts
for runs of one model, one generation backend and one trainer on one hardware with its settings.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from isosweep.config.base import replaced
from isosweep.config.hardware import PHASES, MeasuredTimes, Phase
from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject, names, read_json
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan
from isosweep.reserved import RUNS
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records

# The median of fewer runs is chance.
_LEAST_RUNS = 4
# Settings of the hardware by which nothing takes longer.
_NO_TIME = {"dollars_per_hour": None, "calibrated": True, "calibrated_from": None}
# Groups whose settings tell one kind of run from another, beside the hardware.
_OF_A_KIND = ("model", "generation", "trainer")


def calibrated(config: SweepConfig) -> SweepConfig:
    """The config with factors of its phases, where four or more of its kind of run have trained.

    Budgets in device-hours keep the assumed times, which chose their cells: the same command makes
    the same plan while its runs go on. So do axes of several kinds, and phases that overlap.
    """
    axes = {axis.partition(".")[0] for axis in config.grid.axes or {}}
    unmeasured = axes & {*_OF_A_KIND} or config.generation.overlap
    if not config.hardware.calibrated or config.unit == "device_hours" or unmeasured:
        return config
    found = list(measured_ratios(Path(config.sweeps_dir).absolute() / RUNS, config))
    if len(found) < _LEAST_RUNS:
        return config
    of_phase = {phase: [run[phase] for run in found if phase in run] for phase in PHASES}
    factors = {phase: float(np.median(ratios)) for phase, ratios in of_phase.items() if ratios}
    measured = MeasuredTimes(runs=len(found), **factors)
    return replaced(config, hardware=replaced(config.hardware, calibrated_from=measured))


def planned_times(table: Candidates, plan: Plan) -> dict[str, JsonObject]:
    """What `spec.json` has of the planned seconds of each of the table's runs, by run id.

    Of one batch of n x B rollouts its `generation` and its `training`, all else of a step; of one
    `evaluation`; of the `start`. Nothing of runs whose phases overlap.
    """
    if table.config.generation.overlap:
        return {}
    hardware, planned = table.config.hardware, {}
    arrays = {
        "generation": table.phases.generation,
        "training": table.phases.learning,
        "evaluation": table.evaluation_seconds,
        "start": np.full(table.seconds.shape, hardware.startup),
    }
    for run in plan.of_axes(table.variant.axes).runs:
        pair = table.pair(run.num_generations, run.problems_per_batch)
        seconds = {phase: float(arrays[phase][pair]) / hardware.factor(phase) for phase in PHASES}
        planned[run.run_id] = {"kind": _kind(table.config), "seconds": seconds}
    return planned


def _kind(config: SweepConfig) -> str:
    """Runs of one kind have this in common."""
    settings = replaced(config.run_hardware, **_NO_TIME).model_dump()
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    groups = (getattr(config, group).name for group in _OF_A_KIND)
    return ", ".join((config.hardware.name, *groups, digest))


def measured_ratios(root: Path, config: SweepConfig) -> Iterator[dict[Phase, float]]:
    """Measured over planned seconds of each phase, of every run of that kind below `root`."""
    kind = _kind(config)
    for name in names(root):
        run = RunPaths(root / name)
        # What cannot be read is said by whoever needs the run.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            planned = (read_json(run.spec) or {})["planned"]
            if planned["kind"] == kind and (took := measured_times(run, config.devices_taken)):
                of = planned["seconds"]
                yield {phase: each / of[phase] for phase, each in took.items() if each > 0}


def measured_times(run: RunPaths, devices: int) -> dict[Phase, float]:
    """Seconds as `planned_times` has them; none of a run whose phases were not recorded."""
    first, *more = read_records(run.records).records or (None,)
    if first is None or not more or not (spent := more[-1].compute).generation_seconds:
        return {}
    batches = spent.generations * devices
    return {
        "generation": spent.generation_seconds / batches,
        "training": (spent.device_seconds - spent.generation_seconds) / batches,
        "evaluation": math.fsum(record.seconds for record in more) / len(more),
        "start": first.compute.startup_seconds / devices,
    }
