"""Measured efficiencies: fitted to the seconds that a sweep recorded, used by the plans after it.

`<sweeps_dir>/calibration.json` holds one entry for each hardware, model and generation backend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.config.sweep import SweepConfig
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, read_json, write_json
from isosweep.plan.cells import Plan
from isosweep.plan.coefficients import (
    PHASES,
    SETTINGS,
    Kept,
    Measured,
    PhaseName,
    Timed,
    coefficient,
    coefficients,
    fit,
)
from isosweep.plan.phases import timed_phases
from isosweep.plan.spec import reached
from isosweep.reserved import CALIBRATION
from isosweep.store.paths import SweepPaths

# 2: only what the records determine, with intervals. 1: four numbers for the whole step.
CALIBRATION_VERSION = 2
_LEAST_RUNS = 4
# What version 1 fitted, to the whole time of a step: no other overheads were counted beside it.
_WHOLE_STEP = (
    *("training_utilization", "generation_utilization", "step_overhead_s", "token_overhead_s"),
)
_NONE_BESIDE = dict.fromkeys(
    ("generation_overhead_s", "update_overhead_s", "pass_overhead_s", "answer_overhead_s"), 0.0
)


@dataclass(frozen=True, kw_only=True)
class PhaseError:
    """How far a phase's predictions are off, as the median of |predicted / measured - 1|; `seconds`
    were measured in all runs together."""

    seconds: float
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What `runs` runs of a sweep say of each setting, in place of the values `planned` with.

    `key`: the hardware, model and backend that it holds for; `file`: where it is stored.
    """

    key: str
    file: Path
    runs: int
    planned: Mapping[str, float]
    settings: Mapping[str, Measured | Kept]
    phases: Mapping[PhaseName, PhaseError]


def calibrate(config: SweepConfig, plan: Plan, paths: SweepPaths) -> Calibration:
    """Fit each phase of a sweep's runs to its own seconds, and store what they determine.

    Raises RecordError when fewer than four runs have trained.
    """
    rows = timed_phases(config, plan, paths)
    trained = len({row.run for row in rows if row.phase == "training"})
    if trained < _LEAST_RUNS:
        raise RecordError(
            f"{paths.root}: {trained} runs have trained; calibration takes {_LEAST_RUNS} or more"
        )
    assumed = coefficients(reached(config), config.hardware.startup)
    settings = fit(rows, assumed)
    fitted = {name: coefficient(name, one.value) for name, one in settings.items()}
    calibration = Calibration(
        key=_key(config),
        file=_file(paths.runs.parent),
        runs=trained,
        planned={name: coefficient(name, assumed[name]) for name in SETTINGS},
        settings=settings,
        phases=_phase_errors(rows, assumed, fitted),
    )
    _store(calibration, paths.root.name)
    return calibration


def _phase_errors(
    rows: Sequence[Timed], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[PhaseName, PhaseError]:
    """Of every phase that was recorded."""
    errors: dict[PhaseName, PhaseError] = {}
    for phase in PHASES:
        own = [row for row in rows if row.phase == phase]
        if own:
            measured = np.array([row.seconds for row in own])
            first, last = (
                np.abs(np.array([row.predicted(given) for row in own]) / measured - 1)
                for given in (before, after)
            )
            errors[phase] = PhaseError(
                seconds=float(measured.sum()),
                before=float(np.median(first)),
                after=float(np.median(last)),
            )
    return errors


def _store(calibration: Calibration, sweep: str) -> None:
    """Put it into its file, beside the entries of other hardware, models and backends."""
    document = read_json(calibration.file) or {"entries": {}}
    entries = {key: _current(entry) for key, entry in document["entries"].items()}
    entries[calibration.key] = {
        "sweep": sweep,
        "runs": calibration.runs,
        "settings": {
            name: {"value": one.value, "low": one.low, "high": one.high}
            for name, one in calibration.settings.items()
            if isinstance(one, Measured)
        },
    }
    write_json(calibration.file, {"version": CALIBRATION_VERSION, "entries": entries})


def _current(entry: JsonObject) -> JsonObject:
    """An entry as version 2 has it; one of version 1 has no intervals."""
    if "settings" in entry:
        return entry
    numbers = {name: float(entry[name]) for name in _WHOLE_STEP} | _NONE_BESIDE
    settings = {name: {"value": value} for name, value in numbers.items()}
    return {"sweep": entry["sweep"], "settings": settings}


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
        entry = _current(entry)
        numbers: dict[str, Any] = {
            name: float(one["value"]) for name, one in entry["settings"].items()
        }
        measured = replace(config.hardware, **numbers, calibrated_from=str(entry["sweep"]))
    except (KeyError, TypeError, ValueError, AttributeError, SettingError) as error:
        remedy = "remove it, or set hardware.calibrated=false"
        raise RecordError(f"{file}: not a calibration ({error!r}); {remedy}") from None
    return replace(config, hardware=measured)


def _file(sweeps: Path) -> Path:
    return sweeps / CALIBRATION


def _key(config: SweepConfig) -> str:
    runs = config.launcher.runs_per_device
    shared = f", {runs} runs a device" if runs > 1 else ""
    return f"{config.hardware.name}, {config.model.name}, {config.generation.name}{shared}"
