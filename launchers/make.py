"""The launcher that a config asks for."""

from typing import assert_never

from isosweep.config.sweep import SweepConfig
from isosweep.devices import visible_devices
from isosweep.launchers.cluster import require_slurm
from isosweep.launchers.launcher import Launcher
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.slurm import SlurmLauncher


def make_launcher(config: SweepConfig) -> Launcher:
    """Where the runs of a sweep execute. Raises PreflightError where that is not available."""
    match config.launcher.name:
        case "slurm":
            require_slurm()
            return SlurmLauncher(config)
        case "local":
            devices = visible_devices() if config.hardware.device == "cuda" else None
            return LocalLauncher(devices=devices, per_run=config.hardware.devices_per_run)
        case _ as name:
            assert_never(name)
