"""The launcher that a config asks for."""

from typing import assert_never

from isosweep.config.sweep import SweepConfig
from isosweep.devices import visible_devices
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.queue import Launcher
from isosweep.launchers.slurm import SlurmLauncher, gpus_of_job


def make_launcher(config: SweepConfig) -> Launcher:
    """Where the runs of a sweep execute. Raises PreflightError where that is not available."""
    match config.launcher.name:
        case "slurm":
            return SlurmLauncher(config.launcher.slurm, gpus_of_job(config))
        case "local":
            devices = visible_devices() if config.hardware.device == "cuda" else None
            return LocalLauncher(devices=devices, per_run=config.hardware.devices_per_run)
        case _ as name:
            assert_never(name)
