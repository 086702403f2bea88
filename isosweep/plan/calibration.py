"""Measured efficiencies: fitted to the step times of a sweep, used by the plans after it.

`<sweeps_dir>/calibration.json` holds one entry for each hardware, model and generation backend.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records

CALIBRATION_VERSION = 1
_LEAST_RUNS = 4
_REWEIGHTINGS = 30
# Relative errors below this are all as good as none.
_EXACT = 0.005


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Measured seconds of one generation and its updates, and what the time model says of it.

    `training` and `generation` are predicted seconds at full utilization, `positions` those
    decoded one after the other, `update` seconds that are not fitted.
    """

    measured: float
    training: float
    generation: float
    positions: float
    update: float


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """The four numbers of `HardwareConfig` that are measured, not read off a datasheet."""

    training_utilization: float
    generation_utilization: float
    step_overhead_s: float
    token_overhead_s: float

    def predict(self, step: StepTime) -> float:
        """Seconds of a generation and its updates."""
        return (
            step.training / self.training_utilization
            + step.generation / self.generation_utilization
            + step.update
            + self.step_overhead_s
            + self.token_overhead_s * step.positions
        )


def fit_efficiency(steps: Sequence[StepTime]) -> Efficiency:
    """Least absolute relative errors, no cause below zero: a run that shared its machine with
    something else for a while does not bend the rest.

    A cause that the steps cannot distinguish from another may take its share: the prediction is
    fitted, not each number. No utilization exceeds 1: what is fitted is the time on top of that.
    """
    from scipy.optimize import nnls

    causes = np.array([[s.training, s.generation, 1.0, s.positions] for s in steps])
    measured = np.array([s.measured for s in steps])
    least = np.array([s.training + s.generation + s.update for s in steps])
    scale = np.linalg.norm(causes / measured[:, None], axis=0)
    relative, wanted = causes / measured[:, None] / scale, 1 - least / measured
    shares, _ = nnls(relative, wanted)
    # Least squares with weights 1 / |error| come to least absolute errors.
    for _ in range(_REWEIGHTINGS):
        root = np.abs(relative @ shares - wanted).clip(_EXACT) ** -0.5
        shares, _ = nnls(relative * root[:, None], wanted * root)
    training, generation, step, token = (shares / scale).tolist()
    return Efficiency(
        training_utilization=1 / (1 + training),
        generation_utilization=1 / (1 + generation),
        step_overhead_s=step,
        token_overhead_s=token,
    )


def step_times(config: SweepConfig, plan: Plan, paths: SweepPaths) -> list[StepTime]:
    """Mean step time of every run that has trained at all, variants of `grid.axes` included."""
    ideal = replace(
        config.hardware,
        training_utilization=1.0,
        generation_utilization=1.0,
        step_overhead_s=0.0,
        token_overhead_s=0.0,
    )
    times = []
    for table in enumerate_candidates(combinations(replace(config, hardware=ideal))):
        n, B = table.num_generations.tolist(), table.problems_per_batch.tolist()
        for run in plan.runs:
            if run.axes != table.variant.axes:
                continue
            records = read_records(paths.run(run.run_id).records).records
            spent = records[-1].compute if records else None
            if spent is None or spent.generations == 0:
                continue
            at = n.index(run.num_generations), B.index(run.problems_per_batch)
            times.append(
                StepTime(
                    measured=spent.device_seconds / spent.generations / config.devices,
                    training=float(table.phases.training[at]),
                    generation=float(table.phases.generation[at]),
                    positions=float(table.phases.positions[at]),
                    update=float(table.phases.update[at]),
                )
            )
    return times


def median_error(efficiency: Efficiency, steps: Sequence[StepTime]) -> float:
    """Median of |predicted / measured - 1| over the runs."""
    return float(np.median([abs(efficiency.predict(s) / s.measured - 1) for s in steps]))


def calibrate(config: SweepConfig, plan: Plan, paths: SweepPaths) -> str:
    """Fit the sweep's step times and store the result; returns a report for the user.

    Raises RecordError when fewer than four runs have trained.
    """
    steps = step_times(config, plan, paths)
    if len(steps) < _LEAST_RUNS:
        raise RecordError(
            f"{paths.root}: {len(steps)} runs have trained; calibration takes {_LEAST_RUNS} or more"
        )
    hardware = config.hardware
    before = Efficiency(**{name: getattr(hardware, name) for name in Efficiency.__annotations__})
    after = fit_efficiency(steps)
    file = _file(paths.runs.parent)
    document = read_json(file) or {"version": CALIBRATION_VERSION, "entries": {}}
    document["entries"][_key(config)] = {
        **asdict(after),
        "sweep": paths.root.name,
        "runs": len(steps),
        "median_error": median_error(after, steps),
    }
    write_json(file, document)
    return (
        f"{_key(config)}: step times of {len(steps)} runs, median error "
        f"{median_error(before, steps):.0%} before, {median_error(after, steps):.0%} after\n"
        f"{file}: used by every plan on this hardware (hardware.calibrated=false: not)"
    )


def calibrated(config: SweepConfig) -> SweepConfig:
    """The config with measured efficiencies, where `sweeps_dir` has any for it.

    Raises RecordError when they cannot be understood.
    """
    file = _file(Path(config.sweeps_dir).absolute())
    if not config.hardware.calibrated or not file.is_file():
        return config
    try:
        entry = (read_json(file) or {})["entries"].get(_key(config))
        if entry is None:
            return config
        numbers: dict[str, Any] = {name: float(entry[name]) for name in Efficiency.__annotations__}
        measured = replace(config.hardware, **numbers, calibrated_from=str(entry["sweep"]))
    except (KeyError, TypeError, ValueError) as error:
        remedy = "remove it, or set hardware.calibrated=false"
        raise RecordError(f"{file}: not a calibration ({error!r}); {remedy}") from None
    return replace(config, hardware=measured)


def _file(sweeps: Path) -> Path:
    return sweeps / "calibration.json"


def _key(config: SweepConfig) -> str:
    runs = config.launcher.runs_per_device
    shared = f", {runs} runs a device" if runs > 1 else ""
    return f"{config.hardware.name}, {config.model.name}, {config.generation.name}{shared}"
