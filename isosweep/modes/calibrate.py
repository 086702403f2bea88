"""`mode=calibrate`: what a sweep's seconds say of each setting of the time model, as tables."""

from rich.console import Console
from rich.table import Table

from isosweep.config.sweep import SweepConfig
from isosweep.modes.directory import stored_sweep
from isosweep.modes.terminal import say
from isosweep.plan.calibration import Calibration, calibrate
from isosweep.plan.coefficients import PHASES, RELATIVE_ERROR, Kept, Measured
from isosweep.words.numbers import in_hours


def calibrate_sweep(config: SweepConfig, console: Console) -> int:
    """Fit the time model to the sweep that `config` names, store it and show it."""
    sweep = stored_sweep(config)
    sweep.require_own("mode=calibrate")
    calibration = calibrate(sweep.config, sweep.plan, sweep.paths)
    say(console, f"{calibration.key}: each phase of {calibration.runs} runs")
    console.print(_phases(calibration))
    console.print(_settings(calibration))
    say(
        console,
        f"{calibration.file}: later plans on this hardware use it; hardware.calibrated=false: not",
    )
    return 0


def _phases(calibration: Calibration) -> Table:
    """What each phase took, and how far predictions are off."""
    table = Table("phase", "measured", "median error before", "after")
    for phase in PHASES:
        error = calibration.phases.get(phase)
        if error is None:
            table.add_row(phase, "not recorded", "", "")
        else:
            measured = in_hours(error.seconds / 3600)
            table.add_row(phase, measured, f"{error.before:.0%}", f"{error.after:.0%}")
    return table


def _settings(calibration: Calibration) -> Table:
    """Every setting: what it was planned with, and what was measured, or why it was not."""
    table = Table()
    table.add_column("hardware.", no_wrap=True)
    for title in ("in", "planned with", "measured (95% interval)"):
        table.add_column(title)
    for name, planned in calibration.planned.items():
        phases = ", ".join(phase for phase, settings in PHASES.items() if name in settings)
        table.add_row(name, phases, f"{planned:.3g}", _result(calibration.settings[name]))
    return table


def _result(result: Measured | Kept) -> str:
    match result:
        case Measured():
            return f"{result.value:.3g} ({result.low:.3g} to {result.high:.3g})"
        case Kept(why="absent"):
            return "kept: not measured, since it was not recorded"
        case Kept(why="alike"):
            return f"kept: cannot be separated from {result.other} in these records"
        case Kept():
            limit = f"{RELATIVE_ERROR:.0%} of it"
            return f"kept: its standard error is above {limit}"
