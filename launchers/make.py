"""The launcher that a config asks for."""

from typing import assert_never

from isosweep.config.sweep import SweepConfig
from isosweep.launchers.local import LocalLauncher
from isosweep.launchers.queue import Launcher
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.machine import visible_gpus


def make_launcher(config: SweepConfig) -> Launcher:
    """Where the runs of a sweep execute. Raises PreflightError where that is not available."""
    match config.launcher.name:
        case "slurm":
            return SlurmLauncher(config.launcher.slurm)
        case "local":
            gpus = visible_gpus() if config.hardware.device == "cuda" else 0
            return LocalLauncher(gpus=gpus, devices=config.hardware.devices_per_run)
        case _ as name:
            assert_never(name)
