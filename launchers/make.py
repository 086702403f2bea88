"""The launcher that a config asks for."""

from typing import assert_never

from isosweep.config.sweep import SweepConfig
from isosweep.devices import visible_devices
from isosweep.launchers.auto import settled
from isosweep.launchers.cluster import require_slurm
from isosweep.launchers.command import CommandLauncher
from isosweep.launchers.inline import InlineLauncher
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
        case "command":
            on_gpus = config.hardware.device == "cuda"
            gpus = config.hardware.devices_per_run if on_gpus else 0
            return CommandLauncher(config.launcher, gpus)
        case "inline":
            return InlineLauncher()
        case "auto":
            return make_launcher(settled(config)[0])
        case _ as name:
            assert_never(name)
